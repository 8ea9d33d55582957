"""Rounds of `solve` over a whole population, without wire and seal, with the same numbers.

Each round a part of the devices computes its shares from the C that was published (int8), clips
and rounds them as on the wire; the sum, noised if asked for, makes the coordinator's step of the
core. A device takes part once in `1/part` rounds, in an order drawn anew each time, so it is never
asked twice in a row and at most `rounds·part` times in all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fedrap_core.plan import SolveMethod, Split
from fedrap_core.privacy.banded import INDEPENDENT, inverse_series
from fedrap_core.quantize import quantize_rows
from fedrap_core.solve.server_step import (
    Learner,
    Learning,
    RoundSum,
    learn_step,
    touch_weight,
)
from fedrap_core.sparse import bucket_bytes, packed_size
from fedrap_core.split.layout import TABLES
from fedrap_core.split.numbers import SERVERS
from fedrap_core.split.proof import R
from fedrap_core.wire.share import folded_rows
from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.engine.compiled import Floats, Ints, Matrix, Singles
from fedrap_simulation.engine.solve_kernels import (
    add_by_item,
    clip_rows,
    clip_shares,
    make_shares,
    round_reports,
    round_rows,
)

BLOCK_ROWS = 200_000  # rows of shares held at once: 51 MB with k 64


@dataclass(frozen=True)
class Schedule:
    """How rounds are run."""

    rounds: int = 100
    part: float = 0.1  # share of the devices in one round
    clip: float = 1e6  # S; this large it never binds
    row_clip: float = 1e6  # S of one row, before S
    noise: float = 0.0  # z, in units of S
    coefficients: tuple[float, ...] = INDEPENDENT  # of correlated noise; banded.py
    int8: bool = True  # uploads and releases rounded as on the wire
    split: Split | None = None  # shares for two servers, each of which adds noise z
    copies: int = 1  # devices with each history: sums of so many more devices under the same noise

    @property
    def turns(self) -> int:
        """Rounds in which everybody has been asked once."""
        return max(1, round(1.0 / self.part))

    @property
    def separation(self) -> int:
        """b: with bands everybody keeps a turn, so that steps of a device are that far apart."""
        return self.turns if len(self.coefficients) > 1 else min(2, self.turns)

    @property
    def participations(self) -> int:
        """K: how often a device is asked, at most."""
        return -(-self.rounds // self.turns)


@dataclass(frozen=True, eq=False)
class Released:
    """C after a step, as devices have it."""

    step: int
    common: Matrix  # (m, k)


def cohorts(users: int, schedule: Schedule, rng: np.random.Generator) -> Iterator[Rows]:
    """Who takes part, round by round; nobody in two consecutive ones unless all do."""
    turns, groups = schedule.turns, list[Rows]()
    last: Rows = np.zeros(0, dtype=np.int64)
    for step in range(schedule.rounds):
        if step == 0 or (step % turns == 0 and schedule.separation < turns):
            order = rng.permutation(users)
            if turns > 1 and len(last):
                # Whoever closed the last cycle must not open this one.
                was = np.zeros(users, dtype=np.bool_)
                was[last] = True
                order = np.concatenate([order[~was[order]], order[was[order]]])
                tail = -(-users // turns)  # the first group of the new cycle
                order[tail:] = rng.permutation(order[tail:])
            groups = np.array_split(order, turns)
        last = np.sort(groups[step % turns])
        yield last


def sum_shares(
    histories: Histories,
    common: Matrix,
    method: SolveMethod,
    *,
    clip: float = np.inf,
    row_clip: float = np.inf,
    touch: float = 0.0,
    int8_seed: int | None = None,
    split: Split | None = None,
) -> RoundSum:
    """The sum of all shares, as the coordinator's accumulator would have it without noise.

    `touch` is what a touch weighs in the clip; how often a row was touched is exact here. With
    `split` the sum of reports for two servers, of whose touches nobody knows; their chance follows
    from `int8_seed`.
    """
    base = method.w0 * common.T @ common + method.ridge * np.eye(method.dim)  # (k, k)
    behind = np.ascontiguousarray(np.linalg.solve(base, common.T).T)  # (m, k)
    total = np.zeros_like(common)  # (m, k)
    triangle = np.zeros(packed_size(method.dim))
    touches = np.zeros(len(common))
    for block, users in enumerate(blocks_of(histories)):
        part = histories.some(users)
        rows, triangles = make_shares(
            part.starts,
            part.items,
            common,
            base,
            behind,
            method.alpha,
            method.order,
            method.prefixes,
            method.beta,
            method.gamma,
            method.tau,
        )
        if row_clip < np.inf:
            clip_rows(rows, row_clip)
        if clip < np.inf and split is None:
            clip_shares(part.starts, rows, triangles, clip, 0.0)
        if split is not None:
            word = np.uint64(((int8_seed or 0) << 20) + (block << 40) & (2**64 - 1))
            triangles *= np.float32(split.gram_scale)
            round_reports(part.starts, rows, triangles, clip, split.peak, split.rows, R, word)
            triangles /= np.float32(split.gram_scale)
        elif int8_seed is not None:
            word = np.uint64((int8_seed << 20) + 2 * block & (2**64 - 1))
            round_rows(rows, method.dim, word)
            round_rows(triangles, method.dim, word + np.uint64(1))
        if split is None and clip < np.inf and (touch or int8_seed is not None):
            # Rounding may have made it longer, and touches count; so the accumulator clips again.
            clip_shares(part.starts, rows, triangles, clip, touch)
        add_rows(part.items, rows, total)
        triangle += triangles.sum(axis=0, dtype=np.float64)
        touches += np.bincount(part.items, minlength=len(common))
    if split is not None:  # rows with a sum are all that is known of who touched what
        found = np.flatnonzero(total.any(axis=1))
        bound = math.sqrt(TABLES) * clip
        return RoundSum(found, total[found], triangle, len(histories), bound)
    found = np.flatnonzero(touches)
    return RoundSum(
        found, total[found], triangle, len(histories), min(clip, row_clip),
        touches=touches[found],
    )  # fmt: skip


def blocks_of(histories: Histories, entries: int | None = None) -> Iterator[Rows]:
    """Users in blocks of about so many entries, BLOCK_ROWS unless told."""
    place = histories.starts[1:] // (entries or BLOCK_ROWS)
    for start, end in zip(*_runs(place), strict=True):
        yield np.arange(start, end)


def add_rows(items: Ints, rows: Singles, total: Matrix) -> None:
    """Add each row to its item's sum, in an order that threads do not change."""
    order = np.argsort(items, kind="stable")
    starts, ends = _runs(items[order])
    add_by_item(order, np.append(starts, ends[-1:]), items[order][starts], rows, total)


