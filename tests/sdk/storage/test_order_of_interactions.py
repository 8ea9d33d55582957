"""The history is in the order of time, whatever the order of recording; many go in at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrap import FedRap, Interaction
from tests.sdk.made import Clock, MadeCoordinator, a_device


def _order(device: FedRap) -> list[str]:
    return [one.item for one in device._state.contents().interactions]


def test_an_older_interaction_goes_in_between(tmp_path: Path) -> None:
    clock = Clock(1000.0)
    with FedRap.open(tmp_path, clock=clock) as device:
        device.record("item-1", at=100.0)
        device.record("item-2", at=300.0)
        device.record("item-3", at=200.0)
        assert _order(device) == ["item-1", "item-3", "item-2"]
    with FedRap.open(tmp_path, clock=clock) as device:
        assert _order(device) == ["item-1", "item-3", "item-2"]


def test_recommendations_follow_the_order_of_time(tmp_path: Path) -> None:
    with a_device(tmp_path / "a", MadeCoordinator()) as late:
        late.sync()
        late.recommend(3)
        late.record("item-2", at=300.0)
        late.recommend(3)
        late.record("item-1", at=100.0)
        first = late.recommend(5)
    with a_device(tmp_path / "b", MadeCoordinator()) as early:
        early.sync()
        early.record("item-1", at=100.0)
        early.record("item-2", at=300.0)
        assert [one.item for one in early.recommend(5)] == [one.item for one in first]


def test_a_clock_set_back_does_not_make_a_new_tap_old(tmp_path: Path) -> None:
    clock = Clock(1000.0)
    with FedRap.open(tmp_path, clock=clock) as device:
        device.record("before")
        clock.now = 10.0
        device.record("after")
        assert _order(device) == ["before", "after"]


def test_nothing_happened_later_than_now(tmp_path: Path) -> None:
    clock = Clock(1000.0)
    with FedRap.open(tmp_path, clock=clock) as device:
        device.record("future", at=5000.0)
        clock.now = 1001.0
        device.record("now")
        assert _order(device) == ["future", "now"]


def test_many_go_in_at_once_in_order(tmp_path: Path) -> None:
    with FedRap.open(tmp_path, clock=Clock(1000.0)) as device:
        device.record("middle", at=5.0)
        recorded = [Interaction("new", "buy", 2.0, 9.0), Interaction("old", "tap", 1.0, 1.0)]
        assert device.record_many(recorded) == 2
        assert _order(device) == ["old", "middle", "new"]
        assert device.record_many([]) == 0


def test_one_bad_interaction_keeps_all_of_them_out(tmp_path: Path) -> None:
    with FedRap.open(tmp_path) as device:
        with pytest.raises(ValueError, match="line break"):
            device.record_many(
                [Interaction("fine", "tap", 1.0, 1.0), Interaction("a\nb", "tap", 1.0, 1.0)]
            )
        assert device.status().interactions == 0
