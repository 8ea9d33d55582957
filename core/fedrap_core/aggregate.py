"""Summing a round: one device after the other, in memory that does not depend on how many.

Every update is clipped again here: a device's own clip is a courtesy, this one is the bound that
the privacy claim rests on. Noise goes to every row, touched or not, or the rows would tell.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedrap_core.learn import RoundSum
from fedrap_core.privacy import clip_to_norm, release_noise
from fedrap_core.sparse import RowUpdate, triangle_size


class Accumulator:
    """The running sum of a round over a model of `size` rows and `dim` columns."""

    def __init__(self, size: int, dim: int, clip: float) -> None:
        self._clip = clip
        self._values = np.zeros((size, dim))
        self._triangle = np.zeros(triangle_size(dim))
        self._touched = np.zeros(size, dtype=np.bool_)
        self._devices = 0

    @property
    def devices(self) -> int:
        """How many updates are in the sum."""
        return self._devices

    @property
    def shape(self) -> tuple[int, int]:
        """(m, k) of the model."""
        return self._values.shape[0], self._values.shape[1]

    def add(self, update: RowUpdate) -> None:
        """Count one device's update, clipped to the round's norm.

        Raises:
            WrongShape, NotFinite: the update does not belong in this sum; nothing was added.
        """
        size, dim = self._values.shape
        update.check(size, dim)
        update = clip_to_norm(update, self._clip)
        self._values[update.rows] += update.values
        self._triangle += update.triangle
        self._touched[update.rows] = True
        self._devices += 1

    def total(self, noise: float, key: bytes, step: int) -> RoundSum:
        """The sum as it may be released: exact on touched rows, or noised on every row."""
        if noise == 0:
            rows = np.flatnonzero(self._touched)
            return RoundSum(rows, self._values[rows], self._triangle.copy(), self._devices)
        size, dim = self._values.shape
        stddev = noise * self._clip
        drawn = release_noise(key, step, size * dim + len(self._triangle), stddev)
        values: npt.NDArray[np.float64] = self._values + drawn[: size * dim].reshape(size, dim)
        triangle = self._triangle + drawn[size * dim :]
        return RoundSum(np.arange(size), values, triangle, self._devices)
