"""Touches are counted inside the clip, and no row scores higher than usual for as many devices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.aggregate import Accumulator
from fedrap_core.plan import SolveMethod
from fedrap_core.solve.server_step import (
    MEMORY,
    TOUCH_SHARE,
    Learner,
    Learning,
    Popularity,
    RoundSum,
    cap_scores,
    follow_popularity,
    learn_step,
    touch_weight,
)
from fedrap_core.sparse import RowUpdate, pack_gram, packed_size
from tests.core.made import quick, random_update, seeds

SIZE, DIM = 40, 4
KEY = bytes(range(32))


def _round(
    rows: list[int], touches: list[float], devices: int = 10, spread: float = 0.0
) -> RoundSum:
    return RoundSum(
        np.array(rows), np.zeros((len(rows), DIM)), pack_gram(np.eye(DIM)), devices,
        touches=np.array(touches), touches_spread=spread,
    )  # fmt: skip


@quick
@given(seeds, st.floats(0.1, 20.0), st.floats(0.01, 3.0))
def test_rows_gram_and_touches_of_one_device_are_never_longer_than_the_clip(
    seed: int, clip: float, touch: float
) -> None:
    update = random_update(np.random.default_rng(seed), SIZE, DIM, spread=2.0)
    sums = Accumulator(SIZE, DIM, clip, touch=touch)
    sums.add(update)
    total = sums.total(1e-12, KEY, 1)  # every number, next to no noise
    assert total.touches is not None
    length = np.sqrt(
        np.sum(total.values**2)
        + np.sum(total.packed_gram**2)
        + np.sum((touch * total.touches) ** 2)
    )
    assert length <= clip * (1 + 1e-6)
    assert np.array_equal(np.flatnonzero(total.touches > 1e-6), update.rows)


def test_touches_change_no_number_of_the_noise_before_them() -> None:
    plain, counted = Accumulator(SIZE, DIM, 2.0), Accumulator(SIZE, DIM, 2.0, touch=0.3)
    nothing = RowUpdate(np.zeros(0, dtype=np.int64), np.zeros((0, DIM)), np.zeros(packed_size(DIM)))
    for sums in (plain, counted):
        sums.add(nothing)
    one, other = (sums.total(1.5, KEY, 3) for sums in (plain, counted))
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.packed_gram, other.packed_gram)
    assert one.touches is None
    assert other.touches is not None
    assert other.touches_spread == pytest.approx(1.5 * 2.0 / 0.3)
    assert np.std(other.touches) == pytest.approx(other.touches_spread, rel=0.4)


def test_without_noise_touches_are_exact_and_cost_nothing() -> None:
    rng, sums, known = np.random.default_rng(2), Accumulator(SIZE, DIM, 1e6), np.zeros(SIZE)
    for _ in range(7):
        update = random_update(rng, SIZE, DIM)
        sums.add(update)
        known[update.rows] += 1
    total = sums.total(0.0, KEY, 1)
    assert total.touches is not None
    assert np.array_equal(total.touches, known[total.rows])


def test_a_touch_takes_its_share_of_a_usual_update_and_nothing_where_nobody_asks() -> None:
    learning = Learning(density=0.1, score_cap=1.5)
    weight = touch_weight(learning, 6.0, 1.1, 1000)
    assert weight**2 * 100 == pytest.approx(TOUCH_SHARE * 36.0)
    assert touch_weight(learning, 6.0, 0.0, 1000) == 0.0
    assert touch_weight(Learning(density=0.1), 6.0, 1.1, 1000) == 0.0


def test_popularity_is_the_mean_of_ten_rounds_and_then_forgets() -> None:
    known: Popularity | None = None
    for touched in range(10):
        known = follow_popularity(known, _round([0, 2], [touched, 10.0], spread=2.0), 3)
    assert known is not None
    assert known.share == pytest.approx([0.45, 0.0, 1.0])
    assert known.variance == pytest.approx(0.2**2 / 10)
    later = follow_popularity(known, _round([0], [10.0]), 4)  # an item came
    assert later is not None
    assert later.share == pytest.approx([MEMORY * 0.45 + 1 - MEMORY, 0.0, MEMORY, 0.0])
    assert follow_popularity(later, RoundSum(*_bare()), 4) is later


def _bare() -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    return np.array([0]), np.zeros((1, DIM)), pack_gram(np.eye(DIM)), 3


@quick
@given(seeds, st.floats(0.5, 4.0))
def test_no_row_of_a_round_scores_higher_than_the_cap_and_others_stay(
    seed: int, cap: float
) -> None:
    rng = np.random.default_rng(seed)
    common, half = rng.normal(size=(SIZE, DIM)), rng.normal(size=(DIM, DIM))
    gram, share = half @ half.T, rng.uniform(0.01, 0.5, SIZE)
    common[5] *= 50.0  # promoted
    rows = np.sort(rng.permutation(SIZE)[:30])
    found = cap_scores(common, rows, gram, Popularity(share, 0.0, 3), cap, 100)
    size = np.einsum("jk,kl,jl->j", found, gram, found)
    before = np.einsum("jk,kl,jl->j", common, gram, common)
    popular = np.argsort(-share)[:20]
    usual = np.median(before[popular] / share[popular])
    assert np.all(size[rows] <= cap * usual * (share[rows] + 0.01) * (1 + 1e-9))
    others = np.setdiff1d(np.arange(SIZE), rows)
    np.testing.assert_array_equal(found[others], common[others])
    lower = rows[before[rows] <= cap * usual * (share[rows] + 0.01)]
    np.testing.assert_array_equal(found[lower], common[lower])


def test_few_rows_say_nothing_of_what_is_usual() -> None:
    common = np.full((SIZE, DIM), 9.0)
    share = np.zeros(SIZE)
    share[:19] = 0.1
    assert (
        cap_scores(common, np.arange(SIZE), np.eye(DIM), Popularity(share, 0.0, 1), 1.5, 10)
        is common
    )


def test_a_step_without_counts_or_without_a_cap_is_what_it_was() -> None:
    rng = np.random.default_rng(1)
    state = Learner(rng.normal(0.0, 0.1, (SIZE, DIM)))
    total = _round(list(range(SIZE)), [1.0] * (SIZE - 1) + [0.0])
    total = RoundSum(
        total.rows, rng.normal(size=(SIZE, DIM)), total.packed_gram, 10, touches=total.touches
    )
    bare = RoundSum(total.rows, total.values, total.packed_gram, 10)
    method = SolveMethod(dim=DIM)
    plain = learn_step(state, bare, method, Learning(), 0)
    np.testing.assert_array_equal(
        plain.common, learn_step(state, bare, method, Learning(score_cap=0.01), 0).common
    )
    np.testing.assert_array_equal(
        plain.common, learn_step(state, total, method, Learning(), 0).common
    )
    capped = learn_step(state, total, method, Learning(score_cap=0.01), 0)
    assert np.linalg.norm(capped.common) < np.linalg.norm(plain.common)
    assert capped.popularity is not None
