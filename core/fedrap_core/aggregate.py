"""Summing a round: one device after the other, in memory that does not depend on how many.

Every update is clipped again here: a device's own clip is a courtesy, this one is the bound that
the privacy claim rests on. A Gram matrix that no x x' could have given is moved to one that could.
Noise goes to every row, touched or not, or the rows would tell.

A release's noise is one vector over all parts, in the order of parts.py: the clipping bits' sum,
the packed Gram matrix, the rows, then what else the plan has, and last the touches of rows, where
they are counted under noise. No device sends these: a touch is made here of the row's number alone,
as one more number of the update, inside its clip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedrap_core.model import Rows
from fedrap_core.privacy.banded import INDEPENDENT, inverse_series
from fedrap_core.privacy.mechanisms import (
    NO_SETS,
    UpdateSets,
    clip_rows,
    clip_to_norm,
    release_noise,
)
from fedrap_core.solve.server_step import RoundSum
from fedrap_core.sparse import Part, RowPart, RowUpdate, keep_semidefinite, packed_size


class Accumulator:
    """The running sum of a round over a model of `size` rows and `dim` columns."""

    def __init__(
        self,
        size: int,
        dim: int,
        clip: float,
        row_clip: float | None = None,
        parts: Sequence[Part] = (),
        touch: float = 0.0,
    ) -> None:
        """An empty sum.

        Args:
            parts: those beside rows and Gram matrix, as `parts.more_parts` has them.
            touch: what a touch weighs inside the clip (`server_step.touch_weight`); at 0 they are
                outside of it, and told only where there is no noise.
        """
        self._clip = clip
        self._row_clip = row_clip
        self._bound = clip if row_clip is None else min(clip, row_clip)
        self._fitting = 0.0
        self._values = np.zeros((size, dim))
        self._packed_gram = np.zeros(packed_size(dim))
        self._touches = np.zeros(size)  # devices that touched each row
        self._touch = touch
        self._parts = tuple(parts)
        summed = (*parts, Part("touches", size, 1)) if touch else self._parts
        self._more = [np.zeros((part.rows, part.width)) for part in summed]
        self._more_touched = [np.zeros(part.rows, dtype=np.bool_) for part in summed]
        self._devices = 0

    @property
    def devices(self) -> int:
        """How many updates are in the sum."""
        return self._devices

    @property
    def shape(self) -> tuple[int, int]:
        """(m, k) of the model."""
        return self._values.shape[0], self._values.shape[1]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts beside rows and Gram matrix."""
        return self._parts

    def add(self, update: RowUpdate) -> None:
        """Count one device's update, clipped row by row and to the round's norm.

        Raises:
            WrongShape, NotFinite: the update does not belong in this sum; nothing was added.
        """
        size, dim = self._values.shape
        update.check(size, dim, self._parts)
        # The clip comes last: the nearest semidefinite matrix is no longer in the norm that counts
        # entries off the diagonal twice, but up to 1.06 times as long in ours, which counts once.
        update = keep_semidefinite(clip_rows(self._bounded(update), self._row_clip), dim)
        update = clip_to_norm(self._with_touches(update), self._clip)
        self._values[update.rows] += update.values
        self._packed_gram += update.packed_gram
        self._touches[update.rows] += 1.0
        for total, touched, part in zip(self._more, self._more_touched, update.parts, strict=True):
            total[part.rows] += part.values
            touched[part.rows] = True
        self._fitting += min(1, max(-1, update.fits)) / 2
        self._devices += 1

    def _bounded(self, update: RowUpdate) -> RowUpdate:
        mine = zip(update.parts, self._parts, strict=True)
        parts = (RowPart(one.rows, part.bounded(one.values)) for one, part in mine)
        return replace(update, parts=tuple(parts))

    def _with_touches(self, update: RowUpdate) -> RowUpdate:
        if not self._touch:
            return update
        each = np.full((len(update.rows), 1), self._touch)
        return replace(update, parts=(*update.parts, RowPart(update.rows, each)))

    def total(
        self,
        noise: float,
        key: bytes,
        step: int,
        coefficients: Sequence[float] = INDEPENDENT,
        sets: UpdateSets = NO_SETS,
    ) -> RoundSum:
        """The sum as it may be released: exact on touched rows, or noised on every row."""
        if noise == 0:
            rows = np.flatnonzero(self._touches)
            mine = zip(self._parts, self._more, self._more_touched, strict=False)
            parts = tuple(_rows_of(total, np.flatnonzero(touched)) for _, total, touched in mine)
            return RoundSum(
                rows, self._values[rows], self._packed_gram.copy(), self._devices, self._bound,
                parts=parts, touches=self._touches[rows],
            )  # fmt: skip
        size, dim = self._values.shape
        stddev = noise * self._clip
        corner = 1 + len(self._packed_gram)
        numbers = corner + size * dim + sum(total.size for total in self._more)
        drawn = release_noise(key, step, numbers, stddev, coefficients, sets)
        packed = self._packed_gram + drawn[1:corner]
        noised, at = [], corner
        for total in (self._values, *self._more):
            noised.append(total + drawn[at : at + total.size].reshape(total.shape))
            at += total.size
        series = inverse_series(coefficients, max(1, step))  # N_t = sum_s h_s·Z_{t-s}
        spread = stddev * math.sqrt(sum(weight**2 for weight in series))
        touches = noised.pop()[:, 0] / self._touch if self._touch else None  # (m,)
        parts = tuple(RowPart(np.arange(len(values)), values) for values in noised[1:])
        return RoundSum(
            np.arange(size), noised[0], packed, self._devices, self._bound, spread, parts,
            touches=touches, touches_spread=spread / self._touch if self._touch else 0.0,
        )  # fmt: skip

    def fitting(
        self,
        noise: float,
        key: bytes,
        step: int,
        coefficients: Sequence[float] = INDEPENDENT,
        sets: UpdateSets = NO_SETS,
    ) -> float:
        """The sum of the clipping bits, +1/2 or -1/2 each, with noise of that deviation."""
        return self._fitting + float(release_noise(key, step, 1, noise, coefficients, sets)[0])


def _rows_of(total: npt.NDArray[np.float64], rows: Rows) -> RowPart:
    return RowPart(rows, total[rows])
