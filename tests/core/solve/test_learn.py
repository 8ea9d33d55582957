"""A device's share of a round and the coordinator's step on C."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import BrokenModel
from fedrap_core.plan import SolveMethod
from fedrap_core.solve.device_share import ShareProblem, compute_share, pose_share, training_weights
from fedrap_core.solve.server_step import (
    Learner,
    Learning,
    RoundSum,
    learn_step,
    share_of_zeros,
    step_size,
    zero_smallest,
)
from fedrap_core.solve.user import base_system
from fedrap_core.sparse import pack_gram, unpack_gram
from tests.core.made import Matrix, history_of, quick, random_history, random_items, seeds

METHOD = SolveMethod(dim=3, alpha=4.0, w0=0.7, ridge=2.0)


def _problem(seed: int, length: int) -> ShareProblem:
    rng = np.random.default_rng(seed)
    common = random_items(rng, dim=3)
    return pose_share(common, common.gram(), random_history(rng, common.size, length), METHOD)


def _misfit(own: Matrix, weights: Matrix, user: Matrix) -> float:
    """The part of the device's objective that its own rows of C enter."""
    return float(weights @ (1.0 - own @ user) ** 2)


@quick
@given(seeds, st.integers(1, 8))
def test_a_row_is_half_the_gradient_of_the_objective_in_c_at_fixed_x(
    seed: int, length: int
) -> None:
    problem = _problem(seed, length)
    share = compute_share(problem)
    for place in np.ndindex(problem.own.shape):
        there, back = problem.own.copy(), problem.own.copy()
        there[place] += 1e-4
        back[place] -= 1e-4
        slope = (
            _misfit(there, problem.weights, share.user) - _misfit(back, problem.weights, share.user)
        ) / 2e-4
        assert share.update.values[place] == pytest.approx(slope / 2, rel=1e-6, abs=1e-8)


@quick
@given(seeds, st.integers(0, 8))
def test_the_triangle_is_that_of_x_with_itself(seed: int, length: int) -> None:
    share = compute_share(_problem(seed, length))
    assert np.array_equal(
        unpack_gram(share.update.packed_gram, 3), np.outer(share.user, share.user)
    )


@quick
@given(seeds, st.integers(0, 12), st.floats(1e-9, 1e3), st.floats(0.0, 1e3))
def test_the_loss_is_the_objective_over_its_value_at_zero_and_lies_between_0_and_1(
    seed: int, length: int, ridge: float, w0: float
) -> None:
    rng = np.random.default_rng(seed)
    common, method = random_items(rng, dim=3), SolveMethod(dim=3, ridge=ridge, w0=w0)
    problem = pose_share(common, common.gram(), random_history(rng, 20, length), method)
    share = compute_share(problem)
    assert 0.0 <= share.loss <= 1.0
    if length:
        value = _misfit(problem.own, problem.weights, share.user)
        value += float(share.user @ base_system(common.gram(), w0, ridge) @ share.user)
        assert share.loss == pytest.approx(value / problem.weights.sum(), rel=1e-6, abs=1e-6)


def test_rounding_never_takes_the_loss_below_zero() -> None:
    own = np.array([[1.0, 0.3], [0.3, 0.7]])
    problem = ShareProblem(np.arange(2), own, np.array([1e9, 1e9]), 1e-9 * np.eye(2))
    assert 0.0 <= compute_share(problem).loss < 1e-6


def test_an_empty_history_shares_nothing() -> None:
    share = compute_share(_problem(1, 0))
    assert len(share.update.rows) == 0
    assert share.update.norm() == 0.0
    assert share.loss == 1.0


def test_in_training_an_item_counts_once_with_its_largest_weight() -> None:
    rows, weights = training_weights(history_of(9, 2, 9, 2, weights=[1.0, 3.0, 2.0, 0.5]), 5.0)
    assert rows.tolist() == [2, 9]
    assert weights.tolist() == [15.0, 10.0]


@quick
@given(seeds, st.floats(0.0, 0.99))
def test_zeros_are_the_smallest_and_the_rest_is_untouched(seed: int, share: float) -> None:
    values = np.random.default_rng(seed).normal(size=(5, 4))
    sparse = zero_smallest(values, share)
    zero = sparse == 0.0
    assert np.count_nonzero(zero) == int(share * 20)
    assert np.array_equal(sparse[~zero], values[~zero])
    assert np.abs(values[zero]).max(initial=0.0) <= np.abs(values[~zero]).min(initial=np.inf)


@quick
@given(st.integers(0, 300), st.integers(1, 200), st.floats(0.0, 0.99))
def test_zeros_come_late_and_only_grow(step: int, settled: int, zeros: float) -> None:
    learning = Learning(zeros=zeros, settled=settled)
    now = share_of_zeros(learning, step)
    assert now <= share_of_zeros(learning, step + 1) <= zeros
    if 2 * (step + 1) <= settled:
        assert now == 0.0
    if step + 1 >= settled:
        assert now == zeros


