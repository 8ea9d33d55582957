"""What one device sends: some rows of a delta of C and a packed Gram matrix.

Also the sizes that messages are padded to, so that a length says little about a history.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import NotFinite, WrongShape
from fedrap_core.model import Rows

LARGEST = 1e9  # no honest update comes near
SMALLEST_BUCKET = 512


def packed_size(dim: int) -> int:
    """Numbers in the upper triangle of a k x k matrix."""
    return dim * (dim + 1) // 2


def pack_gram(square: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The upper triangle, row by row: (k(k+1)/2,)."""
    return np.asarray(square[np.triu_indices(len(square))])


def unpack_gram(packed: npt.NDArray[np.float64], dim: int) -> npt.NDArray[np.float64]:
    """The symmetric matrix of an upper triangle: (k, k)."""
    square = np.zeros((dim, dim))
    square[np.triu_indices(dim)] = packed
    return square + np.triu(square, 1).T


@dataclass(frozen=True, eq=False)
class RowUpdate:
    """Rows g_j of the delta of C and the upper triangle of x x'. Clipped and noised as one."""

    rows: Rows  # (n,) ascending, distinct
    values: npt.NDArray[np.float64]  # (n, k)
    packed_gram: npt.NDArray[np.float64]  # (k(k+1)/2,)
    fits: int = 0  # 1: within the clip as it was computed, -1: above it, 0: nobody asked

    def norm(self) -> float:
        """Euclidean norm of rows and packed Gram matrix."""
        return float(np.sqrt(np.sum(self.values**2) + np.sum(self.packed_gram**2)))

    def check(self, size: int, dim: int) -> None:
        """Fits a model of `size` rows and `dim` columns, and is finite.

        Raises:
            WrongShape: rows out of range, unordered or repeated, or another dimension.
            NotFinite: a value is NaN, infinite or above 1e9.
        """
        if self.rows.ndim != 1 or self.values.shape != (len(self.rows), dim):
            raise WrongShape(f"expected rows of {dim} numbers, got {self.values.shape}")
        if self.packed_gram.shape != (packed_size(dim),):
            raise WrongShape(f"expected a triangle of {packed_size(dim)} numbers")
        if len(self.rows) and (self.rows[0] < 0 or self.rows[-1] >= size):
            raise WrongShape(f"the model has {size} rows")
        if np.any(np.diff(self.rows) <= 0):
            raise WrongShape("rows must be ascending and distinct")
        for part in (self.values, self.packed_gram):
            if not np.all(np.abs(part) <= LARGEST):  # also false for NaN
                raise NotFinite("a value is not finite or above 1e9")


def nearest_semidefinite(square: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The nearest matrix of the cone that every mean of x x' lies in: (k, k)."""
    values, vectors = np.linalg.eigh(square)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def keep_semidefinite(update: RowUpdate, dim: int) -> RowUpdate:
    """The update, with a triangle that some sum of x x' could have given.

    A negative one would shrink S, and with it the curvature: every push on a row would count
    for more. What rounding to int8 does to an honest triangle is let through as it is.
    """
    slack = np.sqrt(dim) * float(np.abs(update.packed_gram).max(initial=0.0)) / 127.0
    if slack == 0.0:
        return update
    square = unpack_gram(update.packed_gram, dim)
    try:
        np.linalg.cholesky(square + slack * np.eye(dim))
    except np.linalg.LinAlgError:
        packed = pack_gram(nearest_semidefinite(square))
        return RowUpdate(update.rows, update.values, packed, update.fits)
    return update


def bucket_bytes(needed: int) -> int:
    """The size that a message of `needed` bytes is padded to: 512, 768, 1024, 1536, 2048, …"""
    bucket = SMALLEST_BUCKET
    while bucket < needed:
        half = bucket + bucket // 2
        if half >= needed:
            return half
        bucket *= 2
    return bucket
