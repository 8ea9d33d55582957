"""The shared items C, one user's personal items D, and the score that adds them.

    z_j = <u, C_j> + <u, D_j>          the paper's score; sigmoid(z_j) is its rating

C stays int8 in memory and is read in blocks, so a catalogue of a million rows costs what its
bytes cost. D exists only for items the user touched; in `solve` a row of D has one free number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import BrokenModel, WrongShape
from fedrap_core.quantize import QuantizedRows

Floats = npt.NDArray[np.floating[Any]]
Rows = npt.NDArray[np.int64]

BLOCK = 4096  # rows read at once: they fit a cache, and BLAS starts no threads for so few
LARGEST_SCALE = 1e4  # an honest C has entries of about one


def _check_rows(rows: QuantizedRows) -> None:
    values, scales = rows.values, rows.scales
    if values.ndim != 2 or scales.shape != (values.shape[0],) or values.shape[1] < 1:
        raise BrokenModel(f"C has values {values.shape} but scales {scales.shape}")
    if not np.all((scales >= 0) & (scales <= LARGEST_SCALE)):  # false for NaN
        raise BrokenModel("C has scales that are negative, huge or not finite")


@dataclass(frozen=True, eq=False)
class SequenceRows:
    """The sequence part of a release as devices hold it; sequence/model.py has the formulas.

    Raises:
        BrokenModel: shapes that disagree, or a number that is huge or not finite.
    """

    outputs: QuantizedRows  # (m, k) C of the sequence part
    offsets: QuantizedRows  # (m, k) Delta
    bias: npt.NDArray[np.float32]  # (m,) b
    kernels: npt.NDArray[np.float32]  # (S, k) a

    def __post_init__(self) -> None:
        _check_rows(self.outputs)
        _check_rows(self.offsets)
        size, dim = self.outputs.shape
        if self.offsets.shape != (size, dim) or self.bias.shape != (size,):
            raise BrokenModel(f"C is {size} x {dim}, but its offsets or bias have another shape")
        if self.kernels.ndim != 2 or self.kernels.shape[1] != dim:
            raise BrokenModel(f"time kernels need {dim} columns, not {self.kernels.shape}")
        for part in (self.bias, self.kernels):
            if not np.all(np.abs(part) <= LARGEST_SCALE):  # false for NaN
                raise BrokenModel("a bias or time kernel is huge or not finite")

    @property
    def size(self) -> int:
        """m, the number of rows."""
        return self.outputs.shape[0]

    @property
    def dim(self) -> int:
        """k of this part."""
        return self.outputs.shape[1]

    def inputs(self, rows: Rows) -> npt.NDArray[np.float64]:
        """P = C + Delta of some items: (len(rows), k)."""
        return self.take(rows) + self.offsets.take(rows).astype(np.float64)

    def take(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Some rows of C in float64: (len(rows), k)."""
        return self.outputs.take(rows).astype(np.float64)