def _round(seed: int, rows: list[int], devices: int = 3) -> tuple[Learner, RoundSum]:
    rng = np.random.default_rng(seed)
    state = Learner(rng.normal(0.0, 0.1, size=(10, 3)))
    users = rng.normal(size=(devices, 3))
    triangle = pack_gram(users.T @ users)
    values = rng.normal(size=(len(rows), 3))
    return state, RoundSum(np.array(rows, dtype=np.int64), values, triangle, devices)


@quick
@given(seeds)
def test_a_step_changes_touched_rows_only_and_is_deterministic(seed: int) -> None:
    state, total = _round(seed, [1, 4, 5])
    before = state.common.copy()
    once = learn_step(state, total, METHOD, Learning(), 3)
    again = learn_step(state, total, METHOD, Learning(), 3)
    untouched = [j for j in range(10) if j not in (1, 4, 5)]
    assert np.array_equal(once.common, again.common)
    assert np.array_equal(once.common[untouched], before[untouched])
    assert not np.array_equal(once.common[total.rows], before[total.rows])
    assert np.array_equal(state.common, before)


@quick
@given(seeds)
def test_a_step_is_the_formula_of_the_module(seed: int) -> None:
    state, total = _round(seed, [0, 7])
    learning = Learning(eta=0.3, decay=0.9, ridge=4.0, population=50, density=0.1)
    S = unpack_gram(total.packed_gram / 3, 3)
    H = (METHOD.w0 + METHOD.alpha * 0.1) * S + 4.0 / 50 * np.eye(3)
    expected = []
    for j, row in zip(total.rows, total.values, strict=True):
        grad = row / 3 + METHOD.w0 * state.common[j] @ S + 4.0 / 50 * state.common[j]
        expected.append(state.common[j] - 0.3 * 0.9**2 * grad @ np.linalg.inv(H))
    learnt = learn_step(state, total, METHOD, learning, 2)
    assert np.allclose(learnt.common[total.rows], expected, rtol=1e-6, atol=1e-9)


def test_the_gram_is_a_running_mean() -> None:
    state, total = _round(2, [1])
    first = learn_step(state, total, METHOD, Learning(memory=0.75), 0)
    seen = unpack_gram(total.packed_gram / 3, 3)
    assert first.gram is not None
    assert np.allclose(first.gram, seen)
    doubled = RoundSum(total.rows, total.values, 2 * total.packed_gram, 3)
    second = learn_step(first, doubled, METHOD, Learning(memory=0.75), 1)
    assert second.gram is not None
    assert np.allclose(second.gram, 1.25 * seen)


def test_a_round_of_nobody_changes_nothing() -> None:
    state, total = _round(3, [1, 2])
    nobody = RoundSum(total.rows, total.values, total.packed_gram, 0)
    silent = RoundSum(total.rows, total.values, np.zeros(6), 3)
    assert learn_step(state, nobody, METHOD, Learning(), 0) is state
    assert learn_step(state, silent, METHOD, Learning(), 0) is state


@pytest.mark.parametrize("user", [[1.0, 0.0, 0.0], [1e-9, 1e-9, 0.0]])
def test_a_gram_without_full_rank_is_safe(user: list[float]) -> None:
    state, total = _round(4, [1, 2])
    flat = RoundSum(total.rows, total.values, pack_gram(np.outer(user, user)), 1)
    learnt = learn_step(state, flat, METHOD, Learning(), 0)
    assert np.all(np.isfinite(learnt.common))


def test_noise_that_leaves_the_cone_is_projected_back() -> None:
    state, total = _round(5, [1])
    noisy = pack_gram(np.diag([4.0, -3.0, 1.0]))
    learnt = learn_step(state, RoundSum(total.rows, total.values, noisy, 1), METHOD, Learning(), 0)
    assert learnt.gram is not None
    assert np.allclose(learnt.gram, np.diag([4.0, 0.0, 1.0]))


def test_a_settled_step_leaves_the_asked_share_of_c_zero_in_all_rows() -> None:
    state, total = _round(6, [1, 4])
    learnt = learn_step(state, total, METHOD, Learning(zeros=0.6, settled=5), 4)
    assert np.mean(learnt.common == 0.0) == pytest.approx(0.6)
    dense = learn_step(state, total, METHOD, Learning(zeros=0.6, settled=5), 0)
    assert not np.any(dense.common == 0.0)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308])
def test_a_sum_that_would_break_c_is_refused(value: float) -> None:
    state, total = _round(7, [1])
    learning = Learning(ridge=1e-3, population=10**9)
    weak = RoundSum(total.rows, np.full((1, 3), value), 1e-9 * total.packed_gram, 3)
    with pytest.raises(BrokenModel):
        learn_step(state, weak, METHOD, learning, 0)


