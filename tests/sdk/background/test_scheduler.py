"""Rounds in the background: when the next one comes, and what the thread does about trouble."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap import Conditions, CoordinatorUnreachable, FedRap, Floor, Pace, RoundReport
from fedrap.background.conditions import always
from fedrap.background.scheduler import next_delay
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire import problems
from testkit.harness import serve, small_settings
from tests.sdk.made import MadeCoordinator, a_device, refused

ANY_TIME = Conditions(always, always, always, always)
AT_ONCE = Pace(period=0.02, look=0.01, backoff=0.01, first=0.0, refused=0.01)
PACE = Pace()


def until(true: Callable[[], bool]) -> None:
    """Wait for it, at most 10 seconds."""
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


uniforms = st.floats(0, 1, exclude_max=True)


@given(st.floats(0, 1e12), uniforms, st.integers(0, 1000))
def test_the_coordinators_wish_is_never_cut_short_but_has_an_end(
    seconds: float, uniform: float, failures: int
) -> None:
    delay = next_delay(RoundReport(False, "no-round", seconds), failures, PACE, uniform)
    assert min(max(1.0, seconds), PACE.longest) <= delay <= min(seconds * 1.1 + 2, PACE.longest)


@pytest.mark.parametrize("word", ["unreachable", "broken-release", "failed", "internal"])
@given(failures=st.integers(1, 10_000), uniform=uniforms)
def test_trouble_doubles_the_delay_up_to_an_end(word: str, failures: int, uniform: float) -> None:
    delay = next_delay(RoundReport(False, word), failures, PACE, uniform)
    doubled = min(PACE.backoff * 2.0 ** min(failures - 1, 40), PACE.longest)
    assert doubled / 2 <= delay <= doubled


@given(uniforms)
def test_without_trouble_the_period_holds_within_a_tenth(uniform: float) -> None:
    for report in (RoundReport(True, step=4), RoundReport(False, "ledger-separation")):
        delay = next_delay(report, 0, PACE, uniform)
        assert 0.9 * PACE.period <= delay <= 1.1 * PACE.period


@pytest.mark.parametrize("word", ["no-consent", "not-charging", "metered", "nothing-to-share"])
def test_what_the_device_itself_lacks_is_looked_at_often(word: str) -> None:
    assert next_delay(RoundReport(False, word), 0, PACE, 0.5) == PACE.look


def test_devices_that_were_stopped_by_the_same_thing_spread_out() -> None:
    for report in (RoundReport(False, "unreachable"), RoundReport(False, "no-round", 60.0)):
        delays = {next_delay(report, 1, PACE, step / 100) for step in range(100)}
        assert len(delays) == 100


@pytest.mark.parametrize("times", [{"period": 0}, {"look": -1}, {"backoff": 0}, {"first": -1}])
def test_a_pace_without_a_pause_is_refused(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"above 0|from 0 up"):
        Pace(**times)


def test_rounds_run_by_themselves_after_start_and_not_after_stop(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    with a_device(tmp_path, coordinator) as device:
        device.start(conditions=ANY_TIME, pace=AT_ONCE)
        device.start(conditions=ANY_TIME, pace=AT_ONCE)
        assert [one.name for one in threading.enumerate()].count("fedrap-rounds") == 1
        for coordinator.step in (1, 3, 5):
            until(lambda: device.status().rounds == (coordinator.step + 1) // 2)
        device.stop()
        until(lambda: "fedrap-rounds" not in [one.name for one in threading.enumerate()])
        calls = len(coordinator.calls)
        coordinator.step = 7
        time.sleep(0.1)
        assert len(coordinator.calls) == calls
        device.start(conditions=ANY_TIME, pace=AT_ONCE)
        until(lambda: device.status().rounds == 4)


def test_the_thread_is_a_daemon(tmp_path: Path) -> None:
    with a_device(tmp_path, MadeCoordinator()) as device:
        device.start(conditions=ANY_TIME, pace=AT_ONCE)
        (thread,) = [one for one in threading.enumerate() if one.name == "fedrap-rounds"]
        assert thread.daemon


def test_consent_wakes_the_rounds_that_waited_for_it(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    with FedRap.open(tmp_path, transport=coordinator, token="t") as device:
        device.record("item-1")
        device.start(conditions=ANY_TIME, pace=Pace(first=0.0, look=3600.0))
        time.sleep(0.1)
        assert coordinator.calls == []
        device.consent(train=True, policy="v1")
        until(lambda: device.status().rounds == 1)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("charging", "not-charging"),
        ("unmetered", "metered"),
        ("idle", "not-idle"),
        ("battery", "low-battery"),
    ],
)
def test_a_condition_that_is_not_met_is_named_and_holds_rounds_back(
    tmp_path: Path, name: str, word: str
) -> None:
    met = threading.Event()
    coordinator = MadeCoordinator()
    fields = dict.fromkeys(("charging", "unmetered", "idle", "battery"), always)
    with a_device(tmp_path, coordinator) as device:
        assert device.status().blocked_by is None  # asked by hand, a round would run
        device.start(conditions=Conditions(**{**fields, name: met.is_set}), pace=AT_ONCE)
        assert device.status().blocked_by == word
        time.sleep(0.05)
        assert coordinator.calls == []
        met.set()
        until(lambda: device.status().rounds == 1)
        assert device.status().blocked_by is None
        device.stop()
        met.clear()
        assert device.status().blocked_by is None


def test_on_error_gets_what_is_swallowed_and_rounds_go_on(tmp_path: Path) -> None:
    errors: list[Exception] = []
    coordinator = MadeCoordinator()
    gone, not_known = CoordinatorUnreachable("gone"), refused(problems.NOT_ENROLLED)
    coordinator.fails["enrol"] = [gone, refused(problems.UNAVAILABLE, 0.0), not_known]

    def token() -> str:
        if len(errors) == 0:
            raise LookupError("the app's backend is down")
        return "token"

    def on_error(error: Exception) -> None:
        errors.append(error)
        raise ZeroDivisionError("the app's own handler fails")

    device = FedRap.open(tmp_path, transport=coordinator, token=token, on_error=on_error)
    with device:
        device.record("item-1")
        device.consent(train=True, policy="v1")
        device.start(conditions=ANY_TIME, pace=AT_ONCE)
        until(lambda: device.status().rounds == 1)
    assert isinstance(errors[0], LookupError)
    assert errors[1:3] == [gone, not_known]  # "come back later" is no error


def test_a_condition_that_raises_is_not_met_and_on_error_gets_it(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def broken() -> bool:
        raise OSError("no such sensor")

    device = FedRap.open(tmp_path, transport=MadeCoordinator(), token="t", on_error=errors.append)
    with device:
        device.record("item-1")
        device.consent(train=True, policy="v1")
        device.start(conditions=Conditions(always, always, broken, always), pace=AT_ONCE)
        until(lambda: bool(errors))
        assert device.status().blocked_by == "not-idle"
        assert device.status().rounds == 0


def test_a_handler_may_close_the_device_from_the_thread_itself(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    coordinator.fails["enrol"] = [CoordinatorUnreachable("gone")]
    closed = threading.Event()

    def give_up(error: Exception) -> None:
        device.close()
        closed.set()

    device = FedRap.open(tmp_path, transport=coordinator, token="t", on_error=give_up)
    device.record("item-1")
    device.consent(train=True, policy="v1")
    device.start(conditions=ANY_TIME, pace=AT_ONCE)
    assert closed.wait(120)
    until(lambda: "fedrap-rounds" not in [one.name for one in threading.enumerate()])
    FedRap.open(tmp_path).close()


async def test_rounds_in_the_background_run_over_http(tmp_path: Path) -> None:
    async with serve(small_settings(), MemoryStore()) as served:
        url, token = served.url, await served.token()
        async with FedRap.open(
            tmp_path, server=url, token=token, floor=Floor.without_privacy(min_updates=2)
        ) as device:
            device.record("item-1")
            device.consent(train=True, policy="v1")
            device.start(conditions=ANY_TIME, pace=AT_ONCE)
            await asyncio.to_thread(until, lambda: device.status().rounds == 1)
            await asyncio.to_thread(until, lambda: device.status().pending == 0)
