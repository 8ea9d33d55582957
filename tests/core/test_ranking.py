"""From scores to lists: order, exclusions, reasons, and a population whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core import ranking
from fedrap_core.model import BLOCK, CommonItems, History
from fedrap_core.plan import Scoring, SolveMethod
from fedrap_core.quantize import quantize_rows
from fedrap_core.ranking import (
    SHORTLIST,
    allowed_rows,
    best_rows,
    explain,
    rank,
    rank_of,
    top_k,
)
from fedrap_core.solve.device_share import compute_share, pose_share
from fedrap_core.solve.server_step import Learner, Learning, RoundSum, learn_step
from fedrap_core.solve.user import UserRepresentation, derive_user
from tests.core.made import history_of, quick, random_history, random_items, scaled_items, seeds

score_lists = st.lists(st.integers(-3, 3).map(float) | st.just(-np.inf), max_size=40)


@quick
@given(score_lists, st.integers(-1, 45))
def test_the_best_k_are_those_of_a_naive_sort_with_ties_by_index(
    scores: list[float], k: int
) -> None:
    naive = sorted(range(len(scores)), key=lambda j: (-scores[j], j))[: max(k, 0)]
    assert top_k(np.array(scores), k).tolist() == naive


def test_a_score_that_is_not_a_number_never_pushes_out_one_that_is() -> None:
    assert top_k(np.array([np.nan, 1.0, np.nan, 2.0]), 2).tolist() == [3, 1]
    assert top_k(np.array([np.nan, 1.0]), 2).tolist() == [1, 0]


def _taste(common: CommonItems, seed: int, length: int = 6) -> UserRepresentation:
    history = random_history(np.random.default_rng(seed), common.size, length)
    return derive_user(common, common.gram(), history, Scoring())


@quick
@given(seeds, st.integers(0, 30))
def test_what_is_not_allowed_is_never_shown(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    common = random_items(rng)
    allowed = rng.random(common.size) < 0.5
    found = rank(common, _taste(common, seed), Scoring(), n, allowed)
    assert len(found.rows) == min(n, int(allowed.sum()))
    assert np.all(allowed[found.rows])
    assert len(set(found.rows.tolist())) == len(found.rows)
    assert np.all(np.diff(found.scores) <= 0)


@quick
@given(seeds, st.integers(0, 10))
def test_the_reasons_of_every_ranked_item_add_up_to_its_score(seed: int, length: int) -> None:
    common = random_items(np.random.default_rng(seed))
    taste = _taste(common, seed, length)
    found = rank(common, taste, Scoring(recent=3), 20, np.ones(common.size, dtype=np.bool_))
    for row, shared, personal in zip(found.rows, found.shared, found.personal, strict=True):
        reasons = explain(common, taste, Scoring(recent=3), int(row))
        assert reasons.items.tolist() == taste.items.tolist()
        assert len(reasons.shared) == len(reasons.personal) == len(taste.items)
        assert reasons.shared.sum() == pytest.approx(shared, rel=1e-9, abs=1e-12)
        assert reasons.personal.sum() == pytest.approx(personal, rel=1e-9, abs=1e-12)


def test_an_item_beyond_the_shortlist_is_not_reranked(monkeypatch: pytest.MonkeyPatch) -> None:
    common = random_items(np.random.default_rng(8), size=50)
    taste = _taste(common, 8)
    monkeypatch.setattr(ranking, "SHORTLIST", 5)
    everyone = np.ones(50, dtype=np.bool_)
    found = rank(common, taste, Scoring(), 3, everyone)
    assert set(found.rows) <= set(top_k(common.scores(taste.user), 5))
    assert len(rank(common, taste, Scoring(), 9, everyone).rows) == 9


def test_without_a_history_every_score_is_zero_and_the_order_is_that_of_the_rows() -> None:
    common = random_items(np.random.default_rng(9))
    taste = derive_user(common, common.gram(), history_of(), Scoring())
    found = rank(common, taste, Scoring(), 4, np.ones(common.size, dtype=np.bool_))
    assert found.rows.tolist() == [0, 1, 2, 3]
    assert not found.scores.any()
    assert len(explain(common, taste, Scoring(), 0).items) == 0


def test_a_c_of_zeros_ranks_without_a_single_bad_number() -> None:
    common = scaled_items(np.zeros((6, 3)), np.zeros(6))
    taste = derive_user(common, common.gram(), history_of(1, 2), Scoring())
    found = rank(common, taste, Scoring(), 6, np.ones(6, dtype=np.bool_))
    assert np.all(np.isfinite(found.scores))


def test_on_a_checkerboard_the_withheld_item_ranks_first() -> None:
    """Users of even rows like even items but their own diagonal one, and so for the odd."""
    users, dim = 20, 8
    liked = [[j for j in range(users) if j != i and j % 2 == i % 2] for i in range(users)]
    method = SolveMethod(dim=dim, ridge=1.0)
    learning = Learning(
        population=users, density=0.45, ridge=1.0, memory=0.0
    )  # everybody takes part, so the Gram needs no memory
    start = quantize_rows(np.random.default_rng(7).normal(0.0, 0.1, size=(users, dim)))
    state = Learner(start.to_float().astype(np.float64))
    for step in range(10):
        common = CommonItems(step, quantize_rows(state.common))
        gram, values, triangle = common.gram(), np.zeros((users, dim)), np.zeros(36)
        for rows in liked:
            share = compute_share(pose_share(common, gram, history_of(*rows), method)).update
            values[share.rows] += share.values
            triangle += share.packed_gram
        total = RoundSum(np.arange(users), values, triangle, users)
        state = learn_step(state, total, method, learning, step)
    common = CommonItems(10, quantize_rows(state.common))
    scoring = Scoring(beta=0.0, gamma=1.0, ridge=1.0)
    for withheld, rows in enumerate(liked):
        taste = derive_user(common, common.gram(), history_of(*rows), scoring)
        allowed = np.ones(users, dtype=np.bool_)
        allowed[rows] = False
        assert rank(common, taste, scoring, 3, allowed).rows[0] == withheld


@quick
@given(seeds, st.integers(0, 30))
def test_the_best_rows_block_by_block_are_those_of_the_whole(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    # Few distinct values, so that many scores are equal; more rows than one block.
    values = rng.integers(-2, 3, size=(2 * BLOCK + 17, 2)).astype(np.int8)
    common = scaled_items(values, np.ones(len(values)))
    user, allowed = rng.integers(-2, 3, size=2).astype(np.float64), rng.random(len(values)) < 0.3
    scores = np.where(allowed, common.scores(user), -np.inf)
    expected = top_k(scores, n)
    expected = expected[np.isfinite(scores[expected])]
    assert best_rows(common.score_blocks(user), n, allowed).tolist() == expected.tolist()


def test_a_list_has_what_is_shown_wanted_and_not_seen() -> None:
    shown = np.array([True, True, True, False, True])
    assert allowed_rows(shown, None, None).tolist() == shown.tolist()
    assert allowed_rows(shown, [0, 1, 3], np.array([1, 1])).tolist() == [True] + [False] * 4
    assert allowed_rows(shown, [], None).tolist() == [False] * 5
    assert shown.tolist() == [True, True, True, False, True]  # stays as it is


@pytest.mark.parametrize("size", [40, 1500])
def test_the_rank_of_an_item_is_its_place_in_the_list(size: int) -> None:
    """Also beyond the shortlist, where D has no word."""
    rng = np.random.default_rng(size)
    common = CommonItems(1, quantize_rows(rng.normal(0.0, 0.5, (size, 6))))
    history = History(np.array([3, 7, 11]), np.ones(3))
    scoring = Scoring(ridge=1.0)
    taste = derive_user(common, common.gram(), history, scoring)
    allowed = np.ones(size, dtype=np.bool_)
    allowed[[3, 7, 11]] = False
    listed = rank(common, taste, scoring, size, allowed).rows.tolist()
    short = rank(common, taste, scoring, SHORTLIST, allowed).rows.tolist()
    for row in [*listed[:20], *listed[-20:]]:
        found = rank_of(common, taste, scoring, row, allowed)
        if row in short:
            assert found == short.index(row)
        else:
            assert SHORTLIST <= found < len(listed)
