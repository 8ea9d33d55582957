"""A population that changes: who is there when, what is new, and what is in season."""

from __future__ import annotations

import numpy as np
import pytest

from fedrap_simulation.data.drifting import DAY
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.load import load

NAME = "drifting:users=300,items=120,days=200"


def test_it_repeats_for_a_seed_and_differs_for_another() -> None:
    first, again, other = load(NAME), load(NAME), load(NAME + ",seed=1")
    assert np.array_equal(first.item, again.item)
    assert first.time is not None
    assert again.time is not None
    assert np.array_equal(first.time, again.time)
    assert not np.array_equal(first.item[:100], other.item[:100])


def test_times_are_seconds_and_nobody_touches_an_item_twice() -> None:
    data = load(NAME)
    assert data.time is not None
    assert data.time.min() >= 0
    assert 150 * DAY < data.time.max() < 200 * DAY
    assert np.all(np.diff(data.time) >= 0)
    assert len(set(zip(data.user.tolist(), data.item.tolist(), strict=True))) == len(data)


def test_items_come_and_go_and_are_wanted_most_while_new() -> None:
    data = load(NAME)
    assert data.time is not None
    first, last = np.full(len(data.items), np.inf), np.zeros(len(data.items))
    np.minimum.at(first, data.item, data.time / DAY)
    np.maximum.at(last, data.item, data.time / DAY)
    assert np.mean(first > 30) > 0.2
    assert np.mean(last < 160) > 0.05
    late = first > 30
    age = data.time / DAY - first[data.item]
    mine = late[data.item] & (first[data.item] < 140)
    young = np.count_nonzero(mine & (age < 20)) / 20
    old = np.count_nonzero(mine & (age >= 40) & (age < 60)) / 20
    assert young > 1.5 * old


def test_what_is_wanted_in_one_season_is_not_what_is_wanted_in_another() -> None:
    data = load("drifting:users=400,items=120,days=365")
    assert data.time is not None
    day = data.time / DAY
    shares = []
    for since in (30, 60, 213):  # two months side by side, and half a year later
        counts = np.bincount(data.item[(day >= since) & (day < since + 30)], minlength=120)
        shares.append(counts / np.linalg.norm(counts))
    assert shares[0] @ shares[1] > shares[0] @ shares[2] + 0.05


@pytest.mark.parametrize("name", ["drifting:users=0", "drifting:items=10", "drifting:days=0"])
def test_too_few_are_refused(name: str) -> None:
    with pytest.raises(BadData, match="there must be"):
        load(name)


@pytest.mark.parametrize("name", ["drifting:", "drifting:years=1", "drifting:users=ten"])
def test_what_is_not_understood_says_what_to_write(name: str) -> None:
    with pytest.raises(BadData, match=r"write drifting:users=200,items=400,days=365,seed=0"):
        load(name)
