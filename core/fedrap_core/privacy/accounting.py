"""Epsilon of what a device has taken part in: user level, zero-out adjacency, no amplification.

Each release adds Gaussian noise of z times the clip to the sum. A device that took part in k
releases is covered by one Gaussian mechanism with mu = sqrt(k)/z, whoever else checked in and
whoever knows the roster. Noise with coefficients c (banded.py) has mu = sqrt(k)·|c|/z as long as
two participations are at least len(c) steps apart: their columns of the strategy are orthogonal.
Amplified numbers need assumptions and belong elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def charged_noise(noise: float, coefficients: Sequence[float], bit_noise: float | None) -> float:
    """The z of independent noise without a clipping bit that costs the same; 0 without noise.

    An update in units of the clip has norm 1, a bit is +1/2 or -1/2. Side by side they are one
    vector: mu^2 = |c|^2·(1/z^2 + 1/(2·bit_noise)^2) in one step (Andrew et al. 2021, Theorem 1).
    """
    if noise <= 0:
        return 0.0
    bit = 0.0 if bit_noise is None else noise / (2.0 * bit_noise)
    return noise / (math.hypot(*coefficients) * math.hypot(1.0, bit))


def noise_for(epsilon: float, delta: float, participations: int) -> float:
    """The smallest `charged_noise` with which that many participations cost at most `epsilon`."""
    if not (epsilon > 0 and participations >= 1):
        raise ValueError(f"need epsilon > 0 and a participation, got {epsilon}, {participations}")
    low, high = 1e-6, 1.0  # of mu
    while gaussian_epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        fits = gaussian_epsilon(middle, delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return math.sqrt(participations) / low


def gaussian_mu(participations: int, noise: float) -> float:
    """mu = sqrt(k)/z; infinite without noise, 0 for a device that never took part."""
    if participations == 0:
        return 0.0
    return math.sqrt(participations) / noise if noise > 0 else math.inf


def step_cost(noise: float) -> float:
    """mu^2 of one participation, which adds up over steps of any rules; infinite without noise."""
    return noise**-2 if noise > 0 else math.inf


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The delta of a mu-Gaussian mechanism at `epsilon` (Balle and Wang 2018, Eq. 6)."""
    near, far = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
    if far < 30:
        return _phi(near) - math.exp(epsilon) * _phi(-far)
    # Far out e^epsilon overflows and the tail underflows; their product is exp(-near^2/2) times
    # the Mills ratio of `far`, whose asymptotic series is good to 1e-9 here.
    tail = 1.0 / (far * far)
    mills = (1.0 - tail + 3.0 * tail**2 - 15.0 * tail**3) / far
    return _phi(near) - math.exp(-near * near / 2) * mills / math.sqrt(2 * math.pi)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon of a mu-Gaussian mechanism at `delta`, to 1e-9, from above.

    Raises:
        ValueError: delta is not inside (0, 1) or mu is negative.
    """
    if not (0 < delta < 1 and mu >= 0):  # also refuses NaN
        raise ValueError(f"need delta in (0, 1) and mu >= 0, got delta {delta}, mu {mu}")
    if mu == 0 or math.isinf(mu):
        return mu
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(mu, high) > delta:
        low, high = high, 2 * high
    while high - low > 1e-9 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(mu, middle) > delta else (low, middle)
    return high


def charged_epsilon(participations: int, noise: float, delta: float) -> float:
    """What a device is charged after `participations` releases with noise multiplier z."""
    return gaussian_epsilon(gaussian_mu(participations, noise), delta)


def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))
