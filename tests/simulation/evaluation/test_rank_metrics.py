"""HR and NDCG against slow and obvious oracles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_simulation.evaluation.metrics import hit, ndcg, rank_of
from tests.core.made import quick

score_lists = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=30)


def _naive_rank(scores: list[float], target: int) -> int:
    worse_than_all_equals = sorted(
        range(len(scores)), key=lambda j: (-scores[j], j == target)
    )  # the target stands behind everyone with its score
    return worse_than_all_equals.index(target)


@quick
@given(score_lists, st.data())
def test_the_rank_is_that_of_a_naive_sort_with_the_target_last_among_equals(
    scores: list[float], data: st.DataObject
) -> None:
    target = data.draw(st.integers(0, len(scores) - 1))
    assert rank_of(np.array(scores), target) == _naive_rank(scores, target)


def test_ties_count_against_us() -> None:
    assert rank_of(np.zeros(100), 0) == 99
    assert rank_of(np.array([1.0, 1.0, 0.0]), 0) == 1


def test_a_candidate_that_may_not_be_shown_never_stands_before_the_target() -> None:
    assert rank_of(np.array([-np.inf, 0.0, -np.inf]), 1) == 0


def test_a_model_that_gives_no_numbers_scores_no_hits() -> None:
    broken = np.full(100, np.nan)
    assert hit(rank_of(broken, 3)) == 0.0
    assert rank_of(np.array([0.0, np.nan, 1.0]), 1) == 2
    assert rank_of(np.array([0.0, np.nan, 1.0]), 2) == 1


@quick
@given(st.integers(0, 50), st.integers(1, 20))
def test_hr_and_ndcg_are_those_of_the_formula(rank: int, k: int) -> None:
    shown = [1.0 if position == rank else 0.0 for position in range(k)]
    gain = sum(g / math.log2(position + 2) for position, g in enumerate(shown))
    assert hit(rank, k) == sum(shown)
    assert ndcg(rank, k) == pytest.approx(gain, abs=1e-15)


def test_the_first_place_is_worth_one_and_the_eleventh_nothing() -> None:
    assert (hit(0), ndcg(0)) == (1.0, 1.0)
    assert (hit(9), hit(10), ndcg(10)) == (1.0, 0.0, 0.0)
