"""What a coordinator gives away, and to whom, as `init` sets it up.

Version 0.1: without noise only touched rows changed, so 19 devices of an attacker and one victim
gave the victim's items exactly; and one device in a cohort of 20 had a dead item recommended to
nearly everybody.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from fedrap_coordinator.privacy.recipe import Expected, derive
from fedrap_coordinator.settings import Settings
from fedrap_core.aggregate import Accumulator
from fedrap_core.plan import Privacy, Scoring, SolveMethod
from fedrap_core.solve.server_step import Learner, Learning, RoundSum, learn_step, withheld_rows
from fedrap_core.sparse import RowUpdate, packed_size
from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.data.synthetic import Shape, make_population
from fedrap_simulation.engine.solve_rounds import sum_shares
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
    people = make_population(Shape(users=200, items=ITEMS, longest=30), seed=3)
    found = derive(Expected(200, ITEMS, None, 20.0)).settings
    method, rule, learning = SolveMethod(dim=DIM, prefixes=5), found.privacy, found.learning
    assert found.round.max_updates == 20
    if not bounded:  # as 0.1 had it
        rule, learning = Privacy(clip=30.0), Learning(eta=0.3, population=200, density=0.3)
    rng, dead = np.random.default_rng(1), ITEMS - 1
    known = [one[one != dead] for one in people.histories]
    starts = np.concatenate([[0], np.cumsum([len(one) for one in known])]).astype(np.int64)
    histories = Histories(starts, np.concatenate(known))
    popular = np.argsort(-people.popularity())[:6]
    state = Learner(rng.normal(0.0, 0.1, (ITEMS, DIM)))
    for step in range(found.round.total):
        honest = sum_shares(
            histories.some(np.sort(rng.permutation(200)[:19])), state.common, method,
            clip=rule.clip, row_clip=rule.row_clip or np.inf,
        )  # fmt: skip
        left = found.round.total - step  # the attacker comes late, as often as a device may
        there = left <= 2 * found.privacy.cap and left % 2 == 1
        total = pushed(honest, state, dead, popular) if there else honest
        state = learn_step(state, total, method, learning, step)
    withheld = withheld_rows(state.support, learning.min_support, ITEMS)
    users = np.arange(200)
    scores = derive_users(state.common, histories, Scoring()).shared(users)
    scores[:, withheld] = -np.inf
    scores[histories.owners, histories.items] = -np.inf
    mine = scores[:, dead]
    shown = np.mean(np.isfinite(mine) & ((scores > mine[:, None]).sum(axis=1) < 10))
    if bounded:
        assert withheld[dead]
        assert withheld.mean() < 0.3  # honest items are there
        assert shown == 0.0
    else:
        assert shown > 0.5  # the attack itself works


def pushed(total: RoundSum, state: Learner, dead: int, popular: Rows) -> RoundSum:
    """One more device, which sends all that the bound allows, towards what most people like."""
    liked = state.common[popular].mean(axis=0)
    values = np.zeros_like(state.common)
    values[total.rows] = total.values
    values[dead] -= total.bound * liked / np.linalg.norm(liked)
    rows = np.union1d(total.rows, [dead])
    return RoundSum(rows, values[rows], total.packed_gram, total.devices + 1, total.bound)
