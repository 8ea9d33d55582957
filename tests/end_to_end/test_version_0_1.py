"""What version 0.1 left behind goes on: its database and keys, and the stores of its devices.

`version-0.1.zip` was made by the code of 0.1 itself: a coordinator over SQLite (two updates a
round, b 1, K 10, noise 2) and three devices of its SDK over HTTP, three interactions each. Devices
0 and 1 made release 2; the round of step 2 is open, with the update of device 2.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zipfile
from pathlib import Path

import pytest

from fedrap import FedRap, Floor
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import open_keyring
from testkit.harness import LiveServer, serve, small_settings

SETTINGS = small_settings(updates=2, separation=1, noise=2.0, cap=10, total=50)
FLOOR = Floor(min_updates=2)
SPENT = 1.9930914044  # epsilon of one round, as 0.1 said


@pytest.fixture
def left(tmp_path: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).parent / "version-0.1.zip") as archive:
        archive.extractall(tmp_path)
    return tmp_path


def a_moment_later(left: Path) -> float:
    """When the open round was a minute old."""
    with contextlib.closing(sqlite3.connect(left / "fedrap.sqlite")) as db:
        (opened,) = db.execute("SELECT MAX(opened_at) FROM round").fetchone()
    return float(opened) + 60.0


async def a_device(served: LiveServer, folder: Path, items: list[str], now: float) -> FedRap:
    return await served.device(folder, items, floor=FLOOR, clock=lambda: now)


def test_a_store_opens_with_everything_in_it(left: Path) -> None:
    with FedRap.open(left / "devices" / "0", offline=True) as device:
        status = device.status()
        assert [one.item for one in device.history()] == ["item-0", "item-3", "item-6"]
        assert {one.kind for one in device.history()} == {"tap"}
        assert (status.consented, status.fetching, status.measuring) == (True, True, False)
        assert (status.enrolled, status.rounds, status.release) == (True, 1, 2)
        assert status.epsilon == pytest.approx(SPENT)
        assert len(device.recommend(3)) == 3
        assert not status.set_aside


async def test_the_open_round_and_its_devices_go_on(left: Path) -> None:
    database, keyring = str(left / "fedrap.sqlite"), open_keyring(left / "keys")
    now = a_moment_later(left)
    async with serve(SETTINGS, database, keyring, lambda: now) as served:
        coordinator = served.app[COORDINATOR]
        await coordinator.advance()
        model, round_ = coordinator.model, coordinator.round
        assert model is not None
        assert round_ is not None
        assert (model.stored.version, round_.step, round_.accepted) == (2, 2, 1)

        fresh = await a_device(served, left / "fresh", ["item-1"], now)
        assert (await fresh.run_round_async()).joined  # the second update, beside one of 0.1
        made = coordinator.model
        assert made is not None
        assert (made.stored.step, made.stored.devices) == (2, 2)

        folders = [left / "devices" / str(number) for number in (0, 1)]
        devices = [await a_device(served, folder, [], now) for folder in folders]
        for device in devices:
            report = await device.run_round_async()
            assert report.joined, report
        assert coordinator.model is not None
        assert coordinator.model.stored.step == 3
        for device in devices:
            status = device.status()
            assert (status.rounds, status.interactions) == (2, 3)
            assert status.epsilon > SPENT
        audit = await coordinator.store.rounds(10)
        assert [row.accepted for row in audit if row.closed_at] == [2, 2, 2]
