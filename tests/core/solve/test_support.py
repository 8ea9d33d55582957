"""Support never counts too many; a capped step holds; a triangle stays in its cone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.aggregate import Accumulator
from fedrap_core.plan import SolveMethod
from fedrap_core.solve.server_step import (
    Learner,
    Learning,
    RoundSum,
    add_support,
    cap_moves,
    count_devices,
    learn_step,
    withheld_rows,
)
from fedrap_core.sparse import (
    RowUpdate,
    keep_semidefinite,
    pack_gram,
    packed_size,
    unpack_gram,
)
from fedrap_core.wire.share import decode_share, encode_share, uniform_count
from tests.core.made import quick, random_update, seeds

SIZE, DIM = 20, 4
KEY = bytes(range(32))
METHOD = SolveMethod(dim=DIM)


def _counted(total: RoundSum) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return count_devices(total.values, total.devices, total.bound, total.spread)


@quick
@given(seeds, st.integers(1, 12), st.sampled_from([None, 0.3, 2.0, 50.0]), st.floats(0.1, 20.0))
def test_support_is_never_more_than_the_devices_that_touched_a_row(
    seed: int, devices: int, row_clip: float | None, clip: float
) -> None:
    rng = np.random.default_rng(seed)
    total, touched = Accumulator(SIZE, DIM, clip, row_clip), np.zeros(SIZE)
    for _ in range(devices):
        update = random_update(rng, SIZE, DIM, spread=float(rng.lognormal(0, 2)))
        touched[update.rows] += 1
        total.add(update)
    released = total.total(0.0, KEY, 1)
    counted = _counted(released)
    assert np.all(counted <= touched[released.rows] + 1e-9)
    assert np.all(counted > 0)


def test_devices_that_send_all_they_may_count_one_each() -> None:
    total = Accumulator(SIZE, DIM, 8.0, row_clip=0.5)
    for _ in range(7):
        push = np.full((1, DIM), 1e6)
        total.add(RowUpdate(np.array([3]), push, np.zeros(packed_size(DIM))))
    assert _counted(total.total(0.0, KEY, 1)) == pytest.approx([7.0])


@pytest.mark.parametrize("coefficients", [(1.0,), (1.0, 0.7, 0.6)])
def test_noise_alone_hardly_ever_counts(coefficients: tuple[float, ...]) -> None:
    size, counts = 2000, []
    total = Accumulator(size, DIM, 3.0)
    for _ in range(5):  # rows 0 to 9 are touched by all five
        values = np.full((10, DIM), 1e3)
        total.add(RowUpdate(np.arange(10), values, np.zeros(packed_size(DIM))))
    for step in range(1, 6):
        released = total.total(2.0, KEY, step, coefficients)
        counts.append(_counted(released))
    table = np.array(counts)  # (steps, rows)
    assert np.mean(table[:, 10:] > 0) < 1e-3
    assert np.all(table[:, :10] <= 5.0)


def test_a_sum_without_a_known_bound_counts_nobody() -> None:
    assert count_devices(np.full((2, 3), 1e9), 5, np.inf, 0.0).tolist() == [0.0, 0.0]


def test_support_adds_up_and_new_rows_start_without() -> None:
    once = add_support(None, np.array([1]), np.array([2.5]), 3)
    again = add_support(once, np.array([1, 4]), np.array([1.0, 3.0]), 5)
    assert again.tolist() == [0.0, 3.5, 0.0, 0.0, 3.0]
    assert withheld_rows(again, 3.0, 6).tolist() == [True, False, True, True, False, True]
    assert not withheld_rows(again, 0.0, 6).any()
    assert withheld_rows(None, 1.0, 2).all()


def _round(seed: int) -> tuple[Learner, RoundSum]:
    rng = np.random.default_rng(seed)
    state = Learner(rng.normal(0.0, 0.1, (SIZE, DIM)), None, rng.uniform(0.0, 20.0, SIZE))
    users = rng.normal(size=(3, DIM))
    rows = np.sort(rng.permutation(SIZE)[:6])
    values = rng.normal(0.0, float(rng.lognormal(0, 2)), (6, DIM))
    return state, RoundSum(rows, values, pack_gram(users.T @ users), 3, bound=1.0)


@quick
@given(seeds, st.floats(0.01, 2.0), st.sampled_from([0.0, 10.0]))
def test_no_row_moves_further_than_its_reach(seed: int, row_step: float, least: float) -> None:
    state, total = _round(seed)
    free = learn_step(state, total, METHOD, Learning(), 0)
    learning = Learning(row_step=row_step, min_support=least)
    bound = learn_step(state, total, METHOD, learning, 0)
    assert bound.support is not None
    usual = np.sqrt(np.mean(np.sum(state.common**2, axis=1)))
    warm = np.minimum(1.0, bound.support / least) if least else np.ones(SIZE)
    moved = np.linalg.norm(bound.common - state.common, axis=1)
    wished = np.linalg.norm(free.common - state.common, axis=1)
    assert np.all(moved <= row_step * usual * warm + 1e-12)
    inside = wished <= row_step * usual * warm
    assert np.array_equal(bound.common[inside], free.common[inside])
    along = np.sum((bound.common - state.common) * (free.common - state.common), axis=1)
    assert np.allclose(along, moved * wished)  # the direction stays


@quick
@given(seeds)
def test_without_a_cap_support_changes_no_number(seed: int) -> None:
    state, total = _round(seed)
    plain = RoundSum(total.rows, total.values, total.packed_gram, total.devices)
    without = learn_step(Learner(state.common), plain, METHOD, Learning(), 0)
    for learning in (Learning(), Learning(min_support=9.0), Learning(row_step=1e6)):
        found = learn_step(state, total, METHOD, learning, 0)
        assert np.array_equal(found.common, without.common)
        assert found.gram is not None
        assert without.gram is not None
        assert np.array_equal(found.gram, without.gram)


def test_a_row_without_support_does_not_move_at_all() -> None:
    here = np.ones((2, 3))
    moved = cap_moves(here, here + 5.0, np.array([0.0, 1e9]))
    assert np.array_equal(moved, [[1.0] * 3, [6.0] * 3])


@pytest.mark.spec("5.8")
@quick
@given(seeds, st.sampled_from([1, 2, 5, 16, 33]), st.integers(1, 30))
def test_an_honest_triangle_is_counted_as_it_came(seed: int, dim: int, users: int) -> None:
    rng = np.random.default_rng(seed)
    some = rng.normal(size=(users, dim)) * rng.lognormal(0.0, 2.0, dim)
    made = RowUpdate(np.array([0]), np.zeros((1, dim)), pack_gram(some.T @ some))
    got = decode_share(encode_share(made, rng.random(uniform_count(made))), dim)
    assert keep_semidefinite(got, dim) is got


@pytest.mark.spec("5.8")
@quick
@given(seeds)
def test_a_triangle_that_no_user_gives_does_not_lower_the_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    hostile = RowUpdate(np.array([0]), np.ones((1, DIM)), -np.abs(rng.normal(1.0, 5.0, 10)))
    total = Accumulator(SIZE, DIM, 8.0)
    total.add(hostile)
    released = total.total(0.0, KEY, 1)
    assert np.linalg.eigvalsh(unpack_gram(released.packed_gram, DIM)).min() >= -1e-9
    assert np.sum(released.values**2) + np.sum(released.packed_gram**2) <= 64.0 + 1e-9