def test_a_sum_with_a_broken_triangle_is_refused() -> None:
    state, total = _round(8, [1])
    broken = RoundSum(total.rows, total.values, np.full(6, np.nan), 3)
    with pytest.raises(BrokenModel):
        learn_step(state, broken, METHOD, Learning(), 0)


def test_a_task_that_never_ends_never_stops_learning() -> None:
    learning = Learning(eta=0.5, decay=0.8, lowest=0.2)
    assert step_size(learning, 0) == 0.5
    assert step_size(learning, 5) == pytest.approx(0.5 * 0.8**5)
    assert step_size(learning, 7) > step_size(learning, 8) == step_size(learning, 10_000) == 0.1
    assert step_size(Learning(eta=0.5, decay=0.8), 10_000) < 1e-300  # as it was


def test_the_running_gram_follows_users_who_change() -> None:
    """After so many rounds of others nothing is left of those before, however long they were."""
    state, total = _round(9, [1])
    learning = Learning(memory=0.9)
    before, after = np.diag([4.0, 1.0, 0.25]), np.diag([0.25, 1.0, 4.0])
    for rounds, seen in ((200, before), (60, after)):
        for _ in range(rounds):
            one = RoundSum(total.rows, total.values * 0, 3 * pack_gram(seen), 3)
            state = learn_step(state, one, METHOD, learning, 0)
    assert state.gram is not None
    assert np.allclose(state.gram, after, atol=4.0 * 0.9**60)


def _wanting(state: Learner, row: int, target: np.ndarray, learning: Learning) -> RoundSum:
    """A round of three devices whose full Newton step would put one row at `target`."""
    dim = state.common.shape[1]
    gram = np.eye(dim)
    ridge = learning.ridge / learning.population
    curvature = (METHOD.w0 + METHOD.alpha * learning.density) * gram
    curvature = curvature + (ridge + 1e-12) * np.eye(dim)
    here = state.common[row]
    grad = curvature @ (here - target)
    value = 3.0 * (grad - METHOD.w0 * here @ gram - ridge * here)
    return RoundSum(np.array([row]), value[None, :], 3 * pack_gram(gram), 3)


@pytest.mark.parametrize(("times", "comes_back"), [(15.0, True), (1.5, True), (0.7, False)])
def test_a_zero_comes_back_where_what_is_wanted_is_large_enough_to_be_shown(
    times: float, comes_back: bool
) -> None:
    """Long after C has settled, with the step that stays: a tenth of the way in each.

    No step of these reaches the smallest number that is no zero, but for the first case; what zeros
    hide goes where the row wants to be, and stays there.
    """
    learning = Learning(eta=0.5, decay=0.8, lowest=0.2, zeros=0.5, settled=5)
    rng = np.random.default_rng(10)
    values = rng.normal(0.0, 0.1, size=(10, 3))
    values[4] = 0.0
    state = Learner(zero_smallest(values, 0.5), gram=np.eye(3))
    level = float(np.abs(state.common[state.common != 0.0]).min())
    target = np.array([times * level, 0.0, 0.0])
    for step in range(1000, 1060):
        state = learn_step(state, _wanting(state, 4, target, learning), METHOD, learning, step)
        assert np.mean(state.common == 0.0) == pytest.approx(0.5)
        assert state.hidden is not None
        assert not np.any(state.hidden[state.common != 0.0])
    assert state.hidden is not None
    assert bool(state.common[4, 0] != 0.0) is comes_back
    assert (state.common + state.hidden)[4, 0] == pytest.approx(target[0], rel=0.05)


def test_nothing_is_hidden_before_all_zeros_are_there() -> None:
    state, total = _round(9, [1, 2])
    learning = Learning(zeros=0.5, settled=4)
    hidden = []
    for step in range(5):
        state = learn_step(state, total, METHOD, learning, step)
        hidden.append(state.hidden is not None)
    assert hidden == [False, False, False, True, True]
    assert learn_step(state, total, METHOD, Learning(zeros=0.0), 9).hidden is None


def test_a_new_row_moves_as_all_did_at_the_start() -> None:
    learning = Learning(eta=0.5, decay=0.8, lowest=0.1, zeros=0.0)
    state = Learner(np.zeros((3, 2)), gram=np.eye(2))
    target = np.array([1.0, 0.0])

    def moved(row: int, born: np.ndarray | None, step: int) -> float:
        here = replace(state, born=born)
        total = _wanting(here, row, target, learning)
        return float(learn_step(here, total, METHOD, learning, step).common[row, 0])

    born = np.array([0, 0, 40])
    assert moved(0, born, 40) == moved(0, None, 40) == pytest.approx(0.05)
    assert moved(2, born, 40) == pytest.approx(0.5)
    assert moved(2, born, 43) == pytest.approx(0.5 * 0.8**3)
