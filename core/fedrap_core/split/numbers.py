"""An update as small whole numbers, and the sum of many as a round's sum.

With S the clip, R = 31 and Δ = peak·S/R: the Gram matrix is multiplied by its scale, the update
clipped to S as a whole and each number to peak·S, divided by Δ and rounded up or down by chance, so
that the mean stays. What rounding made longer than Q = floor((S/Δ)²) is shrunk until it is not.

A sum is one vector of the field, in the order of parts.py: clipping number, Gram matrix, rows, then
the parts of a sequence model. The clipping number of a device is R, -R or 0, so the sum over
2R is that of +1/2 and -1/2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedrap_core.model import Rows
from fedrap_core.parts import more_parts
from fedrap_core.plan import Method, Plan, Privacy, split_of
from fedrap_core.privacy.banded import inverse_series
from fedrap_core.privacy.mechanisms import clip_rows, release_noise
from fedrap_core.solve.server_step import RoundSum
from fedrap_core.sparse import Part, RowPart, RowUpdate, packed_size
from fedrap_core.split.dpf import Shape
from fedrap_core.split.field import Words, from_signed, to_signed
from fedrap_core.split.layout import TABLES, Layout
from fedrap_core.split.proof import Circuit, R

Whole = npt.NDArray[np.int64]
SERVERS = 2


@dataclass(frozen=True)
class Terms:
    """All that fixes the shape of a round's reports: the round, its plan and how many items."""

    round: bytes
    plan: Plan
    items: int  # m

    def __post_init__(self) -> None:
        if split_of(self.plan) is None:
            raise ValueError("this plan has no split")

    @property
    def method(self) -> Method:
        """Of the plan."""
        return self.plan.method

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Beside rows and Gram matrix."""
        return more_parts(self.method, self.items)

    @cached_property
    def row_parts(self) -> tuple[Part, ...]:
        """What lies in a row, side by side: the rows of C, and other parts that have some rows."""
        first = Part("rows", self.items, self.method.dim)
        return (first, *(part for part in self.parts if not part.whole))

    @cached_property
    def whole_parts(self) -> tuple[Part, ...]:
        """What every device sends all of: the Gram matrix, and such other parts."""
        first = Part("gram", 1, packed_size(self.method.dim), whole=True)
        return (first, *(part for part in self.parts if part.whole))

    @cached_property
    def shape(self) -> Shape:
        """Of the rows of a report."""
        split = split_of(self.plan)
        assert split is not None
        layout = Layout(self.round, self.items, split.rows)
        return Shape(layout, sum(part.width for part in self.row_parts))

    @cached_property
    def whole(self) -> int:
        """Numbers that every device sends all of."""
        return sum(part.numbers for part in self.whole_parts)

    @cached_property
    def circuit(self) -> Circuit:
        """Of the proof."""
        numbers = self.shape.layout.slots * self.shape.width + self.whole
        return Circuit(numbers, math.floor(self.longest**2))

    @property
    def longest(self) -> float:
        """S/Δ = R/peak: the longest update, in steps."""
        split = split_of(self.plan)
        assert split is not None
        return R / split.peak

    @property
    def step(self) -> float:
        """Δ."""
        return self.plan.privacy.clip / self.longest

    @property
    def sum_words(self) -> int:
        """Numbers of a sum."""
        return 1 + self.whole + self.items * self.shape.width

    def in_order(self, table_sums: npt.NDArray[np.uint32], whole: Words, fits: int) -> Words:
        """A server's sums as one vector in the order of parts.py, each up to 3p: (sum_words,).

        Args:
            table_sums: (slots, size, width), p at most.
            whole: (whole,), p at most.
            fits: the sum of the clipping numbers.
        """
        layout = self.shape.layout
        rows = np.zeros((self.items, self.shape.width), dtype=np.uint64)
        slots, positions = layout.places(np.arange(self.items))
        for table in range(TABLES):
            rows += table_sums[slots[table], positions[table]]
        pieces: list[npt.NDArray[np.uint64]] = [np.array([fits], dtype=np.uint64)]
        by_name = dict(_cut(self.whole_parts, whole)) | dict(_cut_rows(self, rows))
        pieces += [by_name[part.name].ravel() for part in _all_parts(self)]
        return np.concatenate(pieces)


@dataclass(frozen=True, eq=False)
class Numbers:
    """One device's update in steps of Δ."""

    rows: Rows  # (n,) ascending, n <= H
    values: Whole  # (n, width)
    whole: Whole  # Gram matrix and other whole parts
    fits: int  # R, -R or 0

    @property
    def squares(self) -> int:
        """Σv²."""
        return int(np.sum(self.values**2) + np.sum(self.whole**2))


def uniform_count(terms: Terms) -> int:
    """How many random numbers `to_numbers` needs at most."""
    split = split_of(terms.plan)
    assert split is not None
    return split.rows * terms.shape.width + terms.whole


def to_numbers(update: RowUpdate, terms: Terms, uniform: npt.NDArray[np.float64]) -> Numbers:
    """An update as it was computed, clipped and rounded by `uniform` numbers in [0, 1)."""
    split, rule = split_of(terms.plan), terms.plan.privacy
    assert split is not None
    update = clip_rows(update, rule.row_clip)
    update = replace(update, packed_gram=update.packed_gram * split.gram_scale)
    rows, values = _longest(*_side_by_side(update, terms), split.rows)
    whole = _whole(update, terms)
    norm = math.sqrt(float(np.sum(values**2) + np.sum(whole**2)))
    fits = 0 if rule.adapt is None else R if norm <= rule.clip else -R
    shrink = min(1.0, rule.clip / norm) if norm else 1.0
    flat = np.concatenate([values.ravel(), whole]) * (shrink / terms.step)
    flat = np.clip(flat, -R, R)
    chance = np.ravel(uniform)[: len(flat)]
    rounded = _rounded(flat, chance)
    while int(np.sum(rounded**2)) > terms.circuit.limit:
        flat = flat * 0.99
        rounded = _rounded(flat, chance)
    return Numbers(rows, rounded[: values.size].reshape(values.shape), rounded[values.size :], fits)