def _runs(values: Ints) -> tuple[Ints, Ints]:
    """Where runs of equal values start and end."""
    cuts = np.flatnonzero(np.diff(values)) + 1
    starts = np.concatenate([[0], cuts]) if len(values) else np.zeros(0, dtype=np.int64)
    return starts, np.append(starts[1:], len(values)) if len(values) else starts


def run_rounds(
    histories: Histories,
    items: int,
    method: SolveMethod,
    learning: Learning,
    schedule: Schedule,
    seed: int,
) -> Iterator[Released]:
    """Publish C again and again; the first one is the start."""
    rng = np.random.default_rng([seed, 0xFED])
    state = Learner(publish_rows(rng.normal(0.0, learning.spread, (items, method.dim)), schedule))
    yield Released(0, state.common)
    bands = Bands(schedule, items, method.dim, rng)
    touch = touch_weight(learning, schedule.clip, schedule.noise, items)
    if schedule.split is not None:
        touch = 0.0
    for step, users in enumerate(cohorts(len(histories), schedule, rng)):
        total = sum_shares(
            histories.some(users),
            state.common,
            method,
            clip=schedule.clip,
            row_clip=schedule.row_clip,
            touch=touch,
            int8_seed=int(rng.integers(2**40)) if schedule.int8 else None,
            split=schedule.split,
        )
        if schedule.noise:
            total = bands.noised(total, touch)
        learnt = learn_step(state, total, method, learning, step)
        state = replace(learnt, common=publish_rows(learnt.common, schedule))
        yield Released(step + 1, state.common)


def upload_bytes(histories: Histories, dim: int, *, int8: bool = True) -> float:
    """Mean size of a padded share before sealing, by the layout of the wire.

    Without `int8` the same rows and triangle in plain float32, which no device sends.
    """
    if not int8:
        numbers = float(histories.lengths.mean()) * (dim + 1) + packed_size(dim)
        return 4.0 * numbers
    per_row = 4 + 4 + dim  # row number, scale, int8 values
    frame = 4 + 100 + folded_rows(dim) * (4 + dim)  # length, field names, triangle
    return float(np.mean([bucket_bytes(frame + per_row * int(n)) for n in histories.lengths]))


def publish_rows(common: Matrix, schedule: Schedule) -> Matrix:
    """C as devices have it: in int8, or as it is."""
    return quantize_rows(common).to_float().astype(np.float64) if schedule.int8 else common


class Bands:
    """Noise on every row, touched or not, and on the triangle; here from a plain rng.

    N_t = Z_t - sum_j c_j·N_{t-j}: what earlier steps got is kept, as many as there are bands. Sums
    are those of one copy of each history, so noise is divided by their number. With two servers
    each adds all of it, in whole steps, to numbers of which the triangle's were scaled.
    """

    def __init__(self, schedule: Schedule, items: int, dim: int, rng: np.random.Generator) -> None:
        self._stddev = schedule.noise * schedule.clip / schedule.copies
        self._series, self._tail = schedule.coefficients, schedule.coefficients[1:]
        self._steps = 0
        self._items, self._dim, self._rng = items, dim, rng
        self._past: list[Floats] = []  # newest first
        self._servers, self._gram_scale, self._step = 1, 1.0, 0.0
        if schedule.split is not None:
            self._servers, self._gram_scale = SERVERS, schedule.split.gram_scale
            self._step = schedule.clip * schedule.split.peak / R

    def noised(self, total: RoundSum, touch: float = 0.0) -> RoundSum:
        """The sum as the coordinator would see it; `touch` is what a touch weighs in the clip."""
        size = self._items * self._dim
        counted = self._items if touch else 0
        whole = (self._servers, size + packed_size(self._dim) + counted)
        drawn = self._rng.normal(0.0, self._stddev, whole)
        for weight, before in zip(self._tail, self._past, strict=False):
            drawn -= weight * before
        self._past = [drawn, *self._past][: len(self._tail)]
        if self._step:  # each server rounds what it adds to whole steps
            drawn = np.rint(drawn / self._step) * self._step
        noise = drawn.sum(axis=0)
        values = noise[:size].reshape(self._items, self._dim).copy()
        values[total.rows] += total.values
        triangle = total.packed_gram + noise[size : len(noise) - counted] / self._gram_scale
        touches = None
        if touch and total.touches is not None:
            touches = noise[len(noise) - counted :] / touch  # (m,)
            touches[total.rows] += total.touches
        self._steps += 1
        spread = self._stddev * float(np.linalg.norm(inverse_series(self._series, self._steps)))
        spread *= math.sqrt(self._servers)
        return RoundSum(
            np.arange(self._items), values, triangle, total.devices, total.bound, spread,
            touches=touches, touches_spread=spread / touch if touch else 0.0,
        )  # fmt: skip
