"""Ranks: ties and broken scores count against a method."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.evaluation import metrics as module
from fedrap_simulation.evaluation.metrics import gains, hits, measure
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import Cost, Scores

ITEMS = 120


@dataclass(frozen=True, eq=False)
class Given:
    table: Scores
    cost: Cost = field(default_factory=Cost)

    def scores(self, users: Rows) -> Scores:
        return self.table[users]


def task(repeats: bool = False) -> Task:
    """Two users with items 0..4 and 5..9; items 10 and 11 are asked; negatives 12 to 110."""
    train = Histories(np.array([0, 5, 10]), np.arange(10))
    negatives = np.tile(np.arange(12, 111), (2, 1))
    targets = np.array([10, 11])
    return Task("made", "clean", "test", ITEMS, train, True, targets, negatives, train, repeats)


def falling() -> Scores:
    return np.tile(-np.arange(ITEMS, dtype=np.float32), (2, 1))


def test_items_of_the_history_stand_in_nobodys_way() -> None:
    found = measure(Given(falling()), task())
    # Of items 0 to 9 each user has five, the others five stand before item 10 and item 11.
    assert found.full.tolist() == [5, 6]
    assert found.sampled.tolist() == [0, 0]


def test_where_repeats_count_known_items_are_candidates() -> None:
    assert measure(Given(falling()), task(repeats=True)).full.tolist() == [10, 11]


def test_all_alike_is_last() -> None:
    found = measure(Given(np.zeros((2, ITEMS), dtype=np.float32)), task())
    assert found.full.tolist() == [ITEMS - 6, ITEMS - 6]
    assert found.sampled.tolist() == [99, 99]


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_score_that_is_no_number_is_last(value: float) -> None:
    table = falling()
    table[:, 10:12] = value
    assert min(measure(Given(table), task()).full) >= ITEMS - 6


def test_gains_are_those_of_the_definition() -> None:
    ranks = np.array([0, 1, 9, 10])
    assert hits(ranks).tolist() == [1, 1, 1, 0]
    assert gains(ranks) == pytest.approx([1.0, 1 / np.log2(3), 1 / np.log2(11), 0.0])


def test_blocks_of_users_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(0).normal(size=(2, ITEMS)).astype(np.float32)
    whole = measure(Given(table), task())
    monkeypatch.setattr(module, "BLOCK_CELLS", 1)
    parts = measure(Given(table), task())
    assert whole.summary() == parts.summary()


def test_coverage_and_gini_tell_ten_for_all_from_ten_for_each() -> None:
    same = measure(Given(falling()), task())
    table = falling()
    table[1] = -table[1]
    other = measure(Given(table), task())
    assert same.coverage < other.coverage == pytest.approx(20 / ITEMS)
    assert same.gini > other.gini > 0


def test_a_question_to_some_is_the_same_question() -> None:
    one = task().some(np.array([1]))
    assert one.users == 1
    assert one.targets.tolist() == [11]
    assert one.train.of(0).tolist() == [5, 6, 7, 8, 9]


def test_without_a_top_the_ranks_are_the_same() -> None:
    table = np.random.default_rng(1).normal(size=(2, ITEMS)).astype(np.float32)
    whole, ranks = measure(Given(table), task()), measure(Given(table), task(), top=0)
    assert np.array_equal(whole.full, ranks.full)
    assert np.array_equal(whole.sampled, ranks.sampled)
