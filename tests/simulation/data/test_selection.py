"""Fewer interactions, and interactions out of nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.load import load
from fedrap_simulation.data.selection import keep_first_of_each
from fedrap_simulation.data.synthetic import Shape, make_population
from tests.simulation.data.made import interactions, pairs, put, ratings, times

ROWS = "user,item,rating,time\na,x,1,1\nb,y,2,2\nc,z,3,3\nb,x,4,4\nc,y,5,5\nc,y,6,6\n"


def test_users_with_too_few_interactions_go_and_so_do_items_of_theirs(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", ROWS.replace("a,x", "a,only-a"))
    data = load(path, min_interactions=2)
    assert (data.users, data.items) == (("b", "c"), ("y", "z", "x"))
    assert pairs(data) == [("b", "y"), ("c", "z"), ("b", "x"), ("c", "y"), ("c", "y")]
    assert (ratings(data), times(data)) == ([2, 3, 4, 5, 6], [2, 3, 4, 5, 6])
    assert load(path, min_interactions=3).users == ("c",)


def test_when_nobody_is_left_the_most_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="nobody in a has 4 interactions, the most is 3"):
        load(put(tmp_path / "a.csv", ROWS), min_interactions=4)


def test_of_each_pair_the_earliest_is_kept() -> None:
    rows = [("u", "i"), ("u", "j"), ("u", "i"), ("v", "i")]
    once = keep_first_of_each(interactions(rows, [1, 2, 3, 4], [9, 8, 7, 6]))
    assert (pairs(once), ratings(once)) == ([("u", "j"), ("u", "i"), ("v", "i")], [2, 3, 4])
    assert ratings(keep_first_of_each(interactions(rows, [1, 2, 3, 4]))) == [1, 2, 4]


def test_a_made_up_population_is_the_planted_one_with_the_held_out_item_last() -> None:
    data = load("synthetic:users=12,items=60,seed=5")
    population = make_population(Shape(users=12, items=60), 5)
    assert data.time is not None
    assert len(data.users) == 12
    for user in range(12):
        mine = data.user == user
        assert np.all(np.diff(data.time[mine]) > 0)
        expected = [*population.histories[user], population.held_out[user]]
        assert [data.items[one] for one in data.item[mine]] == [
            population.items[one] for one in expected
        ]


def test_seeds_differ_and_repeat() -> None:
    first, again, other = (
        load(f"synthetic:users=5,items=50,seed={seed}", min_interactions=1) for seed in (1, 1, 2)
    )
    assert pairs(first) == pairs(again)
    assert pairs(first) != pairs(other)
    assert load("synthetic").form == "made up: users=200,items=400,seed=0"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("synthetic:", '"" in synthetic: is not understood'),
        ("synthetic:people=4", '"people=4"'),
        ("synthetic:users=many", '"users=many"'),
        ("synthetic:users=-3", '"users=-3"'),
        ("synthetic:users=0", "must be a user"),
        ("synthetic:items=10", "and 41 items"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(name: str, words: str) -> None:
    with pytest.raises(BadData) as caught:
        load(name)
    assert words in str(caught.value)
