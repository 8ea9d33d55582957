"""A history has an end, in number and in time, and D goes with it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap import FedRap, Retention
from fedrap.storage.release_codec import keep_rows
from fedrap_core.paper.problem import PaperState
from fedrap_core.plan import PaperMethod, PaperScoring, Privacy
from fedrap_core.plan import Plan as AnyPlan
from fedrap_core.wire.codec import encode_value
from fedrap_core.wire.releases import pack_release
from tests.core.made import items_of
from tests.sdk.made import DIM, ITEMS, TASK, Clock, MadeCoordinator, a_device

DAY = 86_400.0


@dataclass(frozen=True)
class At:
    """Something with a time."""

    at: float


def kept(device: FedRap) -> list[str]:
    return [one.item for one in device._state.contents().interactions]


@given(
    st.integers(1, 200),
    st.none() | st.floats(0.5, 50),
    st.lists(st.floats(0, 100), max_size=300),
)
def test_what_stays_is_young_the_newest_and_never_too_much(
    most: int, days: float | None, ages: list[float]
) -> None:
    now = 1e9
    history = [At(now - age * DAY) for age in ages]
    retention = Retention(most, days)
    places = retention.kept(history, now)
    young = [p for p, one in enumerate(history) if one.at >= retention.oldest_allowed(now)]
    assert len(places) <= most
    assert places == young[len(young) - len(places) :]
    assert len(places) >= min(len(young), most - most // 64)
    oldest = min((one.at for one in history), default=now)
    assert retention.due(len(history), oldest, now) == (places != list(range(len(history))))


@pytest.mark.parametrize(("most", "days"), [(0, None), (-1, None), (5, 0.0), (5, -1.0)])
def test_a_retention_that_keeps_nothing_is_refused(most: int, days: float | None) -> None:
    with pytest.raises(ValueError, match=r"at least one|above 0"):
        Retention(most, days)


def test_the_oldest_goes_when_the_history_is_full(tmp_path: Path) -> None:
    with FedRap.open(tmp_path, retention=Retention(3)) as device:
        for number in range(5):
            device.record(f"item-{number}")
        assert kept(device) == ["item-2", "item-3", "item-4"]
    with FedRap.open(tmp_path) as device:
        assert kept(device) == ["item-2", "item-3", "item-4"]
        device.record("item-9")
        assert len(kept(device)) == 4


def test_a_smaller_retention_takes_hold_on_opening(tmp_path: Path) -> None:
    a_device(tmp_path, None, items=("a", "b", "c", "d")).close()
    with FedRap.open(tmp_path, retention=Retention(2)) as device:
        assert kept(device) == ["c", "d"]


def test_what_is_too_old_goes_at_the_next_tap_round_or_opening(tmp_path: Path) -> None:
    clock, retention = Clock(100 * DAY), Retention(max_age_days=10)
    with FedRap.open(tmp_path, retention=retention, clock=clock) as device:
        device.record("imported", at=50 * DAY)
        device.record("a")
        device.record("b", at=95 * DAY)
        assert kept(device) == ["b", "a"]
        clock.now += 6 * DAY
        device.record("c")
        assert kept(device) == ["a", "c"]
        clock.now += 5 * DAY
        device.run_round()
        assert kept(device) == ["c"]
    clock.now += 30 * DAY
    with FedRap.open(tmp_path, retention=retention, clock=clock) as device:
        assert kept(device) == []
        device.record("d")
        assert kept(device) == ["d"]


def test_what_went_is_overwritten_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "app" / "store.sqlite"
    a_device(tmp_path, None, items=("a", "b", "c")).close()
    with sqlite3.connect(path) as db:
        (sealed,) = db.execute("SELECT sealed FROM event ORDER BY seq").fetchone()
    db.close()
    assert sealed in path.read_bytes()
    FedRap.open(tmp_path, retention=Retention(1)).close()
    assert sealed not in path.read_bytes()


def test_recommendations_and_d_follow_what_is_left(tmp_path: Path) -> None:
    with FedRap.open(
        tmp_path / "short", transport=MadeCoordinator(), token="t", retention=Retention(2)
    ) as device:
        device.consent(train=True, policy="v1")
        device.record("item-1")
        device.record("item-5")
        assert device.run_round().joined
        assert set(device._state.contents().personal) == {"item-1", "item-5"}
        device.recommend(12)
        device.record("item-2")  # as many as before, and not the same
        assert set(device._state.contents().personal) == {"item-5"}
        short = device.recommend(12, filter_seen=False)
        assert "item-1" in [one.item for one in device.recommend(12)]
    with a_device(tmp_path / "new", MadeCoordinator(), items=("item-5", "item-2")) as device:
        device.sync()
        fresh = device.recommend(12, filter_seen=False)
    assert [one.item for one in short] == [one.item for one in fresh]
    assert [one.score for one in short] == pytest.approx([one.score for one in fresh])


def a_paper_coordinator() -> MadeCoordinator:
    method = PaperMethod(dim=DIM)
    matrix = np.random.default_rng(1).normal(0.0, 0.1, (len(ITEMS), DIM))
    release = pack_release(TASK, 0, items_of(matrix, 1), 1, PaperScoring(seed=method.seed))
    plan = AnyPlan(method=method, privacy=Privacy(separation=2, cap=5, noise=2.0), min_updates=20)
    return MadeCoordinator(latest=release, plan=encode_value(plan))


def test_trained_rows_of_d_go_with_their_items_and_stay_away(tmp_path: Path) -> None:
    coordinator = a_paper_coordinator()
    options = {"transport": coordinator, "token": "t", "retention": Retention(2)}
    with FedRap.open(tmp_path, **options) as device:  # type: ignore[arg-type]
        device.consent(train=True, policy="v1")
        device.record("item-1")
        device.record("item-5")
        assert device.run_round().joined
        device.record("item-2")
        trained = device._state.contents().trained
        assert trained is not None
        assert trained.rows.tolist() == [5]
        coordinator.step = 3
        coordinator.on_offer = lambda: device.record("item-7")  # in the middle of a round
        assert device.run_round().joined
    with FedRap.open(tmp_path) as device:
        trained = device._state.contents().trained
        assert trained is not None
        assert set(trained.rows.tolist()) <= {2, 7}
        assert trained.personal.shape == (len(trained.rows), DIM)


def test_rows_that_are_all_kept_leave_the_state_as_it_is() -> None:
    state = PaperState(np.ones(2), 0.5, np.array([1, 4]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert keep_rows(state, np.array([4, 9, 1])) is state
    assert keep_rows(None, np.array([4])) is None
    one = keep_rows(state, np.array([4]))
    none = keep_rows(state, np.array([], dtype=np.int64))
    assert one is not None
    assert none is not None
    assert one.rows.tolist() == [4]
    assert one.personal.tolist() == [[3.0, 4.0]]
    assert none.personal.shape == (0, 2)
