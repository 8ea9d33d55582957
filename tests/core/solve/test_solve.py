"""`solve` on the device: u is the argmin, D is what it leaves over, and C may be hostile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import BrokenModel
from fedrap_core.model import CommonItems, History
from fedrap_core.plan import Scoring
from fedrap_core.solve.user import (
    UserRepresentation,
    derive_user,
    follow_user,
    merge_repeats,
    personal_offsets,
    recency_weights,
    shared_parts,
    similarity,
    smoothed,
    solve_user,
)
from tests.core.made import (
    Matrix,
    history_of,
    items_of,
    quick,
    random_history,
    random_items,
    scaled_items,
    seeds,
)

lengths = st.integers(0, 12)


def _taste(common: CommonItems, history: History, scoring: Scoring) -> UserRepresentation:
    return derive_user(common, common.gram(), history, scoring)


def _objective(user: Matrix, common: CommonItems, history: History, scoring: Scoring) -> float:
    """As the formula has it, interaction by interaction, repeats and all."""
    everything = common.take(np.arange(common.size))
    total = scoring.ridge * float(user @ user)
    total += scoring.w0 * sum(float(row @ user) ** 2 for row in everything)
    for age, (row, weight) in enumerate(zip(history.rows, history.weights, strict=True)):
        fade = scoring.gamma + scoring.beta * np.exp(-age / scoring.tau)
        total += scoring.alpha * weight * fade * (1.0 - float(everything[row] @ user)) ** 2
    return float(total)


@quick
@given(seeds, lengths)
def test_the_user_vector_is_where_the_gradient_of_the_objective_is_zero(
    seed: int, length: int
) -> None:
    rng = np.random.default_rng(seed)
    common, scoring = random_items(rng), Scoring(ridge=2.0)
    history = random_history(rng, common.size, length)
    user = _taste(common, history, scoring).user
    for axis in np.eye(common.dim):
        there = _objective(user + 1e-4 * axis, common, history, scoring)
        back = _objective(user - 1e-4 * axis, common, history, scoring)
        assert abs(there - back) / 2e-4 < 1e-6 * (1.0 + there)


@quick
@given(seeds, lengths)
def test_no_step_away_from_the_user_vector_lowers_the_objective(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    common, scoring = random_items(rng), Scoring()
    history = random_history(rng, common.size, length)
    user = _taste(common, history, scoring).user
    best = _objective(user, common, history, scoring)
    for step in rng.normal(0.0, 0.1, size=(5, common.dim)):
        assert _objective(user + step, common, history, scoring) > best


@quick
@given(seeds, lengths)
def test_the_shared_reasons_add_up_to_the_shared_score(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    common = random_items(rng)
    taste = _taste(common, random_history(rng, common.size, length), Scoring())
    everything = common.take(np.arange(common.size))
    parts = shared_parts(taste, common.take(taste.items), everything)
    assert parts.shape == (common.size, len(taste.items))
    assert np.allclose(parts.sum(axis=1), everything @ taste.user, rtol=1e-9, atol=1e-12)


def test_repeats_are_merged_at_their_newest_place_with_their_weights_added() -> None:
    rows, weights = merge_repeats(np.array([7, 3, 7, 9, 3]), np.array([1.0, 2.0, 4.0, 8.0, 16.0]))
    assert rows.tolist() == [7, 3, 9]
    assert weights.tolist() == [5.0, 18.0, 8.0]


def test_an_empty_history_gives_no_taste_and_no_opinion() -> None:
    common = random_items(np.random.default_rng(1))
    taste = _taste(common, history_of(), Scoring())
    assert not taste.user.any()
    assert len(taste.items) == len(taste.personal.rows) == 0
    assert not common.scores(taste.user).any()


def test_the_newest_interaction_weighs_most() -> None:
    weights = recency_weights(np.ones(6), Scoring(alpha=2.0, gamma=0.5, beta=3.0, tau=2.0))
    assert np.all(np.diff(weights) < 0)
    assert weights[0] == pytest.approx(2.0 * 3.5)
    assert weights[5] == pytest.approx(2.0 * (0.5 + 3.0 * np.exp(-2.5)))


def test_without_beta_the_order_of_a_history_means_nothing() -> None:
    common, scoring = random_items(np.random.default_rng(2)), Scoring(beta=0.0, gamma=1.0)
    there = _taste(common, history_of(1, 2, 3), scoring).user
    back = _taste(common, history_of(3, 1, 2), scoring).user
    assert np.allclose(there, back, rtol=1e-12)


def test_the_newer_of_two_items_scores_higher_when_all_else_is_equal() -> None:
    common = items_of(np.eye(4))
    for newest, older in ((0, 1), (1, 0)):
        user = _taste(common, history_of(newest, older), Scoring()).user
        assert user[newest] > user[older] > 0


def test_likeness_is_the_cosine_to_a_power_and_never_negative() -> None:
    left = np.array([[1.0, 0.0], [0.0, 0.0]])
    right = np.array([[2.0, 0.0], [1.0, 1.0], [-1.0, 0.0], [0.0, 3.0]])
    assert similarity(left, right, 4.0) == pytest.approx(
        np.array([[1.0, 0.25, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    )


@quick
@given(seeds, st.integers(1, 8))
def test_the_offsets_solve_the_kernel_system_as_written(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    own, weights = rng.normal(size=(length, 4)), rng.uniform(0.1, 50.0, size=length)
    user, scoring = rng.normal(size=4), Scoring()
    kernel = similarity(own, own, scoring.power)
    kernel = kernel + np.diag(scoring.sigma * weights.max() / weights)
    offsets = personal_offsets(own, weights, user, scoring)
    assert np.allclose(kernel @ offsets, 1.0 - own @ user, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("scoring", "trusted"),
    [
        (Scoring(beta=0.0, gamma=0.0), 0),
        (Scoring(gamma=0.0, tau=1e-4), 1),
    ],
)
def test_an_item_whose_weight_faded_to_nothing_has_no_row_to_speak_of(
    scoring: Scoring, trusted: int
) -> None:
    common = random_items(np.random.default_rng(3))
    taste = _taste(common, history_of(1, 2, 3), scoring)
    assert np.all(np.isfinite(taste.personal.offsets))
    assert np.count_nonzero(taste.personal.offsets) == trusted


def test_an_item_with_its_own_row_counts_in_full_and_others_borrow() -> None:
    common = items_of([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    scoring = Scoring(rho=0.3, power=4.0)
    taste = _taste(common, history_of(0), scoring)
    rows = np.arange(4)
    part = smoothed(taste, rows, common.take(rows), scoring)[:, 0]
    (offset,) = taste.personal.offsets
    assert part == pytest.approx([offset, 0.3 * offset, 0.0, 0.3 * 0.25 * offset])


def test_a_known_item_borrows_nothing_from_its_likes() -> None:
    common = items_of([[1.0, 0.0], [1.0, 0.0]])
    taste = _taste(common, history_of(0, 1), Scoring())
    part = smoothed(taste, np.array([1]), common.take(np.array([1])), Scoring())
    assert part.tolist() == [[0.0, taste.personal.offsets[1]]]


def test_only_the_newest_items_own_a_row_of_d() -> None:
    common = random_items(np.random.default_rng(4))
    taste = _taste(common, history_of(5, 6, 5, 7, 8), Scoring(recent=2))
    assert taste.items.tolist() == [5, 6, 7, 8]
    assert taste.personal.rows.tolist() == [5, 6]
    nobody = _taste(common, history_of(5, 6), Scoring(recent=0))
    assert len(nobody.personal.offsets) == 0


def test_a_c_of_zeros_gives_finite_zero_scores() -> None:
    common = scaled_items(np.zeros((5, 3)), np.zeros(5))
    taste = _taste(common, history_of(0, 4), Scoring())
    assert not common.scores(taste.user).any()
    rows = np.arange(5)
    assert np.all(np.isfinite(smoothed(taste, rows, common.take(rows), Scoring())))


def test_the_largest_c_that_is_allowed_gives_finite_scores() -> None:
    steps = np.random.default_rng(6).integers(-128, 128, size=(30, 4))
    common = scaled_items(steps, np.full(30, 1e4))
    weights = np.array([1e6, 1e-6, 1.0])
    taste = _taste(common, history_of(0, 1, 2, weights=weights), Scoring(ridge=1e-6))
    assert np.all(np.isfinite(common.scores(taste.user)))
    assert np.all(np.isfinite(taste.personal.offsets))


@pytest.mark.parametrize("base", [0.0, np.nan])
def test_a_system_without_a_finite_solution_is_a_broken_model(base: float) -> None:
    with pytest.raises(BrokenModel):
        solve_user(np.zeros((1, 2)), np.ones(1), np.full((2, 2), base))


@quick
@given(seeds, lengths)
def test_following_one_more_interaction_equals_solving_anew(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    common, scoring = random_items(rng), Scoring(recent=3)
    whole = random_history(rng, common.size, length + 4)
    gram = common.gram()
    taste = derive_user(common, gram, _newest(whole, length), scoring)
    for more in range(1, 5):
        history = _newest(whole, length + more)
        taste = follow_user(taste, common, gram, history, scoring)
        anew = derive_user(common, gram, history, scoring)
        assert np.allclose(taste.user, anew.user, rtol=1e-9, atol=1e-12)
        assert np.array_equal(taste.personal.rows, anew.personal.rows)
        assert np.allclose(taste.personal.offsets, anew.personal.offsets, rtol=1e-8, atol=1e-11)


def _newest(history: History, count: int) -> History:
    """The oldest `count` interactions of a history that is newest first."""
    start = len(history.rows) - count
    return History(history.rows[start:], history.weights[start:])
