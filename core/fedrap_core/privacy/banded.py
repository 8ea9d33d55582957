"""Correlated (banded) noise: the coefficients of a strategy, and what they are good for.

C learns from a sum over steps. Noise that is partly taken back some steps later hurts that sum
less (BandMF, Choquette-Choo et al. 2023). With the lower triangular Toeplitz matrix of
c = (1, c_1, …, c_{b-1}) the mechanism releases x + C^-1 Z, and
    error of the sums up to step t   A C^-1 Z,  A lower triangular of ones
    charged                          mu = sqrt(K)·|c|/z, steps of a device at least b apart
`optimal_coefficients` finds the c with the least mean squared error at equal mu.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
INDEPENDENT = (1.0,)  # no bands: every step has noise of its own


def inverse_series(coefficients: Sequence[float], steps: int) -> Vector:
    """First column of C^-1: h_0 = 1, h_t = -sum_j c_j·h_{t-j}: (steps,)."""
    tail = np.asarray(coefficients[1:], dtype=np.float64)
    series = np.zeros(steps)
    series[0] = 1.0
    for step in range(1, steps if len(tail) else 1):
        reach = min(step, len(tail))
        series[step] = -float(tail[:reach] @ series[step - reach : step][::-1])
    return series


def sum_error(coefficients: Sequence[float], steps: int) -> float:
    """Root of the mean over t of the variance of the noise in the sum up to step t, at z = 1."""
    prefix = np.cumsum(inverse_series(coefficients, steps))  # first column of A C^-1
    often = np.arange(steps, 0, -1)  # how many sums each lag is part of
    return math.sqrt(float(often @ prefix**2) / steps)


def optimal_coefficients(bands: int, steps: int) -> tuple[float, ...]:
    """The c of `bands` numbers with the least |c|·`sum_error` over `steps`, to four digits.

    BFGS on the logarithm of the squared error; its gradient is exact:
    d(prefix)/dc_j = -x^j·prefix(x)/c(x) as power series.
    """
    if not 1 <= bands <= steps:
        raise ValueError(f"from 1 to {steps} bands fit {steps} steps, not {bands}")
    free = 0.5 / np.arange(1, bands)  # (bands - 1,) c_1 …
    curve = np.eye(bands - 1)  # inverse Hessian, as far as it is known
    value, slope = _log_error(free, steps)
    for _ in range(500):
        if float(np.abs(slope).max(initial=0.0)) < 1e-7:
            break
        direction = -curve @ slope
        length = 1.0
        while True:
            tried = free + length * direction
            found, steep = _log_error(tried, steps)
            if found <= value + 1e-4 * length * float(slope @ direction):
                break
            length /= 2
            if length < 1e-12:  # rounding: no better point can be told apart
                return _tidy(free)
        moved, turned = tried - free, steep - slope
        inner = float(moved @ turned)
        if inner > 1e-14:
            left = np.eye(len(free)) - np.outer(moved, turned) / inner
            curve = left @ curve @ left.T + np.outer(moved, moved) / inner
        free, value, slope = tried, found, steep
    return _tidy(free)


def _log_error(free: Vector, steps: int) -> tuple[float, Vector]:
    """log(|c|^2·mean squared error) and its gradient by c_1 …"""
    coefficients = np.concatenate([[1.0], free])
    series = inverse_series(coefficients.tolist(), steps)
    if not np.all(np.abs(series) < 1e6):  # noise that grows: out of bounds for the line search
        return math.inf, np.zeros_like(free)
    prefix = np.cumsum(series)
    often = np.arange(steps, 0, -1) / steps
    error, size = float(often @ prefix**2), float(coefficients @ coefficients)
    change = np.convolve(prefix, series)[:steps]  # prefix(x)/c(x)
    slope = np.array(
        [
            -2.0 * float((often * prefix)[lag:] @ change[: steps - lag])
            for lag in range(1, len(free) + 1)
        ]
    )
    return math.log(error * size), slope / error + 2.0 * free / size


def _tidy(free: Vector) -> tuple[float, ...]:
    """Four digits, within [0, 1] and never rising, as a plan wants them."""
    falling = np.minimum.accumulate(np.clip(free, 0.0, 1.0))
    return (1.0, *(round(float(one), 4) for one in falling))
