"""What a coordinator gives away, and to whom, as `init` sets it up.

Version 0.1: without noise only touched rows changed, so 19 devices of an attacker and one victim
gave the victim's items exactly; and one device in a cohort of 20 had a dead item recommended to
nearly everybody. Later one device in twenty still had it shown to a sixth and more of all users.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from fedrap_coordinator.privacy.recipe import Expected, derive
from fedrap_coordinator.settings import Settings
from fedrap_core.aggregate import Accumulator
from fedrap_core.plan import Privacy, SolveMethod
from fedrap_core.solve.server_step import (
    Learner,
    Learning,
    RoundSum,
    learn_step,
    touch_weight,
    withheld_rows,
)
from fedrap_core.sparse import RowUpdate, packed_size
from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.data.synthetic import Shape, make_population
from fedrap_simulation.engine.solve_rounds import Bands, Schedule, sum_shares
from fedrap_simulation.engine.solve_scoring import derive_users

ITEMS, DIM, KEY = 60, 6, b"k" * 32


Floats = npt.NDArray[np.float64]


def released_lengths(rule: Privacy, step: int) -> tuple[Floats, Floats]:
    """How long each row of a sum is in which one victim stands beside 19 empty updates."""
    rng = np.random.default_rng(step)
    mine = np.sort(rng.permutation(ITEMS)[:20])
    sums = Accumulator(ITEMS, DIM, rule.clip, rule.row_clip)
    sums.add(RowUpdate(mine, 9.0 * rng.normal(size=(20, DIM)), np.zeros(packed_size(DIM))))
    for _ in range(19):
        sums.add(RowUpdate(mine[:0], np.zeros((0, DIM)), np.zeros(packed_size(DIM))))
    total = sums.total(rule.noise, KEY, step, rule.coefficients)
    length = np.zeros(ITEMS)
    length[total.rows] = np.linalg.norm(total.values, axis=1)
    return length[mine], np.delete(length, mine)


def position_auc(rule: Privacy) -> float:
    """How well the rows of the victim are told from the others by how much they changed."""
    found = [released_lengths(rule, step) for step in range(1, 101)]
    return float(np.mean([np.mean(one[:, None] > other) for one, other in found]))


def test_a_victim_beside_nineteen_attackers_is_covered_by_the_default_noise() -> None:
    assert position_auc(Settings().privacy) < 0.56
    assert position_auc(Privacy()) == 1.0  # without noise the attack works: it stays honest


@pytest.mark.parametrize("bounded", [True, False])
def test_one_device_of_twenty_has_no_dead_item_recommended(bounded: bool) -> None:
    found = derive(Expected(200, ITEMS, None, 20.0)).settings
    assert found.round.max_updates == 20
    if not bounded:  # as 0.1 had it
        found = msgspec.structs.replace(
            found,
            privacy=Privacy(clip=30.0, cap=found.privacy.cap),
            learning=Learning(eta=0.3, population=200, density=0.3),
        )
    left = {2 * late + 1 for late in range(found.privacy.cap)}  # late, as often as a device may
    fakes = [int(found.round.total - step in left) for step in range(found.round.total)]
    shown, withheld = exposure(found, Shape(users=200, items=ITEMS, longest=30), fakes, DIM)
    if bounded:
        assert withheld[-1]
        assert withheld.mean() < 0.3  # honest items are there
        assert shown == 0.0
    else:
        assert shown > 0.5  # the attack itself works


@pytest.mark.parametrize("epsilon", [8.0, None])
@pytest.mark.parametrize("capped", [True, False])
def test_one_device_in_twenty_has_no_dead_item_recommended(
    epsilon: float | None, capped: bool
) -> None:
    people = Shape(users=800, items=300, longest=40)
    found = derive(Expected(800, 300, epsilon, 25.0), anyway=True).settings
    learning = msgspec.structs.replace(found.learning, min_support=0.0)  # 40 devices have more
    if not capped:
        learning = msgspec.structs.replace(learning, score_cap=None)
    found = msgspec.structs.replace(found, learning=learning)
    fakes = [max(1, found.round.max_updates // 20)] * found.round.total
    shown, _ = exposure(found, people, fakes, 16)
    if capped:
        assert shown <= 0.01
    else:
        assert shown > 0.05  # the attack itself works


def exposure(
    settings: Settings, shape: Shape, fakes: list[int], dim: int
) -> tuple[float, npt.NDArray[np.bool_]]:
    """Who is shown the last item, which nobody likes, after rounds with so many fakes in each."""
    rule, learning, items = settings.privacy, settings.learning, shape.items
    method = SolveMethod(dim=dim, prefixes=5)
    people, rng, dead = make_population(shape, seed=3), np.random.default_rng(1), items - 1
    known = [one[one != dead] for one in people.histories]
    starts = np.concatenate([[0], np.cumsum([len(one) for one in known])]).astype(np.int64)
    histories = Histories(starts, np.concatenate(known))
    popular = np.argsort(-people.popularity())[: items // 10]
    state = Learner(rng.normal(0.0, 0.1, (items, dim)))
    schedule = Schedule(clip=rule.clip, noise=rule.noise, coefficients=rule.coefficients)
    bands, touch = (
        Bands(schedule, items, dim, rng),
        touch_weight(learning, rule.clip, rule.noise, items),
    )
    for step, count in enumerate(fakes):
        who = np.sort(rng.permutation(shape.users)[: settings.round.max_updates - 1])
        total = sum_shares(
            histories.some(who), state.common, method, clip=rule.clip,
            row_clip=rule.row_clip or np.inf, touch=touch,
        )  # fmt: skip
        if count:
            total = pushed(total, state, dead, popular, count)
        if rule.noise:
            total = bands.noised(total, touch)
        state = learn_step(state, total, method, learning, step)
    withheld = withheld_rows(state.support, learning.min_support, items)
    scores = derive_users(state.common, histories, settings.scoring).shared(np.arange(shape.users))
    scores[:, withheld] = -np.inf
    scores[histories.owners, histories.items] = -np.inf
    mine = scores[:, dead]
    shown = np.mean(np.isfinite(mine) & ((scores > mine[:, None]).sum(axis=1) < 10))
    return float(shown), withheld


def pushed(total: RoundSum, state: Learner, dead: int, popular: Rows, count: int) -> RoundSum:
    """More devices, which send all that the bound allows, towards what most people like."""
    liked = state.common[popular].mean(axis=0)
    values, touches = np.zeros_like(state.common), np.zeros(len(state.common))
    values[total.rows], touches[total.rows] = total.values, total.touches
    values[dead] -= count * total.bound * liked / np.linalg.norm(liked)
    touches[dead] += count
    rows = np.union1d(total.rows, [dead])
    return replace(
        total, rows=rows, values=values[rows], devices=total.devices + count, touches=touches[rows]
    )
