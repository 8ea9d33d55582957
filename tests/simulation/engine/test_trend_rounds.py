"""The trend of all rounds at once is that of the rounds one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrap_core.model import History
from fedrap_core.plan import DAY, TrendMethod
from fedrap_core.sparse import RowPart
from fedrap_core.trend import (
    TrendState,
    faded_trend,
    follow_trend,
    touched_lately,
    trend_of_items,
)
from fedrap_simulation.data.interactions import make_histories
from fedrap_simulation.engine.trend_rounds import (
    Reports,
    daily_trends,
    draw_participations,
    sum_of_rounds,
    told_at_once,
)

ITEMS, USERS, HALF = 15, 30, 2.5
NOW = 1_000.0 * DAY


def test_it_is_the_product_of_the_rounds_one_by_one() -> None:
    rng = np.random.default_rng(4)
    pairs = np.array([(u, i) for u in range(USERS) for i in rng.permutation(ITEMS)[:6]])
    times = NOW - DAY * rng.uniform(0.0, 40.0, len(pairs))
    order = np.argsort(times)
    pairs, times = pairs[order], times[order]
    train = make_histories(pairs[:, 0], pairs[:, 1], USERS)
    times = times[np.argsort(pairs[:, 0], kind="stable")]
    reports = Reports(part=0.3, cap=6)
    told = draw_participations(train, times, NOW, reports, rng)
    found = sum_of_rounds(train, times, ITEMS, HALF, NOW, told, reports, rng)

    method, state = TrendMethod(half_days=HALF), None
    for at in told.rounds:
        sums = np.zeros((ITEMS, 1))
        for device in told.devices[told.times == at]:
            mine = train.owners == device
            before = mine & (times <= at)
            past = History(train.items[before], np.ones(before.sum()), times[before])
            part = touched_lately(past, at, method)
            sums[part.rows] += part.values
        part = RowPart(np.arange(ITEMS), sums)
        state = follow_trend(state, part, 0.0, at, HALF, ITEMS)
    assert isinstance(state, TrendState)
    assert found.touches.sum() > 1
    assert found.touches.tolist() == pytest.approx(state.touches.tolist(), rel=1e-6)
    assert state.usual is not None
    assert found.usual is not None
    assert found.usual.tolist() == pytest.approx(state.usual.tolist(), rel=1e-6)


def test_told_at_once_is_each_touch_in_a_round_of_its_own() -> None:
    rng = np.random.default_rng(5)
    train = make_histories(np.zeros(20, np.int64), rng.integers(0, ITEMS, 20), 1)
    times = np.sort(NOW - DAY * rng.uniform(0.0, 40.0, 20))
    state = None
    for item, at in zip(train.items, times, strict=True):
        state = follow_trend(
            state, RowPart(np.array([item]), np.ones((1, 1))), 0.0, at, HALF, ITEMS
        )
    assert state is not None
    state = faded_trend(state, NOW, HALF)
    found = told_at_once(train, times, ITEMS, HALF, NOW)
    assert found.touches.tolist() == pytest.approx(state.touches.tolist())
    assert state.usual is not None
    assert found.usual is not None
    assert found.usual.tolist() == pytest.approx(state.usual.tolist())


def test_the_rule_of_b_and_k_holds_and_nobody_comes_before_the_first_touch() -> None:
    rng = np.random.default_rng(9)
    train = make_histories(np.arange(USERS), rng.integers(0, ITEMS, USERS), USERS)
    times = NOW - DAY * rng.uniform(0.0, 60.0, USERS)
    reports = Reports(part=0.9, separation=3, cap=4)
    told = draw_participations(train, times, NOW, reports, rng)
    assert told.rounds[-1] == NOW
    for device in range(USERS):
        mine = told.times[told.devices == device]
        assert len(mine) <= 4
        assert np.all(np.diff(mine) >= 3 * DAY - 1)
        assert np.all(mine >= times[device])


def test_noise_of_older_rounds_fades_with_them() -> None:
    rng = np.random.default_rng(2)
    train = make_histories(np.zeros(1, np.int64), np.zeros(1, np.int64), 1)
    times = np.array([NOW - 20 * DAY])
    reports = Reports(part=0.0, noise=3.0)
    told = draw_participations(train, times, NOW, reports, rng)
    found = sum_of_rounds(train, times, 5000, 1.0, NOW, told, reports, rng)
    assert found.variance == pytest.approx(9.0 / (1.0 - 0.25), rel=1e-3)
    assert found.touches.std() == pytest.approx(np.sqrt(found.variance), rel=0.05)


@pytest.mark.parametrize("contrast", [0.0, 0.7])
def test_each_user_has_the_trend_of_the_last_midnight_before_it_was_seen(contrast: float) -> None:
    rng = np.random.default_rng(6)
    owners = np.repeat(np.arange(USERS), 20)
    train = make_histories(owners, rng.integers(0, ITEMS, len(owners)), USERS)
    times = NOW - DAY * rng.uniform(0.0, 30.0, len(owners))
    found = daily_trends(train, times, ITEMS, HALF, contrast)
    asked = rng.permutation(USERS)
    got = found.of(asked)
    assert got.shape == (USERS, ITEMS)
    assert len(np.unique(got, axis=0)) > 3
    for user, row in zip(asked, got, strict=True):
        midnight = DAY * np.floor(times[train.owners == user].max() / DAY)
        before = times < midnight
        assert 0 < before.sum() < len(times)
        past = make_histories(train.owners[before], train.items[before], USERS)
        state = told_at_once(past, times[before], ITEMS, HALF, midnight)
        wanted = trend_of_items(replace(state, contrast=contrast))
        wanted = np.zeros(ITEMS) if wanted is None else wanted
        assert row.tolist() == pytest.approx(wanted.tolist(), abs=1e-5)


def test_nothing_of_the_day_itself_is_known() -> None:
    train = make_histories(np.array([0, 0, 1, 2]), np.array([3, 4, 4, 4]), 3)
    days = np.array([0.0, 10.25, 10.0, 10.5])  # 4 is touched three times, all on day 10
    found = daily_trends(train, NOW + DAY * days, ITEMS, HALF, 0.0).of(np.arange(3))
    assert not found.any()
    later = daily_trends(train, NOW + DAY * np.array([0.0, 11.0, 10.0, 10.5]), ITEMS, HALF, 0.0)
    assert np.flatnonzero(later.of(np.array([0]))[0]).tolist() == [4]
    assert not later.of(np.array([1, 2])).any()
