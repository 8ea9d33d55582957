"""The local rounds of `paper` of many devices: compiled, in parallel, the same bits on any machine.

Devices are dealt out to a fixed number of hands, each with a desk to work at and a sum of its own.
Which device comes to which hand, and in which order, does not depend on the number of threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.engine.compiled import compiled
from fedrap_simulation.engine.paper_draws import (
    Counts,
    Flags,
    Stream,
    draw_working_set,
    gather_batch,
    list_samples,
    shuffle,
    start_stream,
)
from fedrap_simulation.engine.paper_kernels import (
    Floats,
    add_moved,
    allowed_entry,
    largest_entry,
    local_step,
    moved_norm,
    put_rows,
    take_rows,
)

HANDS = 16


class Items(NamedTuple):
    """Items by device, in one piece: those of device i are items[starts[i]:starts[i + 1]]."""

    starts: Rows  # (U + 1,)
    items: Rows  # (n,)


class Model(NamedTuple):
    """What everybody shares and what each device keeps."""

    common: Floats  # (m, k) C
    personal: Floats  # (U, m, k) D, or (0, m, k) where there is none
    user: Floats  # (U, k) u
    bias: Floats  # (U,) b


class Rules(NamedTuple):
    """How every device spends one round."""

    rates: Floats  # (epochs, 5) of pack_schedule
    reach: np.float32
    penalty: int  # of PENALTIES
    negatives: int  # drawn for each positive
    batch: int  # samples in one step
    clip: float  # norm of a delta; infinite where nothing is clipped
    seed: int
    step: int  # the round, from 1 on


class Desk(NamedTuple):
    """Room for one device's round, used by one device after the other."""

    stream: Stream  # (1,)
    place: Counts  # (m,) -1 between two uses
    blocked: Flags  # (m,) False between two uses
    rows: Rows  # (n,) the working set
    positive: Counts  # (n,)
    negative: Counts  # (n,)
    samples: Rows  # (N,)
    chosen: Rows  # (n,) rows of a batch, as places in the working set
    weights: Floats  # (n,)
    liked: Floats  # (n,)
    common: Floats  # (n, k) C of the working set
    personal: Floats  # (n, k) D of it; zeros where there is none
    slope: Floats  # (k,)


@compiled()
def new_desk(items: int, dim: int, samples: int) -> Desk:
    """A desk for devices with at most this many samples."""
    room = min(items, samples)
    return Desk(
        np.empty(1, dtype=np.uint64),
        np.full(items, -1, dtype=np.int32),
        np.zeros(items, dtype=np.bool_),
        np.empty(room, dtype=np.int64),
        np.empty(room, dtype=np.int32),
        np.empty(room, dtype=np.int32),
        np.empty(samples, dtype=np.int64),
        np.empty(room, dtype=np.int64),
        np.empty(room, dtype=np.float32),
        np.empty(room, dtype=np.float32),
        np.empty((room, dim), dtype=np.float32),
        np.zeros((room, dim), dtype=np.float32),
        np.empty(dim, dtype=np.float32),
    )


@compiled()
def draw_for(desk: Desk, train: Items, barred: Items, rules: Rules, device: int) -> tuple[int, int]:
    """Lay a device's working set of this round on the desk: how many rows and samples it has."""
    start_stream(desk.stream, rules.seed, rules.step, device)
    return draw_working_set(
        train.items[train.starts[device] : train.starts[device + 1]],
        barred.items[barred.starts[device] : barred.starts[device + 1]],
        rules.negatives,
        desk.stream,
        desk.place,
        desk.blocked,
        desk.rows,
        desk.positive,
        desk.negative,
    )


