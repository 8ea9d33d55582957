"""Rounds of the sequence part over a whole population, with the numbers of the core.

As in solve_rounds.py: each round a part of the devices computes its shares from what was
published (int8 rows), clips and rounds them as on the wire, and the sum makes the coordinator's
step of the core. Devices come in blocks and their softmax in chunks, so that beside the model
and its sums memory has a bound, whatever the population and the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numba
import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fedrap_core.plan import SequenceMethod
from fedrap_core.quantize import quantize_rows
from fedrap_core.sequence.adaptation import ages_weight, depth
from fedrap_core.sequence.model import SequenceItems, fading
from fedrap_core.sequence.server_step import (
    SequenceLearning,
    SequenceSum,
    sequence_step,
    start_learner,
)
from fedrap_core.sparse import RowPart, bucket_bytes
from fedrap_simulation.data.interactions import Histories
from fedrap_simulation.engine.compiled import Floats, Ints, Matrix, Singles
from fedrap_simulation.engine.sequence_kernels import (
    Words,
    add_inputs,
    add_outputs,
    see_inputs,
)
from fedrap_simulation.engine.solve_kernels import clip_rows, round_rows
from fedrap_simulation.engine.solve_rounds import Schedule, add_rows, blocks_of, cohorts
from fedrap_simulation.engine.solve_scoring import ages, once

BLOCK_ENTRIES = 20_000  # of windows at once: h of as many targets has 26 MB with k 64
CHUNK_CELLS = 500_000  # chances that a thread holds at once: 2 MB, which its cache can hold
CHUNK_TARGETS = 64  # targets that it looks at together at the least
GROUP = 64  # items whose chances are added before a decoy is looked for among them
UPLOADS = 300  # devices whose updates are weighed
NOBODY = -1e30  # bias of rows that only fill up a group: e to that is 0


@dataclass(frozen=True, eq=False)
class SequenceReleased:
    """The sequence part after a step, as devices have it."""

    step: int
    items: SequenceItems


@dataclass(frozen=True, eq=False)
class RoundDraws:
    """All that is random in the shares of a round: the core's `Draws` of many devices."""

    bounds: Ints  # (U + 1,) device i has targets bounds[i] … bounds[i + 1] - 1
    places: Ints  # (T,) in the window of the target's device
    words: Words  # (T,) an input at place p is left out where uniform_at(word, p) < dropout
    decoys: Floats  # (T, D) in [0, 1)

    @property
    def owners(self) -> Ints:
        """The device of each target: (T,)."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))

    def some(self, first: int, end: int) -> RoundDraws:
        """Those of devices first … end - 1."""
        part = slice(self.bounds[first], self.bounds[end])
        bounds = self.bounds[first : end + 1] - self.bounds[first]
        return RoundDraws(bounds, self.places[part], self.words[part], self.decoys[part])


def windows_of(
    histories: Histories, items: int, method: SequenceMethod, more: int = 0
) -> Histories:
    """The newest `longest` and `more` interactions of everybody, as the core's `window`."""
    if not method.ordered:
        histories, _ = once(histories, items)
    most = method.longest + more
    lengths = np.minimum(histories.lengths, most)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return Histories(starts, histories.items[ages(histories) < most])


def draw_round(windows: Histories, method: SequenceMethod, rng: np.random.Generator) -> RoundDraws:
    """Targets of each device, drawn without replacement, and what goes with them."""
    owners = windows.owners
    places = np.arange(len(windows.items)) - windows.starts[owners]
    able = (places >= (1 if method.ordered else 0)) & (windows.lengths[owners] > 1)
    owners, places = owners[able], places[able]
    order = np.lexsort((rng.random(len(owners)), owners))  # each device's own in random order
    counts = np.bincount(owners, minlength=len(windows))
    rank = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.sort(order[rank < method.targets])
    taken = np.minimum(counts, method.targets)
    return RoundDraws(
        np.concatenate([[0], np.cumsum(taken)]),
        places[chosen],
        rng.integers(2**63, size=len(chosen), dtype=np.uint64),
        rng.random((len(chosen), method.decoys)),
    )


