"""Opening, closing, blocking and awaiting: what an app may do with a device, and when."""

from __future__ import annotations

import asyncio
import gc
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedrap import Conditions, FedRap, InsideEventLoop, Pace, StoreClosed
from fedrap.background.conditions import always
from fedrap.rounds.ledger import TRIES_PER_STEP
from fedrap.transport.credentials import Signer
from fedrap_core.wire.messages import Signed
from fedrap_core.wire.releases import unpack_release
from tests.sdk.made import MadeCoordinator, a_device, a_release

ANY_TIME = Conditions(always, always, always, always)
AT_ONCE = Pace(period=0.02, look=0.01, backoff=0.01, first=0.0)


class Stuck(MadeCoordinator):
    """A coordinator that never answers to the request for a place."""

    entered = threading.Event()

    async def offer(self, signer: Signer, release: int, wait: float = 0.0) -> Signed:
        self.entered.set()
        await asyncio.sleep(3600)
        raise AssertionError


@pytest.mark.parametrize(
    "use",
    [
        lambda device: device.record("a"),
        lambda device: device.recommend(3),
        lambda device: device.similar_items("a"),
        lambda device: device.consent(train=True, policy="v1"),
        lambda device: device.status(),
        lambda device: device.sync(),
        lambda device: device.run_round(),
        lambda device: device.start(),
        lambda device: device.export("never.zip"),
        lambda device: device.erase(),
    ],
)
def test_every_verb_of_a_closed_device_says_that_it_is_closed(
    tmp_path: Path, use: Callable[[FedRap], object]
) -> None:
    device = a_device(tmp_path, MadeCoordinator())
    device.close()
    device.close()
    device.stop()
    with pytest.raises(StoreClosed, match="open it again"):
        use(device)
    assert not Path("never.zip").exists()


@pytest.mark.parametrize("name", ["run_round", "sync", "erase"])
async def test_a_blocking_call_inside_an_event_loop_names_the_form_to_await(
    tmp_path: Path, name: str
) -> None:
    async with a_device(tmp_path, MadeCoordinator()) as device:
        with pytest.raises(InsideEventLoop, match=rf"await {name}_async\(\)"):
            getattr(device, name)()
        await getattr(device, f"{name}_async")()


async def test_async_with_closes_the_device(tmp_path: Path) -> None:
    async with a_device(tmp_path, MadeCoordinator()) as device:
        assert (await device.run_round_async()).joined
    with pytest.raises(StoreClosed):
        device.status()
    FedRap.open(tmp_path).close()


def test_offline_calls_nobody_whatever_is_asked_for(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    a_device(tmp_path, coordinator).close()
    with FedRap.open(tmp_path, transport=coordinator, token="t", offline=True) as device:
        device.sync()
        assert device.run_round().blocked_by == "offline"
        assert device.status().blocked_by == "offline"
        device.start(conditions=ANY_TIME, pace=AT_ONCE)
        time.sleep(0.1)
        device.consent(train=False, policy="v2")
        assert device.status().blocked_by == "no-consent"
    assert coordinator.calls == []


def test_many_threads_may_use_one_device(tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def use(device: FedRap, number: int) -> None:
        try:
            for turn in range(15):
                device.record(f"item-{(number + turn) % 12}")
                device.recommend(3)
                device.status()
                device.run_round()
        except BaseException as error:
            failed.append(error)

    coordinator = MadeCoordinator()
    with a_device(tmp_path, coordinator, items=()) as device:
        device.start(conditions=ANY_TIME, pace=AT_ONCE)
        threads = [threading.Thread(target=use, args=(device, n)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert device.status().interactions == 60
        assert device.status().rounds == 1
    assert 1 <= coordinator.calls.count("send_update") <= TRIES_PER_STEP


def test_close_is_bounded_with_a_round_in_flight_and_the_store_is_free(tmp_path: Path) -> None:
    stuck = Stuck()
    device = a_device(tmp_path, stuck)
    device.start(conditions=ANY_TIME, pace=AT_ONCE)
    assert stuck.entered.wait(120)
    device.close()  # or this test would take an hour
    FedRap.open(tmp_path).close()


def test_close_is_bounded_although_another_thread_writes_for_ever(tmp_path: Path) -> None:
    device = a_device(tmp_path, None)
    holding, release = threading.Event(), threading.Event()

    def hold() -> None:
        with device._state._lock:
            holding.set()
            release.wait(120)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(120)
    device.close()  # comes back although the lock is never given up
    assert thread.is_alive()
    release.set()
    thread.join()
    device.close()  # now it can be given back
    FedRap.open(tmp_path).close()


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120
    )


def test_a_process_that_forgets_to_close_ends_at_once_and_leaves_no_wal(tmp_path: Path) -> None:
    code = f"""
import threading, time
from fedrap import FedRap
from tests.sdk.background.test_process import ANY_TIME, AT_ONCE, Stuck
from tests.sdk.made import a_device
from pathlib import Path
stuck = Stuck()
device = a_device(Path({str(tmp_path)!r}), stuck)
device.start(conditions=ANY_TIME, pace=AT_ONCE)
assert stuck.entered.wait(120)
"""
    done = run(code)  # which would wait for an hour, were the round not cut short
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "app" / "store.sqlite-wal").exists()
    with FedRap.open(tmp_path) as device:
        assert device.status().interactions == 3


def test_opening_starts_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    with a_device(tmp_path, MadeCoordinator()) as device:
        device.recommend(3)
        assert threading.active_count() == before


def test_a_device_that_was_dropped_without_closing_gives_its_store_back(tmp_path: Path) -> None:
    device = a_device(tmp_path, None)
    del device
    gc.collect()
    with FedRap.open(tmp_path) as again:
        assert again.status().interactions == 3


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_none_is_refused(tmp_path: Path, at: float) -> None:
    with FedRap.open(tmp_path) as device:
        with pytest.raises(ValueError, match="seconds since 1970"):
            device.record("a", at=at)
        assert device.status().interactions == 0


def test_a_release_that_is_adopted_in_the_middle_of_another_stays_whole(tmp_path: Path) -> None:
    with a_device(tmp_path, MadeCoordinator()) as device:
        device.sync()
        state = device._state
        newer, older = a_release(3, seed=3, catalogue=1), a_release(2, seed=2, catalogue=1)
        both_asked_with = state.snapshot()
        state.adopt(both_asked_with, newer, both_asked_with.catalogue)  # a faster thread
        state.adopt(both_asked_with, older, both_asked_with.catalogue)
        assert state.snapshot().release_version == 3
    with a_device(tmp_path, MadeCoordinator()) as device:
        model = device._state.contents().model
        assert model is not None
        assert np.array_equal(model.common.items.values, unpack_release(newer).items.values)
