"""Popularity, own frequency, item neighbourhoods and EASE against their plain definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.evaluation.metrics import measure
from fedrap_simulation.methods.baselines import ease, itemknn
from fedrap_simulation.methods.baselines.ease import Ease, closed_form
from fedrap_simulation.methods.baselines.itemknn import ItemKNN
from fedrap_simulation.methods.baselines.popularity import (
    Frequency,
    Popularity,
    PopularityRecent,
)
from fedrap_simulation.methods.protocol import no_progress, touched

from .planted import by_hand, planted_split


def test_popularity_counts_and_leaves_ties_tied() -> None:
    task = by_hand([(0, 2), (1, 2), (1, 0), (2, 1)], 3, 4, np.array([0, 1, 0]))
    fitted = Popularity().fit(task, 0, no_progress)
    assert fitted.scores(np.array([1]))[0].tolist() == [1.0, 1.0, 2.0, 0.0]
    # User 0 asks for item 0, which ties with item 1; the tie counts against the method.
    assert measure(fitted, task).full.tolist() == [1, 0, 1]


def test_recent_popularity_counts_what_was_taken_up_to_the_users_own_moment() -> None:
    rng = np.random.default_rng(7)
    pairs = [(user, int(item)) for user in range(6) for item in rng.permutation(9)[:4]]
    times = np.sort(rng.integers(0, 1000, (6, 4)), axis=1).astype(np.float64).ravel()
    task = replace(by_hand(pairs, 6, 9, np.zeros(6, dtype=np.int64)), times=times)
    half = 0.2 * np.ptp(times)
    users = np.array([4, 0, 2])
    found = PopularityRecent(half=0.2).fit(task, 0, no_progress).scores(users)
    for row, user in enumerate(users):
        now = times[4 * user : 4 * user + 4].max()
        plain = np.zeros(9)
        for (_, item), time in zip(pairs, times, strict=True):
            if time <= now:
                plain[item] += 0.5 ** ((now - time) / half)
        np.testing.assert_allclose(found[row], plain, rtol=1e-5)


def test_recent_popularity_wants_times_that_are_times() -> None:
    task = by_hand([(0, 1), (0, 2)], 1, 4, np.zeros(1, dtype=np.int64))
    with pytest.raises(BadData, match="wants times"):
        PopularityRecent().fit(task, 0, no_progress)


def test_frequency_orders_by_count_then_recency_then_popularity() -> None:
    pairs = [(0, 3), (0, 1), (0, 1), (0, 2), (0, 3), (0, 4), (1, 5), (2, 5), (1, 0)]
    task = by_hand(pairs, 3, 7, np.zeros(3, dtype=np.int64))
    order = np.argsort(
        -Frequency().fit(task, 0, no_progress).scores(np.array([0]))[0], kind="stable"
    )
    # 3 and 1 came twice and 3 later; 4 came after 2; 5 is popular, 0 was taken once, 6 never.
    assert order.tolist() == [3, 1, 4, 2, 5, 0, 6]


def test_frequency_tells_apart_what_float32_could_not_add_up() -> None:
    rare, often = list(range(3_000)), [5, 7] * 400
    task = by_hand([(0, one) for one in rare + often], 1, 3_001, np.array([0]))
    scores = Frequency().fit(task, 0, no_progress).scores(np.array([0]))[0]
    assert len(np.unique(scores)) == 3_001


def test_itemknn_is_the_brute_force_sum_over_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(itemknn, "BLOCK_CELLS", 240 * 50)  # several blocks
    task = planted_split().test
    x = touched(task).toarray().astype(np.float64)  # (U, m)
    norm = np.sqrt(x.sum(axis=0))
    expected = np.zeros_like(x)
    for item in range(task.items):
        alike = (x.T @ x[:, item]) / (norm * norm[item] + 7.0)
        alike[item] = 0.0
        alike[alike < np.sort(alike)[-15] - 1e-7] = 0.0
        expected[:, item] = x @ alike
    scores = ItemKNN(neighbours=15, shrinkage=7.0).fit(task, 0, no_progress).scores(np.arange(200))
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_ease_is_the_plain_closed_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ease, "BLOCK_CELLS", 240 * 50)
    task = planted_split().test
    x = touched(task).toarray().astype(np.float64)
    inverse = np.linalg.inv(x.T @ x + 20.0 * np.eye(task.items))
    weights = np.eye(task.items) - inverse / np.diag(inverse)
    scores = Ease(ridge=20.0).fit(task, 0, no_progress).scores(np.arange(task.users))
    np.testing.assert_allclose(scores, x @ weights, atol=1e-4)


def test_ease_gives_items_that_nobody_has_a_score_of_zero() -> None:
    task = by_hand([(0, 0), (0, 2), (1, 0), (1, 2)], 2, 4, np.array([0, 0]))
    scores = Ease(ridge=1.0).fit(task, 0, no_progress).scores(np.array([0]))[0]
    assert scores[[1, 3]].tolist() == [0.0, 0.0]
    assert scores[0] == pytest.approx(scores[2])
    assert scores[0] > 0.5


def test_ease_works_in_the_memory_it_is_given_and_names_a_ridge_too_small() -> None:
    gram = np.eye(4, dtype=np.float32) * 3
    assert closed_form(gram, 1.0) is gram
    with pytest.raises(ValueError, match="ridge 0 is too small"):
        closed_form(np.ones((3, 3), dtype=np.float32), 0.0)
