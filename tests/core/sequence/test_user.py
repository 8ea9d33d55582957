"""The sequence part when it recommends: a query from a history, and reasons that add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.plan import SequenceMethod
from fedrap_core.sequence.user import derive_query, sequence_reasons, sequence_scores
from tests.core.made import history_of, quick, seeds

from .made import DIM, FLAT, SIZE, SURE, query_by_hand, some_items

histories = st.lists(st.integers(0, SIZE - 1), max_size=12)


@quick
@given(seeds, histories)
def test_the_query_is_that_of_the_formula(seed: int, newest_first: list[int]) -> None:
    items = some_items(seed)
    found = derive_query(items, history_of(*newest_first), SURE).query
    np.testing.assert_allclose(found, query_by_hand(items, newest_first, SURE), atol=1e-12)


@quick
@given(seeds, histories, st.sampled_from([SURE, FLAT]))
def test_reasons_add_up_to_the_score(
    seed: int, newest_first: list[int], method: SequenceMethod
) -> None:
    items = some_items(seed, method)
    user = derive_query(items, history_of(*newest_first), method)
    assert user.items.tolist() == list(dict.fromkeys(newest_first))
    reasons = sequence_reasons(user, items, np.arange(SIZE), 0.5)
    assert reasons.history.shape == (SIZE, len(user.items))
    np.testing.assert_allclose(
        reasons.history.sum(axis=1) + reasons.popularity,
        sequence_scores(user, items, 0.5),
        rtol=1e-9,
        atol=1e-12,
    )


def test_without_a_history_popularity_is_all() -> None:
    items = some_items(1)
    user = derive_query(items, history_of(), SURE)
    assert user.query.tolist() == [0.0] * DIM
    np.testing.assert_array_equal(sequence_scores(user, items, 0.5), 0.5 * items.bias)


def test_older_than_the_window_counts_nothing() -> None:
    items, method = some_items(2), SequenceMethod(dim=DIM, longest=2)
    long, short = (derive_query(items, history_of(*rows), method) for rows in ([1, 2, 3], [1, 2]))
    np.testing.assert_array_equal(long.query, short.query)


def test_order_counts_only_where_there_is_any() -> None:
    ordered, flat = some_items(3), some_items(3, FLAT)
    there, back = history_of(1, 2, 3), history_of(3, 1, 2)
    assert derive_query(flat, there, FLAT).query == pytest.approx(
        derive_query(flat, back, FLAT).query
    )
    apart = derive_query(ordered, there, SURE).query - derive_query(ordered, back, SURE).query
    assert np.abs(apart).max() > 1e-3