@compiled()
def train_on_desk(
    desk: Desk, rules: Rules, count: int, total: int, user: Floats, bias: np.float32
) -> np.float32:
    """All epochs over `count` rows and `total` samples, in place; gives the new b.

    When all samples fit into one batch each epoch is one step; otherwise each epoch shuffles them
    into batches of almost equal size, as `spread_over_steps` of the core does.
    """
    parts = -(-total // rules.batch)
    list_samples(count, desk.positive, desk.negative, desk.samples)
    used = 0
    for epoch in range(len(rules.rates)):
        if parts > 1:
            shuffle(desk.samples[:total], desk.stream)
        start = 0
        for part in range(parts):
            stop = start + total // parts + (part < total % parts)
            if parts > 1 or epoch == 0:
                used = gather_batch(
                    desk.samples[start:stop], desk.place, desk.chosen, desk.weights, desk.liked
                )
            bias = local_step(
                desk.common,
                desk.personal,
                user,
                bias,
                desk.slope,
                desk.chosen[:used],
                desk.weights[:used],
                desk.liked[:used],
                rules.rates[epoch],
                rules.reach,
                rules.penalty,
            )
            start = stop
    return bias


@compiled()
def run_device(
    desk: Desk, train: Items, barred: Items, model: Model, rules: Rules, device: int, total: Floats
) -> bool:
    """One device's round: its u, b and D change, and its delta of C is added to `total` (m, k).

    Whether it joined: a device whose round ran away keeps its old state and adds nothing.
    """
    common = model.common
    count, samples = draw_for(desk, train, barred, rules, device)
    rows = desk.rows[:count]
    take_rows(common, rows, desk.common)
    if len(model.personal):
        take_rows(model.personal[device], rows, desk.personal)
    user, bias = model.user[device].copy(), model.bias[device]
    own, mine = desk.common[:count], desk.personal[:count]  # (n, k) each
    allowed = allowed_entry(largest_entry(own, mine, user, bias))
    bias = train_on_desk(desk, rules, count, samples, user, bias)
    if not largest_entry(own, mine, user, bias) <= allowed:  # NaN is no number to compare with
        return False
    model.user[device], model.bias[device] = user, bias
    if len(model.personal):
        put_rows(mine, rows, model.personal[device])
    share = 1.0
    if rules.clip < np.inf:
        share = min(1.0, rules.clip / max(moved_norm(common, rows, own), 1e-30))
    add_moved(common, rows, own, np.float32(share), total)
    return True


@compiled(parallel=True)
def run_devices(
    order: Rows,
    train: Items,
    barred: Items,
    model: Model,
    rules: Rules,
    sums: Floats,
    joined: npt.NDArray[np.bool_],
) -> None:
    """The round of every device in `order`; deltas of C go to `sums` (HANDS, m, k).

    `joined` (U,) says whose round counted.
    """
    items, dim = model.common.shape
    longest = 1
    for device in order:
        longest = max(longest, train.starts[device + 1] - train.starts[device])
    for hand in numba.prange(HANDS):
        sums[hand] = 0.0
        desk = new_desk(items, dim, longest * (1 + rules.negatives))
        for turn in range(hand, len(order), HANDS):
            device = order[turn]
            joined[device] = run_device(desk, train, barred, model, rules, device, sums[hand])


@compiled(parallel=True)
def score_users(users: Rows, model: Model, scores: Floats) -> None:
    """z = <u, C + D> + b of every item, into `scores` (len(users), m)."""
    items, dim = model.common.shape
    for place in numba.prange(len(users)):
        device = users[place]
        user = model.user[device]
        for item in range(items):
            z, row = model.bias[device], model.common[item]
            for f in range(dim):
                z += user[f] * row[f]
            if len(model.personal):
                row = model.personal[device, item]
                for f in range(dim):
                    z += user[f] * row[f]
            scores[place, item] = z


@compiled(parallel=True)
def count_draws(train: Items, barred: Items, rules: Rules, counts: Counts) -> None:
    """Add to `counts` (U, m) how often each item is a negative of each device in this round."""
    devices, items = counts.shape
    for hand in numba.prange(HANDS):
        longest = 1
        for device in range(hand, devices, HANDS):
            longest = max(longest, train.starts[device + 1] - train.starts[device])
        desk = new_desk(items, 1, longest * (1 + rules.negatives))
        for device in range(hand, devices, HANDS):
            found, _ = draw_for(desk, train, barred, rules, device)
            for each in range(found):
                counts[device, desk.rows[each]] += desk.negative[each]
