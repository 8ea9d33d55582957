"""float32 rows <-> int8 rows with one float32 scale each. Bit-exact on every platform.

Releases of C round to the nearest step, halves to even (`np.rint`, Java `Math.rint`, never
`Math.round`). Uploads round at random so that the sum over devices stays unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import NotFinite

Floats = npt.NDArray[np.floating[Any]]
STEPS = 127  # int8 without -128, so that a row and its negative quantise alike
_LARGEST = 1e30  # beyond this a float32 scale times 127 could overflow
_SMALLEST = np.float32(2.0**-126)  # the smallest normal float32


@dataclass(frozen=True, eq=False)
class QuantizedRows:
    """m rows of k int8 steps, each row with its own step width."""

    values: npt.NDArray[np.int8]  # (m, k)
    scales: npt.NDArray[np.float32]  # (m,)

    @property
    def shape(self) -> tuple[int, int]:
        """(m, k)."""
        return self.values.shape[0], self.values.shape[1]

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float32]:
        """The float32 values of some rows: (len(rows), k)."""
        return np.asarray(self.values[rows].astype(np.float32) * self.scales[rows, None])

    def to_float(self) -> npt.NDArray[np.float32]:
        """All rows as float32: (m, k)."""
        return self.values.astype(np.float32) * self.scales[:, None]


def quantize_rows(rows: Floats, uniform: Floats | None = None) -> QuantizedRows:
    """Round each row to int8 steps of max|row|/127; the error is at most half a step.

    With `uniform` (numbers in [0, 1) of the shape of `rows`) rounding is random and unbiased,
    the error below one step. A row whose step would be below 2^-126 becomes zeros.

    Raises:
        NotFinite: a value is NaN, infinite or above 1e30.
    """
    with np.errstate(over="ignore"):  # refused below
        rows = np.asarray(rows, dtype=np.float32)  # (m, k)
    if rows.shape[1] == 0:
        return QuantizedRows(rows.astype(np.int8), np.zeros(len(rows), dtype=np.float32))
    peak = np.max(np.abs(rows), axis=1, initial=0.0)  # (m,)
    if not np.all(peak <= _LARGEST):  # also false for NaN
        raise NotFinite("a row to quantise is not finite or above 1e30")
    scales = (peak / np.float32(STEPS)).astype(np.float32)  # (m,)
    scales[scales < _SMALLEST] = 0  # a subnormal step width is too coarse, and not portable
    width = np.where(scales > 0, scales, np.float32(1)).astype(np.float64)[:, None]
    steps = np.where(scales[:, None] > 0, rows.astype(np.float64) / width, 0.0)  # (m, k)
    whole = np.rint(steps) if uniform is None else np.floor(steps + uniform)
    values = np.clip(whole, -STEPS, STEPS).astype(np.int8)
    return QuantizedRows(values, scales)