@dataclass(frozen=True, eq=False)
class CommonItems:
    """One release as devices hold it: C, and the sequence part where the task has one.

    Raises:
        BrokenModel: scales that are not finite, negative or huge, or shapes that disagree.
    """

    version: int
    items: QuantizedRows  # (m, k)
    sequence: SequenceRows | None = None
    trend: QuantizedRows | None = None  # (1, m) t, see trend.py

    def __post_init__(self) -> None:
        _check_rows(self.items)
        if self.sequence is not None and self.sequence.size != self.size:
            raise BrokenModel(f"{self.size} rows of C, but {self.sequence.size} of its sequence")
        if self.trend is not None:
            _check_rows(self.trend)
            if self.trend.shape != (1, self.size):
                raise BrokenModel(f"{self.size} rows of C, but a trend of {self.trend.shape}")

    @property
    def size(self) -> int:
        """m, the number of rows."""
        return int(self.items.values.shape[0])

    @property
    def dim(self) -> int:
        """k, the length of a row."""
        return int(self.items.values.shape[1])

    def take(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Some rows of C in float64: (len(rows), k)."""
        if len(rows) and (rows.min() < 0 or rows.max() >= self.size):
            raise WrongShape(f"C has {self.size} rows; row {int(rows.max())} was asked for")
        return self.items.take(rows).astype(np.float64)

    def lately(self, rows: Rows) -> npt.NDArray[np.float64]:
        """t of some items, 0 without a trend: (len(rows),)."""
        if self.trend is None:
            return np.zeros(len(rows))
        return np.asarray(self.trend.values[0, rows] * np.float64(self.trend.scales[0]))

    def gram(self, without: Rows | None = None) -> npt.NDArray[np.float64]:
        """C'C, once per release: (k, k).

        Rows of items that can be chosen no more are left out: nobody passes over those. `without`
        are distinct rows.
        """
        total = np.zeros((self.dim, self.dim))
        gone = np.zeros(self.size, dtype=np.bool_)
        if without is not None:
            gone[without] = True
        for start in range(0, self.size, BLOCK):
            here = slice(start, start + BLOCK)
            block = self.items.values[here].astype(np.float32)
            block *= np.where(gone[here], np.float32(0), self.items.scales[here])[:, None]
            total += block.T.astype(np.float64) @ block  # (<=BLOCK, k)' (<=BLOCK, k)
        return total

    def norms(self) -> npt.NDArray[np.float64]:
        """|C_j| of every item: (m,)."""
        out = np.empty(self.size)
        for start in range(0, self.size, BLOCK):
            block = self.items.values[start : start + BLOCK].astype(np.float32)
            out[start : start + BLOCK] = np.sqrt(np.einsum("jk,jk->j", block, block))
        return out * self.items.scales

    def score_blocks(self, user: Floats) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """<u, C_j> block by block, without a float copy of C: (first row, (<=BLOCK,))."""
        u = user.astype(np.float32)
        for start in range(0, self.size, BLOCK):
            yield start, _products(self.items, slice(start, start + BLOCK), u)

    def mixed_blocks(
        self, user: Floats, query: Floats, popularity: float
    ) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """<u, C_j> + <q, C'_j> + popularity·b_j, C' and b of the sequence part, block by block."""
        if self.sequence is None:
            raise BrokenModel("this release has no sequence part")
        u, q = user.astype(np.float32), query.astype(np.float32)
        biases = np.float32(popularity) * self.sequence.bias  # (m,)
        for start, scores in self.score_blocks(u):
            part = slice(start, start + BLOCK)
            yield start, scores + _products(self.sequence.outputs, part, q) + biases[part]

    def scores(self, user: Floats) -> npt.NDArray[np.float32]:
        """<u, C_j> of every item: (m,)."""
        out = np.empty(self.size, dtype=np.float32)
        for start, scores in self.score_blocks(user):
            out[start : start + len(scores)] = scores
        return out


def _products(rows: QuantizedRows, part: slice, vector: Floats) -> npt.NDArray[np.float32]:
    block = rows.values[part].astype(np.float32)  # (<=BLOCK, k)
    return np.asarray((block @ vector) * rows.scales[part])


@dataclass(frozen=True, eq=False)
class PersonalItems:
    """D of `solve`: for each item the user touched the one free number d = <u, D_j>."""

    rows: Rows  # (n,) rows of C, distinct
    offsets: npt.NDArray[np.float64]  # (n,)

    def vectors(self, user: Floats) -> npt.NDArray[np.float64]:
        """The rows D_j = d_j·u/|u|^2, for whoever wants to look into them: (n, k)."""
        square = float(user @ user)
        if square == 0:
            return np.zeros((len(self.rows), len(user)))
        return np.outer(self.offsets, user / square)


@dataclass(frozen=True, eq=False)
class History:
    """What one user did, newest first, in rows of C. An item may come more than once.

    A weight above 0 speaks for an item, one below 0 against it: what the user disliked.
    """

    rows: Rows  # (n,)
    weights: npt.NDArray[np.float64]  # (n,) how much each interaction means; 1 is a plain view
    times: npt.NDArray[np.float64] | None = None  # (n,) seconds since 1970, where they are known

    def __post_init__(self) -> None:
        times = self.weights if self.times is None else self.times
        if not self.rows.shape == self.weights.shape == times.shape:
            raise WrongShape("a history needs one weight, and one time, per interaction")
        if not np.all((self.weights != 0) & (np.abs(self.weights) <= 1e6)):  # false for NaN
            raise WrongShape("weights of interactions are not 0, and at most 1e6 either way")

    def liked(self) -> History:
        """Without what speaks against items: all that rounds ever see of a history."""
        kept = self.weights > 0
        return self if kept.all() else self._only(kept)

    def settled(self) -> History:
        """The newest word on an item counts: what speaks the other way before it is left out."""
        if not np.any(self.weights < 0):
            return self
        _, first, where = np.unique(self.rows, return_index=True, return_inverse=True)
        kept = (self.weights > 0) == (self.weights[first] > 0)[where]
        return self if kept.all() else self._only(kept)

    def _only(self, kept: npt.NDArray[np.bool_]) -> History:
        times = None if self.times is None else self.times[kept]
        return History(self.rows[kept], self.weights[kept], times)
