"""What one device sends: some rows of a delta of C, a packed Gram matrix, and a plan's other parts.

Also the sizes that messages are padded to, so that a length says little about a history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True)
class Part:
    """What a part of an update looks like; parts.py has those of a plan."""

    name: str
    rows: int  # the most that there can be
    width: int  # numbers in a row
    whole: bool = False  # all rows come, so none is named
    most: float | None = None  # numbers lie between 0 and this; what does not is moved there

    def bounded(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Such numbers within their bounds; nothing grows by it."""
        return values if self.most is None else np.clip(values, 0.0, self.most)

    @property
    def numbers(self) -> int:
        """Of all its rows."""
        return self.rows * self.width


@dataclass(frozen=True, eq=False)
class RowPart:
    """Some rows of one part."""

    rows: Rows  # (n,) ascending, distinct
    values: npt.NDArray[np.float64]  # (n, width)

    def check(self, part: Part) -> None:
        """It is such a part, and finite; raises like `RowUpdate.check`."""
        if self.rows.ndim != 1 or self.values.shape != (len(self.rows), part.width):
            raise WrongShape(f"expected rows of {part.width} numbers, got {self.values.shape}")
        check_rows(self.rows, part)
        check_finite(self.values)


def check_rows(rows: Rows, part: Part) -> None:
    """These are rows of such a part: in range, ascending, distinct; raises WrongShape."""
    if part.whole and len(rows) != part.rows:
        raise WrongShape(f"expected all {part.rows} rows of {part.name}")
    if len(rows) and (rows[0] < 0 or rows[-1] >= part.rows):
        raise WrongShape(f"the model has {part.rows} rows")
    if (rows[1:] <= rows[:-1]).any():
        raise WrongShape("rows must be ascending and distinct")


def check_finite(values: npt.NDArray[np.float64]) -> None:
    """No number is NaN, infinite or above 1e9; raises NotFinite."""
    if not np.all(np.abs(values) <= LARGEST):  # also false for NaN
        raise NotFinite("a value is not finite or above 1e9")


@dataclass(frozen=True, eq=False)
class RowUpdate:
    """Rows g_j of the delta of C, the upper triangle of x x', and the other parts of the plan.

    Clipped and noised as one vector.
    """

    rows: Rows  # (n,) ascending, distinct
    values: npt.NDArray[np.float64]  # (n, k)
    packed_gram: npt.NDArray[np.float64]  # (k(k+1)/2,)
    fits: int = 0  # 1: within the clip as it was computed, -1: above it, 0: nobody asked
    parts: tuple[RowPart, ...] = ()  # in the order of `parts.more_parts`

    def norm(self) -> float:
        """Euclidean norm of all of it."""
        total = np.sum(self.values**2) + np.sum(self.packed_gram**2)
        return float(np.sqrt(total + sum(np.sum(part.values**2) for part in self.parts)))

    def scaled(self, factor: float) -> RowUpdate:
        """All of it times `factor`."""
        return replace(
            self,
            values=self.values * factor,
            packed_gram=self.packed_gram * factor,
            parts=tuple(RowPart(part.rows, part.values * factor) for part in self.parts),
        )

    def check(self, size: int, dim: int, parts: Sequence[Part] = ()) -> None:
        """Fits a model of `size` rows and `dim` columns with these other parts, and is finite.

        Raises:
            WrongShape: rows out of range, unordered or repeated, another dimension or other parts.
            NotFinite: a value is NaN, infinite or above 1e9.
        """
        RowPart(self.rows, self.values).check(Part("rows", size, dim))
        if self.packed_gram.shape != (packed_size(dim),):
            raise WrongShape(f"expected a triangle of {packed_size(dim)} numbers")
        check_finite(self.packed_gram)
        if len(self.parts) != len(parts):
            raise WrongShape(f"expected {len(parts)} more parts, got {len(self.parts)}")
        for mine, part in zip(self.parts, parts, strict=True):
            mine.check(part)


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
        return replace(update, packed_gram=pack_gram(nearest_semidefinite(square)))
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
