"""The compiled engine of `solve` gives the numbers of the core, for any number of threads."""

from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_core.aggregate import Accumulator
from fedrap_core.model import CommonItems, History
from fedrap_core.plan import Scoring, SolveMethod
from fedrap_core.privacy.banded import inverse_series
from fedrap_core.quantize import quantize_rows
from fedrap_core.solve.device_share import compute_share, join_shares, pose_round
from fedrap_core.solve.server_step import Learning, RoundSum
from fedrap_core.solve.user import derive_user, smoothed
from fedrap_simulation.data.interactions import Histories
from fedrap_simulation.engine import solve_rounds
from fedrap_simulation.engine.compiled import Matrix
from fedrap_simulation.engine.solve_rounds import (
    Bands,
    Schedule,
    cohorts,
    run_rounds,
    sum_shares,
)
from fedrap_simulation.engine.solve_scoring import derive_users, once

ITEMS, DIM = 60, 8


def some_histories(seed: int, users: int = 12, repeats: bool = False) -> Histories:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, users)
    lists = [rng.choice(ITEMS, length, replace=repeats) for length in lengths]
    return Histories(np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(lists))


def some_items(seed: int, dim: int = DIM) -> CommonItems:
    rng = np.random.default_rng(seed)
    return CommonItems(1, quantize_rows(rng.normal(0.0, 0.3, (ITEMS, dim))))


def taps(histories: Histories, user: int) -> History:
    rows = histories.of(user)[::-1].copy()
    return History(rows, np.ones(len(rows)))


def reference(
    histories: Histories,
    common: CommonItems,
    method: SolveMethod,
    clip: float,
    row_clip: float | None = None,
) -> RoundSum:
    total = Accumulator(ITEMS, method.dim, clip, row_clip)
    for user in range(len(histories)):
        problem = pose_round(common, common.gram(), taps(histories, user), method)
        total.add(join_shares(problem, [compute_share(one) for one in problem.problems]).update)
    return total.total(0.0, bytes(32), 1)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    order=st.sampled_from([0.0, 0.3, 1.0]),
    prefixes=st.integers(0, 40),
    clip=st.sampled_from([1e5, 2.0]),
    dim=st.sampled_from([DIM, 36, 60]),  # histories are longer, some shorter, all shorter
    gamma=st.sampled_from([0.1, 0.0]),
)
def test_a_round_sums_to_what_the_core_sums(
    seed: int, order: float, prefixes: int, clip: float, dim: int, gamma: float
) -> None:
    histories, common = some_histories(seed), some_items(seed, dim)
    method = SolveMethod(dim=dim, order=order, prefixes=prefixes, gamma=gamma)
    found = sum_shares(histories, common.items.to_float().astype(np.float64), method, clip=clip)
    known = reference(histories, common, method, clip)
    np.testing.assert_array_equal(found.rows, known.rows)
    np.testing.assert_allclose(found.values, known.values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.packed_gram, known.packed_gram, rtol=1e-4, atol=1e-5)
    assert found.devices == known.devices == len(histories)


