"""Rounds of `paper` in which every device takes part, one after the other without end.

Memory is D, as large as the catalogue on every device as the paper has it, and a sum of C for each
of a fixed number of hands. The hands are added in their order, so that the result is the same bits
with one thread as with many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedrap_core.paper.averaging import Averaging, shrink_all
from fedrap_core.paper.problem import plan_schedule
from fedrap_core.paper.sampling import initial_user
from fedrap_core.plan import PaperMethod, Privacy
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.engine.paper_devices import (
    HANDS,
    Items,
    Model,
    Rules,
    count_draws,
    run_devices,
    score_users,
)
from fedrap_simulation.engine.paper_draws import Counts
from fedrap_simulation.engine.paper_kernels import PENALTIES, Floats, pack_schedule
from fedrap_simulation.evaluation.task import Task

SHARE_OF_MEMORY = 0.75  # what D may take of this machine's


@dataclass(eq=False)
class PaperDevices:
    """Everybody's state; rounds change it in place."""

    model: Model
    rounds: int = 0  # done so far
    refused: int = 0  # devices whose last round ran away, so that it did not count

    def scores(self, users: Rows) -> Floats:
        """z of every item for some users: (len(users), m)."""
        out = np.empty((len(users), len(self.model.common)), dtype=np.float32)
        score_users(np.asarray(users, dtype=np.int64), self.model, out)
        return out


def first_devices(task: Task, method: PaperMethod, seed: int, *, alike: bool) -> PaperDevices:
    """C from N(0, 1), D from N(0, spread^2), and the same u for everybody.

    With `alike` every device starts with the same D, as in the authors' code; else each with a
    draw of its own, as a real device would.

    Raises:
        BadData: D of all devices would not fit into this machine's memory.
    """
    rng = np.random.default_rng([seed, 0xD0])
    shape = (task.items, method.dim)
    devices = task.users if method.personal else 0
    _check_memory(4 * devices * task.items * method.dim, task)
    common = np.zeros(shape, dtype=np.float32)
    if method.common:
        common[:] = rng.standard_normal(shape, dtype=np.float32)
    personal = np.empty((devices, *shape), dtype=np.float32)
    for device in range(devices):
        if device == 0 or not alike:
            first = method.spread * rng.standard_normal(shape, dtype=np.float32)  # (m, k)
        personal[device] = first
    user = np.tile(initial_user(method.seed, method.dim).astype(np.float32), (task.users, 1))
    return PaperDevices(Model(common, personal, user, np.zeros(task.users, dtype=np.float32)))


def paper_rounds(
    task: Task,
    method: PaperMethod,
    seed: int,
    *,
    privacy: Privacy | None = None,
    averaging: Averaging | None = None,
    alike: bool = True,
) -> Iterator[PaperDevices]:
    """The population after each round: one object, so only its newest state is valid.

    Deltas are clipped, and their sum noised, only where `privacy` is given: the paper's own method
    does neither.
    """
    averaging = averaging or Averaging()
    people = first_devices(task, method, seed, alike=alike)
    order = deal_out(task.train)
    train, barred = as_items(task.train), as_items(task.barred)
    sums = np.zeros((HANDS, *people.model.common.shape), dtype=np.float32)
    noise = np.random.default_rng([seed, 0x015E])
    while True:
        rules = make_rules(method, seed, people.rounds + 1, privacy)
        joined = np.zeros(task.users, dtype=np.bool_)
        run_devices(order, train, barred, people.model, rules, sums, joined)
        devices = int(np.count_nonzero(joined))
        people.rounds += 1
        people.refused = len(order) - devices
        if devices and method.common:
            total = sums.sum(axis=0, dtype=np.float64)  # (m, k), hand after hand
            if privacy is not None and privacy.noise > 0:
                total += noise.normal(0.0, privacy.noise * privacy.clip, total.shape)
            mean = averaging.rate * total / devices
            common = shrink_all(people.model.common + mean, method, averaging, people.rounds)
            people.model.common[:] = common
        yield people


def make_rules(method: PaperMethod, seed: int, step: int, privacy: Privacy | None = None) -> Rules:
    """How everybody spends the round with this step, from 1 on."""
    # The schedule is asked for by epoch: the batches of an epoch share its rates.
    schedule = plan_schedule(method, step, method.epochs)
    return Rules(
        pack_schedule(schedule, personal=method.personal),
        np.float32(method.reach),
        PENALTIES[method.penalty],
        method.negatives,
        method.batch,
        float("inf") if privacy is None else privacy.clip,
        seed,
        step,
    )


def count_negatives(task: Task, method: PaperMethod, seed: int, rounds: int) -> Counts:
    """How often each item is a negative of each device in these rounds: (U, m).

    The draws are those of `paper_rounds` with the same seed.
    """
    counts = np.zeros((task.users, task.items), dtype=np.int32)
    for step in range(1, rounds + 1):
        rules = make_rules(method, seed, step)
        count_draws(as_items(task.train), as_items(task.barred), rules, counts)
    return counts


def deal_out(train: Histories) -> Rows:
    """Devices with a history, the longest first, so that all hands have the same to do."""
    order = np.argsort(-train.lengths, kind="stable")
    return order[train.lengths[order] > 0].astype(np.int64)


def as_items(histories: Histories) -> Items:
    """Histories as kernels read them."""
    return Items(histories.starts.astype(np.int64), histories.items.astype(np.int64))


def _check_memory(needed: int, task: Task) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > SHARE_OF_MEMORY * memory:
        raise BadData(
            f"{task.users} devices with a D over all {task.items} items of {task.dataset} need"
            f" {needed / 2**30:.0f} GB, as the paper has it; take fewer users"
        )