def _rounded(values: npt.NDArray[np.float64], chance: npt.NDArray[np.float64]) -> Whole:
    return np.clip(np.floor(values + chance), -R, R).astype(np.int64)


def _side_by_side(update: RowUpdate, terms: Terms) -> tuple[Rows, npt.NDArray[np.float64]]:
    """All rows that any part touches, their parts beside each other: (n,) and (n, width)."""
    mine = [RowPart(update.rows, update.values)]
    mine += [one for one, part in zip(update.parts, terms.parts, strict=True) if not part.whole]
    touched = np.zeros(terms.items, dtype=np.bool_)  # a mask: np.unique loads 10 MB
    for one in mine:
        touched[one.rows] = True
    rows = np.flatnonzero(touched)
    values = np.zeros((len(rows), terms.shape.width))
    at = 0
    for one, part in zip(mine, terms.row_parts, strict=True):
        values[np.searchsorted(rows, one.rows), at : at + part.width] = one.values
        at += part.width
    return rows, values


def _longest(
    rows: Rows, values: npt.NDArray[np.float64], most: int
) -> tuple[Rows, npt.NDArray[np.float64]]:
    if len(rows) <= most:
        return rows, values
    lengths = np.sum(values**2, axis=1)
    kept = np.sort(np.argsort(-lengths, kind="stable")[:most])
    return rows[kept], values[kept]


def _whole(update: RowUpdate, terms: Terms) -> npt.NDArray[np.float64]:
    more = [one.values.ravel() for one, part in zip(update.parts, terms.parts, strict=True)
            if part.whole]  # fmt: skip
    return np.concatenate([update.packed_gram, *more])


def _all_parts(terms: Terms) -> tuple[Part, ...]:
    """Gram matrix, rows, and the other parts in the order of parts.py."""
    return (terms.whole_parts[0], terms.row_parts[0], *terms.parts)


def _cut(parts: Sequence[Part], flat: Words) -> list[tuple[str, Words]]:
    found, at = [], 0
    for part in parts:
        found.append((part.name, flat[at : at + part.numbers].reshape(part.rows, part.width)))
        at += part.numbers
    return found


def _cut_rows(terms: Terms, rows: Words) -> list[tuple[str, Words]]:
    found, at = [], 0
    for part in terms.row_parts:
        found.append((part.name, rows[:, at : at + part.width]))
        at += part.width
    return found


def server_noise(terms: Terms, key: bytes, step: int, sets: Mapping[int, bytes]) -> Whole:
    """One server's noise for all of a sum, in whole steps of Δ: (sum_words,).

    Each server adds all of it: what the other learns is covered by this one alone. Rounding what
    has been added is post-processing: no number of a device has a fraction.
    """
    rule = terms.plan.privacy
    if rule.noise == 0:
        return np.zeros(terms.sum_words, dtype=np.int64)
    drawn = release_noise(key, step, terms.sum_words, 1.0, rule.coefficients, sets)
    drawn[1:] *= rule.noise * terms.longest
    drawn[:1] *= 0.0 if rule.adapt is None else rule.adapt.noise * 2 * R
    return np.rint(drawn).astype(np.int64)


def add_noise(share: Words, noise: Whole) -> npt.NDArray[np.uint32]:
    """What leaves a server: its share of the sum with its noise, in [0, p)."""
    both = np.mod(share.astype(np.int64) + noise, (1 << 31) - 1)
    return np.asarray(both, dtype=np.uint32)


@dataclass(frozen=True, eq=False)
class Joined:
    """A round's sum put together."""

    total: RoundSum
    fitting: float  # the sum of +1/2 and -1/2 of the clipping bits


def join_sums(
    terms: Terms,
    leader: npt.NDArray[np.uint32],
    helper: npt.NDArray[np.uint32],
    devices: int,
    step: int,
) -> Joined:
    """The sum of both servers' noised shares, as numbers again."""
    both = to_signed(from_signed(leader.astype(np.int64) + helper.astype(np.int64)))
    numbers = np.asarray(both[1:] * terms.step, dtype=np.float64)
    rule, split = terms.plan.privacy, split_of(terms.plan)
    assert split is not None
    found, at = {}, 0
    for part in _all_parts(terms):
        found[part.name] = numbers[at : at + part.numbers].reshape(part.rows, part.width)
        at += part.numbers
    whole = {part.name for part in terms.whole_parts}

    def some(name: str) -> RowPart:
        values = found[name]
        if rule.noise or name in whole:
            return RowPart(np.arange(len(values)), values)
        touched = np.flatnonzero(values.any(axis=1))  # nobody says which rows were touched
        return RowPart(touched, values[touched])

    rows = some("rows")
    total = RoundSum(
        rows.rows,
        rows.values,
        found["gram"].ravel() / split.gram_scale,
        devices,
        # a device may put one item into all three of its slots
        math.sqrt(TABLES) * rule.clip,
        _spread(rule, step),
        tuple(some(part.name) for part in terms.parts),
    )
    return Joined(total, float(both[0]) / (2 * R))


def _spread(rule: Privacy, step: int) -> float:
    """Standard deviation of both servers' noise in a number of a row."""
    series = inverse_series(rule.coefficients, max(1, step))
    one = rule.noise * rule.clip * math.sqrt(sum(weight**2 for weight in series))
    return math.sqrt(SERVERS) * one
