"""The local round: what it computes, what it leaves alone, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import BrokenModel, Diverged, WrongShape
from fedrap_core.paper.averaging import Averaging
from fedrap_core.paper.objective import Matrix, Penalty, gradients
from fedrap_core.paper.problem import (
    PaperProblem,
    PaperState,
    fresh_state,
    keep_state,
    pose_paper,
    score_items,
)
from fedrap_core.paper.training import local_step, push_apart, shrink_rows, train_local
from fedrap_core.plan import PaperMethod, Plan
from fedrap_core.wire.codec import decode_value, encode_value
from tests.core.made import items_of, quick, seeds
from tests.core.paper.made import catalogue, model_of, population, round_of

SMALL = PaperMethod(dim=4, epochs=3, rate=10.0, user_rate=0.1)
# Erratum 2: the settings of the authors' README, in which the curriculum is dead.
DIVERGING = PaperMethod(
    dim=4, apart=0.1, sparse=1e-3, curriculum="fixed", rate=1e3, user_rate=1e-4, round_decay=1.0
)


def test_a_plan_with_either_method_survives_the_wire() -> None:
    for method in (PaperMethod(), Plan().method):
        plan = Plan(method=method)
        assert decode_value(Plan, encode_value(plan)) == plan


@quick
@given(seed=seeds)
def test_a_short_step_is_the_gradient_step_with_a_proximal_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = round_of(rng, msgspec.structs.replace(SMALL, apart=0.2, sparse=0.5, rate=0.01))
    model, samples, plan = problem.start, problem.samples(0), problem.schedule
    rate = plan.personal_rate[0]
    slope = gradients(model, samples, plan.apart[0])
    moved = local_step(model, samples, plan, 0)
    np.testing.assert_allclose(moved.user, model.user - plan.user_rate[0] * slope.user)
    np.testing.assert_allclose(moved.personal, model.personal - rate * slope.personal)
    levels = rate * plan.sparse[0] * samples.own_weights / 4
    down = model.own - rate * slope.own
    np.testing.assert_allclose(
        moved.own, np.sign(down) * np.maximum(np.abs(down) - levels[:, None], 0.0)
    )


def test_shrinking_is_the_exact_proximal_step_of_each_penalty() -> None:
    rows, levels = np.array([[0.5, -2.0, 0.1]]), np.array([0.3])
    np.testing.assert_allclose(shrink_rows(rows, levels, "l1"), [[0.2, -1.7, 0.0]])
    np.testing.assert_allclose(shrink_rows(rows, levels, "l2"), rows / 1.6)
    assert shrink_rows(rows, levels, "none") is rows
    grid = np.linspace(-3, 3, 60_001)
    sizes: dict[Penalty, Matrix] = {"l1": np.abs(grid), "l2": grid**2}
    for penalty, size in sizes.items():
        found = shrink_rows(rows, levels, penalty)
        for x, y in zip(rows[0], found[0], strict=True):
            best = grid[np.argmin(0.5 * (grid - x) ** 2 + 0.3 * size)]
            assert y == pytest.approx(best, abs=1e-4)


@quick
@given(seed=seeds, rate=st.floats(0.1, 1e6), apart=st.floats(1e-6, 1.0))
def test_the_lambda_term_never_carries_a_row_beyond_its_reach(
    seed: int, rate: float, apart: float
) -> None:
    rng = np.random.default_rng(seed)
    model, reach = model_of(rng, own=5, dim=4), 3.0
    weights = rng.dirichlet(np.ones(5))
    push = push_apart(model.personal, model.own, weights, rate, apart, reach)
    before = np.sqrt(np.mean((model.personal - model.own) ** 2, axis=1))
    after = np.sqrt(np.mean((model.personal + push - (model.own - push)) ** 2, axis=1))
    assert (after >= before * (1 - 1e-12)).all()  # it never pulls back
    assert (after <= np.maximum(before, reach) * (1 + 1e-12)).all()


def test_the_settings_that_diverge_are_refused_and_nothing_is_lost() -> None:
    rng = np.random.default_rng(0)
    unbounded = msgspec.structs.replace(DIVERGING, reach=1e6)
    world = population(rng, unbounded)
    kept = None
    with pytest.raises(Diverged):  # noqa: PT012 - the round that diverges is not known before
        for step in range(1, 40):
            kept = world.states[0]
            world.play(unbounded, Averaging(), step, rng, full=True)
    assert world.states[0] is kept
    assert np.isfinite(world.common).all()


def test_the_same_settings_stay_bounded_behind_the_guard() -> None:
    rng = np.random.default_rng(0)
    world = population(rng, DIVERGING)
    losses = [world.play(DIVERGING, Averaging(), step, rng, full=True) for step in range(1, 60)]
    assert min(losses) > -DIVERGING.apart * (DIVERGING.reach + 10) ** 2
    largest = max(float(np.abs(state.personal).max()) for state in world.states)
    assert largest < 100
    assert np.abs(world.common).max() < 100


@pytest.mark.parametrize("block", ["user", "personal", "own", "other"])
def test_numbers_that_are_not_finite_are_refused(block: str) -> None:
    problem = round_of(np.random.default_rng(1), SMALL)
    values = getattr(problem.start, block).copy()
    values.flat[0] = np.nan
    with pytest.raises(Diverged):
        train_local(replace(problem, start=replace(problem.start, **{block: values})))


def test_a_jump_of_a_hundredfold_is_refused() -> None:
    method = msgspec.structs.replace(SMALL, user_rate=1e6, rate=1e6)
    with pytest.raises(Diverged):
        train_local(round_of(np.random.default_rng(2), method))


def test_training_lowers_the_loss_and_likes_what_was_seen() -> None:
    rng = np.random.default_rng(3)
    problem = round_of(rng, msgspec.structs.replace(SMALL, epochs=30, rate=50.0))
    result = train_local(problem)
    assert result.losses[-1] < 0.7 * result.losses[0]


def test_the_update_is_the_delta_of_the_working_set_and_a_triangle_of_zeros() -> None:
    rng = np.random.default_rng(4)
    problem = round_of(rng, SMALL)
    result = train_local(problem)
    result.update.check(60, 4)
    assert result.update.rows.tolist() == sorted([*problem.own_rows, *problem.other_rows])
    assert not result.update.packed_gram.any()
    assert len(problem.own_rows) == 10
    assert len(result.losses) == 3


def test_only_interacted_items_own_a_row_unless_all_do() -> None:
    rng = np.random.default_rng(5)
    problem = round_of(rng, SMALL)
    assert problem.start.personal.shape == (10, 4)
    assert len(problem.other_rows) > 10
    problem = round_of(rng, SMALL, full=True)
    assert len(problem.other_rows) == 0
    assert len(problem.start.personal) > 20


def test_a_device_without_items_changes_nothing() -> None:
    problem = round_of(np.random.default_rng(6), SMALL, seen=0)
    result = train_local(problem)
    assert problem.steps == 0
    assert result.user is problem.start.user
    assert len(result.update.rows) == 0


def test_a_device_that_has_seen_everything_trains_without_negatives() -> None:
    problem = round_of(np.random.default_rng(7), SMALL, seen=60)
    assert len(problem.other_rows) == 0
    assert train_local(problem).losses[-1] < train_local(problem).losses[0]


def test_many_samples_are_split_into_batches() -> None:
    method = msgspec.structs.replace(SMALL, batch=16, epochs=2)
    problem = round_of(np.random.default_rng(8), method, seen=20)
    assert problem.steps == 2 * 7  # 100 samples in 7 batches
    rates = problem.schedule.personal_rate
    assert rates[6] == rates[0]
    assert rates[7] == pytest.approx(rates[0] * 0.95)


def test_rates_fall_each_round_and_each_epoch() -> None:
    rng = np.random.default_rng(9)
    first = round_of(rng, SMALL, step=1).schedule.personal_rate
    assert first[0] == 10.0
    assert first[1] == pytest.approx(9.5)
    assert round_of(rng, SMALL, step=3).schedule.personal_rate[0] == pytest.approx(10 * 0.97**2)


def test_d_is_kept_between_rounds_and_grows_with_new_items() -> None:
    rng = np.random.default_rng(10)
    common = catalogue(rng, 4)

    def pose(seen: list[int], state: PaperState) -> PaperProblem:
        return pose_paper(
            lambda rows: common[rows],
            state,
            np.array(seen),
            np.arange(30, 60),
            SMALL,
            1,
            rng.random,
        )

    state = fresh_state(SMALL)
    problem = pose([4, 2, 2], state)
    state = keep_state(state, problem, train_local(problem))
    assert state.rows.tolist() == [2, 4]
    again = pose([2, 9], state)
    assert again.own_rows.tolist() == [2, 9]
    assert again.start.personal[0].tolist() == state.personal[0].tolist()


def test_the_score_is_the_shared_part_and_the_personal_part() -> None:
    rng = np.random.default_rng(11)
    common, state = items_of(catalogue(rng, 4)), fresh_state(SMALL)
    problem = pose_paper(
        common.take, state, np.array([3, 8]), np.arange(20, 60), SMALL, 1, rng.random
    )
    state = keep_state(state, problem, train_local(problem))
    shared, personal = score_items(common, state)
    everything = common.take(np.arange(60))
    everything[state.rows] += state.personal
    np.testing.assert_allclose(shared + personal, everything @ state.user + state.bias, atol=1e-5)
    assert np.flatnonzero(personal).tolist() == [3, 8]


def test_shapes_that_do_not_fit_the_plan_are_refused() -> None:
    rng, seen, rest = np.random.default_rng(12), np.array([1]), np.array([2])
    with pytest.raises(BrokenModel):
        pose_paper(
            lambda rows: np.zeros((len(rows), 3)), fresh_state(SMALL), seen, rest, SMALL, 1,
            rng.random,
        )  # fmt: skip
    other = fresh_state(msgspec.structs.replace(SMALL, dim=5))
    with pytest.raises(WrongShape):
        pose_paper(lambda rows: np.zeros((len(rows), 4)), other, seen, rest, SMALL, 1, rng.random)