@pytest.mark.parametrize("repeats", [False, True])
def test_users_and_personal_items_are_those_of_the_core(repeats: bool) -> None:
    histories, common = some_histories(3, repeats=repeats), some_items(3)
    scoring = Scoring(recent=7, rho=0.4)
    tastes = derive_users(common.items.to_float().astype(np.float64), histories, scoring)
    everyone = np.arange(len(histories))
    shared = tastes.shared(everyone)
    personal = tastes.personal(everyone, shared)
    rows = np.arange(ITEMS)
    for user in range(len(histories)):
        taste = derive_user(common, common.gram(), taps(histories, user), scoring)
        np.testing.assert_allclose(tastes.users[user], taste.user, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(shared[user], common.scores(taste.user), rtol=1e-3, atol=1e-5)
        known = smoothed(taste, rows, common.take(rows), scoring).sum(axis=1)
        np.testing.assert_allclose(personal[user], known, rtol=1e-3, atol=1e-5)


def test_the_power_of_four_is_no_special_case() -> None:
    histories, common = some_histories(5), some_items(5).items.to_float().astype(np.float64)
    everyone = np.arange(len(histories))
    quick, slow = (
        tastes.personal(everyone, tastes.shared(everyone))
        for power in (4.0, 4.0 + 1e-9)
        for tastes in [derive_users(common, histories, Scoring(power=power))]
    )
    np.testing.assert_allclose(quick, slow, rtol=1e-4, atol=1e-6)


def test_the_shortlist_leaves_the_best_and_the_users_own_as_they_are() -> None:
    histories, common = some_histories(6), some_items(6).items.to_float().astype(np.float64)
    tastes = derive_users(common, histories, Scoring(recent=5))
    everyone = np.arange(len(histories))
    shared = tastes.shared(everyone)
    whole, short = tastes.personal(everyone, shared), tastes.personal(everyone, shared, shortlist=3)
    for user in range(len(histories)):
        own = tastes.near.of(user)
        np.testing.assert_array_equal(short[user, own], whole[user, own])
        others = np.setdiff1d(np.arange(ITEMS), histories.of(user))
        best = others[np.argsort(-shared[user, others])]
        np.testing.assert_array_equal(short[user, best[:3]], whole[user, best[:3]])
        assert np.all(short[user, best[3 + len(histories.of(user)) :]] == 0.0)
    assert np.any(short != whole)


def test_threads_and_blocks_do_not_change_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    histories, common = some_histories(7), some_items(7).items.to_float().astype(np.float64)
    method = SolveMethod(dim=DIM)
    known = sum_shares(histories, common, method, int8_seed=1)
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        alone = sum_shares(histories, common, method, int8_seed=1)
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(known.values, alone.values)
    monkeypatch.setattr(solve_rounds, "BLOCK_ROWS", 20)
    blocks = sum_shares(histories, common, method)
    whole = sum_shares(histories, common, method)
    np.testing.assert_allclose(blocks.values, whole.values, rtol=1e-6)
    assert len(list(solve_rounds.blocks_of(histories))) > 3


def test_int8_uploads_are_unbiased() -> None:
    histories, common = some_histories(9), some_items(9).items.to_float().astype(np.float64)
    method = SolveMethod(dim=DIM)
    exact = sum_shares(histories, common, method)
    drawn = [sum_shares(histories, common, method, int8_seed=seed).values for seed in range(200)]
    spread = np.max(np.std(drawn, axis=0))  # of one draw, where it is widest
    assert spread > 1e-4
    error = np.abs(np.mean(drawn, axis=0) - exact.values)
    assert np.max(error) < 6.0 * spread / np.sqrt(len(drawn))


@pytest.mark.parametrize("part", [0.1, 0.5, 0.34, 1.0])
def test_nobody_takes_part_twice_in_a_row_nor_too_often(part: float) -> None:
    rounds, users = 40, 53
    schedule = Schedule(rounds=rounds, part=part)
    groups = list(cohorts(users, schedule, np.random.default_rng(1)))
    for one, two in pairwise(groups):
        assert part == 1.0 or not np.intersect1d(one, two).size
    counts = np.bincount(np.concatenate(groups), minlength=users)
    assert counts.max() <= schedule.participations == np.ceil(rounds / round(1 / part))
    assert counts.min() >= rounds // round(1 / part)


def test_with_bands_everybody_keeps_a_turn() -> None:
    schedule = Schedule(rounds=23, part=0.2, coefficients=(1.0, 0.6, 0.5))
    groups = list(cohorts(31, schedule, np.random.default_rng(1)))
    assert schedule.separation == schedule.turns == 5
    for step, group in enumerate(groups[5:], 5):
        np.testing.assert_array_equal(group, groups[step - 5])
    assert schedule.participations == 5


def test_bands_take_noise_back_as_the_core_does() -> None:
    coefficients = (1.0, 0.5, 0.25)
    schedule = Schedule(rounds=6, part=0.2, clip=2.0, noise=1.5, coefficients=coefficients)
    bands = Bands(schedule, 4, 2, np.random.default_rng(3))
    nothing = RoundSum(np.zeros(0, dtype=np.int64), np.zeros((0, 2)), np.zeros(3), 1)
    found = [bands.noised(nothing) for _ in range(6)]
    fresh = np.random.default_rng(3)
    drawn = np.array([fresh.normal(0.0, 3.0, 11) for _ in range(6)])  # Z_t
    series = inverse_series(coefficients, 6)
    for step, one in enumerate(found):
        known = sum(series[back] * drawn[step - back] for back in range(step + 1))
        np.testing.assert_allclose(np.append(one.values.ravel(), one.packed_gram), known)


def test_more_copies_of_each_history_are_as_much_less_noise() -> None:
    """The sum of ten copies with noise is ten times that of one with a tenth of it."""
    nothing = RoundSum(np.zeros(0, dtype=np.int64), np.zeros((0, 2)), np.zeros(3), 1)
    one, ten = (
        Bands(Schedule(clip=2.0, noise=1.5, copies=copies), 4, 2, np.random.default_rng(3))
        for copies in (1, 10)
    )
    for _ in range(3):
        alone, among = one.noised(nothing), ten.noised(nothing)
        np.testing.assert_allclose(among.values, alone.values / 10)
        np.testing.assert_allclose(among.packed_gram, alone.packed_gram / 10)
        assert among.spread == alone.spread / 10


def test_a_row_is_clipped_before_the_whole() -> None:
    histories, common = some_histories(4), some_items(4).items.to_float().astype(np.float64)
    method = SolveMethod(dim=DIM)
    whole = reference(histories, some_items(4), method, 3.0, row_clip=0.2)
    found = sum_shares(histories, common, method, clip=3.0, row_clip=0.2)
    np.testing.assert_allclose(found.values, whole.values, rtol=1e-4, atol=1e-5)
    free = sum_shares(histories, common, method, clip=3.0)
    assert np.max(np.abs(free.values - found.values)) > 0.01


def test_no_device_adds_more_than_the_clip_although_it_was_rounded() -> None:
    common = some_items(8).items.to_float().astype(np.float64)
    method, clip = SolveMethod(dim=DIM), 0.7
    for seed in range(20):
        one = some_histories(seed, users=1)
        total = sum_shares(one, common, method, clip=clip, int8_seed=seed)
        norm = np.sqrt(np.sum(total.values**2) + np.sum(total.packed_gram**2))
        assert norm <= clip * (1 + 1e-6)


def test_the_same_seed_gives_the_same_releases_and_noise_shows() -> None:
    histories = some_histories(11, users=30)
    learning = Learning(population=30, density=0.2)

    def last(schedule: Schedule, seed: int = 1) -> Matrix:
        method = SolveMethod(dim=DIM)
        *_, final = run_rounds(histories, ITEMS, method, learning, schedule, seed)
        assert final.step == schedule.rounds
        return final.common

    plain = Schedule(rounds=4, part=0.5)
    np.testing.assert_array_equal(last(plain), last(plain))
    assert np.any(last(plain) != last(plain, seed=2))
    assert np.any(last(plain) != last(Schedule(rounds=4, part=0.5, clip=1.0, noise=1.0)))


def test_once_keeps_the_newest_of_each_item() -> None:
    histories = Histories(np.array([0, 4, 4, 6]), np.array([5, 3, 5, 1, 2, 2]))
    found, entries = once(histories, ITEMS)
    assert [list(found.of(user)) for user in range(3)] == [[3, 5, 1], [], [2]]
    assert list(entries) == [1, 2, 3, 5]
