"""Groups of targets and users, against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedrap_simulation.data.interactions import Histories, make_histories
from fedrap_simulation.evaluation.fairness import item_groups, ndcg_by_group, user_groups
from fedrap_simulation.evaluation.task import Task


def task_of(pairs: list[tuple[int, int]], items: int, targets: list[int]) -> Task:
    user, item = np.array(pairs).T
    train = make_histories(user, item, len(targets))
    none = np.zeros((len(targets), 0), dtype=np.int64)
    return Task("made", "clean", "test", items, train, True, np.array(targets), none, train)


# Item 0 has four of twelve interactions, item 1 three, item 2 two, items 3 to 5 one, item 6 none.
PAIRS = [
    (0, 0),
    (1, 0),
    (2, 0),
    (3, 0),
    (0, 1),
    (1, 1),
    (2, 1),
    (0, 2),
    (1, 2),
    (0, 3),
    (0, 4),
    (0, 5),
]


def test_head_middle_and_tail_have_a_third_of_the_interactions_each() -> None:
    groups = item_groups(task_of(PAIRS, 7, [6, 6, 6, 6]))
    # Before item 1 there are 4 of 12, before item 2 there are 7, before item 3 there are 9.
    assert groups.tolist() == [0, 1, 1, 2, 2, 2, 2]


def test_users_are_cut_into_thirds_and_equals_stay_together() -> None:
    found = user_groups(task_of(PAIRS, 7, [6, 6, 6, 6]))  # histories of 6, 3, 2 and 1
    assert found.tolist() == [2, 1, 0, 0]
    same = task_of([(user, 0) for user in range(9)], 2, [1] * 9)
    assert user_groups(same).tolist() == [0] * 9


def test_the_gain_of_a_group_is_that_of_its_questions() -> None:
    task = task_of(PAIRS, 7, [4, 2, 1, 6])
    found = ndcg_by_group(np.array([0, 10, 2, 0]), task)
    assert found["ndcg10_head"] is None  # nobody asks for item 0
    assert found["ndcg10_middle"] == pytest.approx((0.0 + 0.5) / 2)
    assert found["ndcg10_tail"] == pytest.approx(1.0)
    assert found["ndcg10_few"] == pytest.approx((0.5 + 1.0) / 2)
    assert found["ndcg10_some"] == 0.0
    assert found["ndcg10_many"] == 1.0


def test_nothing_to_learn_from_is_all_tail() -> None:
    empty = Histories(np.zeros(3, dtype=np.int64), np.zeros(0, dtype=np.int64))
    none = np.zeros((2, 0), dtype=np.int64)
    task = Task("made", "clean", "test", 4, empty, True, np.array([1, 2]), none, empty)
    assert item_groups(task).tolist() == [2, 2, 2, 2]
    assert ndcg_by_group(np.array([0, 0]), task)["ndcg10_tail"] == 1.0