@dataclass(frozen=True, eq=False)
class _Model:
    """What kernels need of a release, in float32."""

    method: SequenceMethod
    inputs: Singles  # (m, k) P
    outputs: Singles  # (m, k) C
    bias: Singles  # (m,)
    kernels: Singles  # (S, k)
    fades: Singles  # (S, longest) or more
    roots: Singles  # (S, longest + 1) or more

    @staticmethod
    def of(items: SequenceItems, method: SequenceMethod, more: int = 0) -> _Model:
        """For windows of `longest` and `more`, of which a query sees `longest`."""
        fades = fading(method, method.longest + more)  # (S, longest + more)
        fades[:, method.longest :] = 0.0
        sums = np.concatenate([np.ones((len(fades), 1)), np.cumsum(fades, axis=1)], axis=1)
        inputs = items.outputs + items.offsets
        parts = (inputs, items.outputs, items.bias, items.kernels, fades, 1.0 / np.sqrt(sums))
        return _Model(method, *(part.astype(np.float32) for part in parts))

    def seen(self, windows: Histories, draws: RoundDraws, dropout: float) -> Singles:
        """h_ts: (T, S, k)."""
        return see_inputs(
            windows.starts,
            windows.items,
            draws.owners,
            draws.places,
            draws.words,
            self.inputs,
            self.fades,
            self.roots,
            self.method.ordered,
            dropout,
        )

    def queries(self, seen: Singles) -> Singles:
        """q_t: (T, k)."""
        return np.asarray(np.einsum("tsk,sk->tk", seen, self.kernels))

    def errors(self, queries: Singles, targets: Ints, uniform: Floats) -> tuple[Singles, Ints]:
        """e_t (T, k) and the decoys (T, D) of each target, a chunk of targets at a time.

        Chunks are shared out to threads, and inside of one BLAS has a single thread: it adds up in
        another order when it has more, and the result must not depend on the machine's cores.
        """
        missing = -len(self.outputs) % GROUP
        rows = np.pad(self.outputs, ((0, missing), (0, 0)))  # (M, k), M a multiple of GROUP
        bias = np.pad(self.bias, (0, missing), constant_values=NOBODY)
        errors = np.empty_like(queries)
        decoys = np.empty(uniform.shape, dtype=np.int64)
        chunk = max(CHUNK_TARGETS, CHUNK_CELLS // len(rows))

        def look(start: int) -> None:
            part = slice(start, start + chunk)
            pulled, decoys[part] = _expect(queries[part], rows, bias, uniform[part])
            errors[part] = pulled - self.outputs[targets[part]]

        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(_threads()) as pool:
            list(pool.map(look, range(0, len(targets), chunk)))
        return errors, decoys


def _threads() -> int:
    """As many as the compiled kernels have."""
    count: int = numba.get_num_threads()
    return count


def _expect(
    queries: Singles, rows: Singles, bias: Singles, uniform: Floats
) -> tuple[Singles, Ints]:
    """sum_j p_tj C_j (T, k) and j' ~ p_t (T, D): the core's `expect`, in float32."""
    chances = queries @ rows.T  # (T, M)
    chances += bias
    chances -= chances.max(axis=1, keepdims=True)
    np.exp(chances, out=chances)
    groups = chances.reshape(len(queries), -1, GROUP).sum(axis=2)  # (T, M/GROUP)
    ends = np.cumsum(groups, axis=1, dtype=np.float64)
    goals = uniform * ends[:, -1:]  # (T, D)
    which = np.argmax(ends[:, None, :] > goals[:, :, None], axis=2)  # (T, D) the group that passes
    every = np.arange(len(queries))[:, None]
    goals = goals - ends[every, which] + groups[every, which]  # what is left inside of it
    inside = chances.reshape(len(queries), -1, GROUP)[every, which]  # (T, D, GROUP)
    passed = np.cumsum(inside, axis=2, dtype=np.float64) > goals[:, :, None]
    # Where rounding leaves the sum below the goal: the last item that has a chance at all.
    last = GROUP - 1 - np.argmax(inside[:, :, ::-1] > 0.0, axis=2)
    decoys = GROUP * which + np.where(passed.any(axis=2), np.argmax(passed, axis=2), last)
    pulled = np.asarray(chances @ rows, dtype=np.float32)
    pulled /= ends[:, -1:].astype(np.float32)
    return pulled, np.asarray(decoys, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Shares:
    """The shares of a block of devices, row by row; ours to change."""

    devices: int
    in_owners: Ints  # (R,) whose row it is
    in_items: Ints  # (R,)
    inputs: Singles  # (R, k)
    out_owners: Ints  # (R',)
    out_items: Ints  # (R',)
    outputs: Singles  # (R', k + 1)
    kernels: Singles  # (U, S·k)

    def clip(self, limit: float) -> None:
        """Scale each device's whole share to norm `limit` at most."""
        square = np.einsum("ij,ij->i", self.kernels, self.kernels).astype(np.float64)  # (U,)
        rows = ((self.in_owners, self.inputs), (self.out_owners, self.outputs))
        for owners, values in rows:
            lengths = np.einsum("ij,ij->i", values, values)
            square += np.bincount(owners, lengths, minlength=self.devices)
        factor = np.minimum(1.0, limit / np.sqrt(np.maximum(square, 1e-300))).astype(np.float32)
        for owners, values in rows:
            values *= factor[owners, None]
        self.kernels[...] *= factor[:, None]

    def round(self, dim: int, word: int) -> None:
        """Round to int8 steps at random, a scale for each row."""
        for place, values in enumerate((self.inputs, self.outputs, self.kernels)):
            width = dim if values is self.kernels else values.shape[1]
            round_rows(values, width, np.uint64(word + place & (2**64 - 1)))


def _make_shares(windows: Histories, draws: RoundDraws, model: _Model) -> _Shares:
    method, size = model.method, len(model.outputs)
    dim = model.outputs.shape[1]
    owners = draws.owners  # (T,)
    targets = windows.items[windows.starts[owners] + draws.places]  # (T,) y_t
    seen = model.seen(windows, draws, method.dropout)
    queries = model.queries(seen)
    errors, decoys = model.errors(queries, targets, draws.decoys)
    # An item that comes twice in a window is one row of what is sent.
    found, where = np.unique(windows.owners * size + windows.items, return_inverse=True)
    inputs = np.zeros((len(found), dim), dtype=np.float32)
    moves = np.zeros((len(windows), model.kernels.size), dtype=np.float32)
    add_inputs(
        windows.starts,
        where,
        draws.bounds,
        draws.places,
        draws.words,
        errors,
        seen,
        model.kernels,
        model.fades,
        model.roots,
        method.ordered,
        method.dropout,
        inputs,
        moves,
    )
    own = np.column_stack([targets, decoys]) + (owners * size)[:, None]  # (T, 1 + D)
    sent, at = np.unique(own, return_inverse=True)
    at = at.reshape(own.shape)
    outputs = np.zeros((len(sent), dim + 1), dtype=np.float32)
    add_outputs(draws.bounds, queries, at[:, 0].copy(), at[:, 1:].copy(), outputs)
    return _Shares(
        len(windows),
        found // size,
        found % size,
        inputs,
        sent // size,
        sent % size,
        outputs,
        moves,
    )


def sum_sequence(
    windows: Histories,
    items: SequenceItems,
    method: SequenceMethod,
    draws: RoundDraws,
    *,
    clip: float = np.inf,
    row_clip: float = np.inf,
    int8_seed: int | None = None,
) -> SequenceSum:
    """The sum of all shares of a round, as the coordinator would have it without noise."""
    model, dim = _Model.of(items, method), items.outputs.shape[1]
    inputs, outputs = np.zeros((items.size, dim)), np.zeros((items.size, dim + 1))
    kernels = np.zeros(items.kernels.size)
    had = np.zeros((2, items.size), dtype=np.bool_)
    for block, users in enumerate(blocks_of(windows, BLOCK_ENTRIES)):
        part = draws.some(int(users[0]), int(users[-1]) + 1)
        shares = _make_shares(windows.some(users), part, model)
        if row_clip < np.inf:
            clip_rows(shares.inputs, row_clip)
            clip_rows(shares.outputs, row_clip)
        if clip < np.inf:
            shares.clip(clip)
        if int8_seed is not None:
            shares.round(dim, (int8_seed << 20) + 3 * block)
            if clip < np.inf:  # rounding may have made it longer
                shares.clip(clip)
        add_rows(shares.in_items, shares.inputs, inputs)
        add_rows(shares.out_items, shares.outputs, outputs)
        kernels += shares.kernels.sum(axis=0, dtype=np.float64)
        had[0, shares.in_items] = True
        had[1, shares.out_items] = True
    return SequenceSum(
        _touched(had[0], inputs),
        _touched(had[1], outputs),
        kernels.reshape(items.kernels.shape),
        len(windows),
    )


def _touched(had: np.ndarray[tuple[int], np.dtype[np.bool_]], total: Matrix) -> RowPart:
    rows = np.flatnonzero(had)
    return RowPart(rows, total[rows])


def run_sequence_rounds(
    histories: Histories,
    items: int,
    method: SequenceMethod,
    learning: SequenceLearning,
    schedule: Schedule,
    seed: int,
) -> Iterator[SequenceReleased]:
    """Publish the sequence part again and again; the first one is the start.

    Raises:
        ValueError: the schedule asks for noise.
    """
    if schedule.noise:
        raise ValueError("the sequence part learns without noise; set schedule.noise to 0")
    rng = np.random.default_rng([seed, 0x5E9])
    windows = windows_of(histories, items, method)
    state = start_learner(items, method, learning, rng)
    published = _published(state.items, schedule)
    yield SequenceReleased(0, published)
    for step, users in enumerate(cohorts(len(windows), schedule, rng)):
        asked = windows.some(users)
        total = sum_sequence(
            asked,
            published,
            method,
            draw_round(asked, method, rng),
            clip=schedule.clip,
            row_clip=schedule.row_clip,
            int8_seed=int(rng.integers(2**40)) if schedule.int8 else None,
        )
        state = sequence_step(state, total, learning)
        published = _published(state.items, schedule)
        yield SequenceReleased(step + 1, published)


def _published(items: SequenceItems, schedule: Schedule) -> SequenceItems:
    """As devices have it: rows in int8, the bias and the few kernels in float32."""
    if not schedule.int8:
        return items
    return SequenceItems(
        quantize_rows(items.outputs).to_float().astype(np.float64),
        quantize_rows(items.offsets).to_float().astype(np.float64),
        items.bias.astype(np.float32).astype(np.float64),
        items.kernels.astype(np.float32).astype(np.float64),
    )


def derive_queries(
    items: SequenceItems, histories: Histories, method: SequenceMethod, adapt: float = 0.0
) -> Singles:
    """q of every user, as `derive_query` of the core has it, adapted so far: (U, k)."""
    windows, model = windows_of(histories, items.size, method), _Model.of(items, method)
    queries = np.empty((len(windows), items.outputs.shape[1]), dtype=np.float32)
    for start in range(0, len(windows), BLOCK_ENTRIES):
        part = windows.some(np.arange(start, min(start + BLOCK_ENTRIES, len(windows))))
        count = len(part)
        nothing = np.zeros(count, dtype=np.uint64)
        # One target for each user, after the last place.
        asked = RoundDraws(np.arange(count + 1), part.lengths, nothing, np.zeros((count, 1)))
        queries[start : start + count] = model.queries(model.seen(part, asked, 0.0))
    if adapt > 0:
        queries += np.float32(adapt) * derive_adaptations(items, histories, method)
    return queries


def derive_adaptations(
    items: SequenceItems, histories: Histories, method: SequenceMethod
) -> Singles:
    """sum_t 2^(-age_t/HALF)·s_t of every user, what a step of one adds to q: (U, k).

    As adaptation.py of the core has it; zeros without order.
    """
    found = np.zeros((len(histories), items.outputs.shape[1]), dtype=np.float32)
    if not method.ordered:
        return found
    most = depth(method)
    windows, model = windows_of(histories, items.size, method, most), _Model.of(items, method, most)
    block = BLOCK_ENTRIES // most
    for start in range(0, len(windows), block):
        part = windows.some(np.arange(start, min(start + block, len(windows))))
        counts = np.clip(part.lengths - 1, 0, most)  # (b,)
        bounds = np.concatenate([[0], np.cumsum(counts)])
        owners = np.repeat(np.arange(len(part)), counts)  # (T,)
        old = bounds[owners + 1] - 1 - np.arange(len(owners))  # (T,) age, 0 the newest
        places = part.lengths[owners] - 1 - old
        every = np.zeros(len(owners), dtype=np.uint64)
        asked = RoundDraws(bounds, places, every, np.zeros((len(owners), 0)))
        queries = model.queries(model.seen(part, asked, 0.0))
        targets = part.items[part.starts[owners] + places]
        errors, _ = model.errors(queries, targets, asked.decoys)  # -s_t
        weights = ages_weight(most)[old].astype(np.float32)
        np.add.at(found, start + owners, -weights[:, None] * errors)
    return found


def sequence_upload_bytes(
    windows: Histories, items: SequenceItems, method: SequenceMethod
) -> float:
    """Mean size of a padded share before sealing, of some devices under this release.

    Rows are in int8 with number and scale each. Several decoys are often one item: how many rows
    there are follows from the model.
    """
    rng = np.random.default_rng(0)
    some = windows.some(np.sort(rng.permutation(len(windows))[:UPLOADS]))
    shares = _make_shares(some, draw_round(some, method, rng), _Model.of(items, method))
    inputs = np.bincount(shares.in_owners, minlength=len(some))  # (U,) rows
    outputs = np.bincount(shares.out_owners, minlength=len(some))
    per_row = 4 + 4 + method.dim
    frame = 4 + 100 + method.kernels * (4 + method.dim)  # length, field names, kernels
    sizes = frame + per_row * inputs + (per_row + 1) * outputs
    return float(np.mean([bucket_bytes(int(size)) for size in sizes]))
