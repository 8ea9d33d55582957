"""Neighbours that know the time: tuned on validation, and no better informed than a device is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.evaluation.splits import make_split
from fedrap_simulation.evaluation.time_split import DAY, make_time_split
from fedrap_simulation.methods.baselines.lately import Lately
from fedrap_simulation.methods.baselines.recency import ITEMKNN_RECENCY
from fedrap_simulation.methods.lately import told_in_time
from fedrap_simulation.methods.protocol import no_progress
from fedrap_simulation.methods.tuning import quality

USERS, ITEMS, EVERY = 60, 120, 12
SIZES = (("u", USERS), ("i", ITEMS))


def shop() -> Interactions:
    """Random touches over 60 days."""
    rng = np.random.default_rng(8)
    count = USERS * EVERY
    days: npt.NDArray[np.float64] = np.sort(rng.random((USERS, EVERY)), axis=1).ravel() * 60.0
    user, item = np.repeat(np.arange(USERS), EVERY), rng.integers(0, ITEMS, count)
    users, items = (tuple(f"{kind}{one}" for one in range(n)) for kind, n in SIZES)
    return Interactions("shop", users, items, user, item, time=DAY * days)


def test_where_all_follows_the_trend_it_is_taken_and_helps() -> None:
    task = make_split(shop(), 0, protocol="clean", kind="last", least=3, published=None).validation
    hot = told_in_time(task, 1.0).of(np.arange(task.users)).copy()
    hot[task.train.owners, task.train.items] = -1.0
    task = replace(task, targets=hot.argmax(axis=1))
    found = Lately().tune(task, 0, no_progress)
    assert found.weight > 0
    plain = quality(replace(found, weight=0.0).fit(task, 0, no_progress), task)
    assert quality(found.fit(task, 0, no_progress), task) > 1.2 * plain


def test_without_a_weight_it_is_neighbours_alone() -> None:
    task = make_split(shop(), 0, protocol="clean", kind="last", least=3, published=None).test
    users = np.arange(USERS)
    alone = ITEMKNN_RECENCY.fit(task, 0, no_progress).scores(users)
    mixed = replace(Lately(), weight=0.0).fit(task, 0, no_progress).scores(users)
    assert mixed.tolist() == np.asarray(alone, dtype=np.float32).tolist()


def test_asked_at_one_moment_all_have_the_same_trend() -> None:
    task = make_time_split(shop(), 0, days=8.0, least=3).validation
    trends = told_in_time(task, 2.0)
    assert trends.of(np.arange(3)).shape == (1, trends.size)
    assert trends.of(np.arange(3)).max() > 0


def test_times_that_say_nothing_are_refused() -> None:
    task = make_split(shop(), 0, protocol="clean", kind="last", least=3, published=None).test
    with pytest.raises(BadData, match="wants times"):
        Lately().fit(replace(task, times=None), 0, no_progress)
