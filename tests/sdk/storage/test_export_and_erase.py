"""The user's rights: everything in readable form, and everything gone, with a receipt."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fedrap import (
    CoordinatorUnreachable,
    Erased,
    FedRap,
    FedRapError,
    Interaction,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
)
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire import problems
from testkit.harness import serve, small_settings
from tests.sdk.made import DEVICE, Clock, MadeCoordinator, a_device, refused


def documents(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = [name for name in archive.namelist() if name.endswith(".json")]
        return {name.removesuffix(".json"): json.loads(archive.read(name)) for name in names}


def test_an_export_has_all_that_is_known_in_readable_form(tmp_path: Path) -> None:
    with a_device(tmp_path / "device", MadeCoordinator(), clock=Clock(86_400.0)) as device:
        device.record("über-ware", kind="buy", weight=2.5, at=0)
        assert device.run_round().joined
        device.consent(train=False, policy="v2")
        wrote = device.export(tmp_path / "mine.zip")
        found = documents(wrote.path)
        status = device.status()
    assert wrote.path == tmp_path / "mine.zip"
    assert (wrote.interactions, wrote.size_bytes) == (4, wrote.path.stat().st_size)
    assert wrote.files == ("README.txt", *(f"{name}.json" for name in found))
    assert [one["item"] for one in found["interactions"]] == [
        "über-ware", "item-1", "item-5", "item-2",
    ]  # fmt: skip
    assert found["interactions"][0] == {
        "item": "über-ware", "kind": "buy", "weight": 2.5, "at": "1970-01-01T00:00:00+00:00",
        "seconds": 0.0,
    }  # fmt: skip
    assert [(one["train"], one["policy"]) for one in found["consents"]] == [
        (True, "test"), (False, "v2"),
    ]  # fmt: skip
    assert found["ledger"][0]["step"] == 1
    assert set(found["personal_items"]["score_parts"]) == {"item-1", "item-5", "item-2"}
    assert found["identity"]["device"] == DEVICE.hex()
    assert (found["status"]["rounds"], found["status"]["epsilon"]) == (
        status.rounds,
        status.epsilon,
    )


def test_an_export_has_no_key_in_it_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.zip"
    with a_device(tmp_path / "device", MadeCoordinator()) as device:
        assert device.run_round().joined
        device.export(path)
        credentials = device._state.contents().credentials
    assert credentials is not None
    key = (tmp_path / "device" / "app" / "store.key").read_bytes()
    with zipfile.ZipFile(path) as archive:
        raw = b"".join(archive.read(name) for name in archive.namelist())
    for secret in (key, credentials.private_key):
        for form in (secret, secret.hex().encode(), base64.b64encode(secret)):
            assert form not in raw
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_export_of_an_empty_device_works_and_replaces_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.zip"
    path.write_text("old")
    with FedRap.open(tmp_path / "device") as device:
        device._state.record([Interaction("a", "view", 1.0, -1e300)])  # as version 0.1 took it
        device.export(str(path))
    assert documents(path)["interactions"][0]["at"] == -1e300
    assert documents(path)["identity"] == {}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["device", "mine.zip"]


def test_an_export_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with FedRap.open(tmp_path / "device") as device:
        with pytest.raises(OSError, match=r".+"):
            device.export(tmp_path / "taken")
        with pytest.raises(OSError, match=r".+"):
            device.export(tmp_path / "no such folder" / "mine.zip")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["device", "taken"]


def test_after_erase_nothing_remains_readable(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().joined
        key = tmp_path / "app" / "store.key"
        with key.open("rb") as still_open:  # what a file system gives back is not always wiped
            receipt = device.erase()
            assert still_open.read() == bytes(32)
        with pytest.raises(StoreClosed):
            device.recommend(3)
    assert list(tmp_path.rglob("*")) == []
    assert coordinator.calls[-1] == "forget"
    assert receipt.coordinator_confirmed
    assert receipt.not_confirmed_because is None
    assert {"store.key", "store.sqlite", "lock"} <= set(receipt.deleted)
    assert "cannot be taken back" in receipt.note
    with FedRap.open(tmp_path) as again:
        status = again.status()
        assert (status.interactions, status.consented, status.enrolled) == (0, False, False)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (CoordinatorUnreachable("gone"), "unreachable"),
        (TimeoutError(), "unreachable"),
        (refused(problems.INTERNAL), "internal"),
        (refused(problems.NOT_ENROLLED), None),  # it knows nothing of us: that is what we want
    ],
)
def test_erase_works_whatever_the_coordinator_says(
    tmp_path: Path, error: FedRapError, why: str | None
) -> None:
    coordinator = MadeCoordinator()
    with a_device(tmp_path, coordinator) as device:
        device.run_round()
        coordinator.fails["forget"] = [error]
        receipt = device.erase()
    assert (receipt.coordinator_confirmed, receipt.not_confirmed_because) == (why is None, why)
    assert list(tmp_path.rglob("*")) == []


def test_erase_works_offline_and_without_a_server(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    for offline, why in ((True, "offline"), (False, "no-server")):
        with a_device(tmp_path, coordinator) as device:
            device.run_round()
        calls = len(coordinator.calls)
        transport = coordinator if offline else None
        with FedRap.open(tmp_path, transport=transport, offline=offline) as device:
            receipt = device.erase()
        assert (receipt.coordinator_confirmed, receipt.not_confirmed_because) == (False, why)
        assert len(coordinator.calls) == calls
        assert list(tmp_path.rglob("*")) == []


def test_a_device_that_never_enrolled_asks_nobody(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    with FedRap.open(tmp_path, transport=coordinator, token="t") as device:
        device.record("a")
        assert device.erase().coordinator_confirmed
    assert coordinator.calls == []


def test_erase_goes_on_when_a_transport_has_a_bug(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    device = a_device(tmp_path, coordinator)
    device.run_round()
    coordinator.fails["forget"] = [ZeroDivisionError("a bug")]  # type: ignore[list-item]
    with pytest.raises(ZeroDivisionError):
        device.erase()
    assert list(tmp_path.rglob("*")) == []


def test_files_of_others_in_the_folder_stay(tmp_path: Path) -> None:
    with a_device(tmp_path, None) as device:
        (tmp_path / "app" / "photo.jpg").write_bytes(b"mine")
        device.erase()
    assert [one.name for one in tmp_path.rglob("*")] == ["app", "photo.jpg"]


def test_what_cannot_be_deleted_is_named_and_the_rest_is_gone(tmp_path: Path) -> None:
    with a_device(tmp_path, None) as device:
        wal = tmp_path / "app" / "store.sqlite-journal"
        wal.mkdir()
        with pytest.raises(StoreDamaged, match=r"store\.sqlite-journal"):
            device.erase()
    assert [one.name for one in (tmp_path / "app").iterdir()] == ["store.sqlite-journal"]


def test_who_waits_for_the_lock_of_an_erased_store_does_not_get_a_ghost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, flock = tmp_path / "app" / "lock", fcntl.flock
    erased: list[int] = []

    def erase_first(descriptor: int, how: int) -> None:
        if not erased:  # between opening the file and locking it
            lock.unlink()
            erased.append(descriptor)
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", erase_first)
    with FedRap.open(tmp_path):
        assert erased
        assert lock.read_text() == f"{os.getpid()}\n"
        with pytest.raises(StoreBusy, match=str(os.getpid())):
            FedRap.open(tmp_path)


async def test_a_real_coordinator_forgets_the_device(tmp_path: Path) -> None:
    async with serve(small_settings(), MemoryStore()) as served:
        device = await served.device(tmp_path, ["item-1"])
        assert (await device.run_round_async()).joined
        credentials = device._state.contents().credentials
        assert credentials is not None
        receipt: Erased = await device.erase_async()
        assert receipt.coordinator_confirmed
        again = await served.device(tmp_path, ["item-1"])
        again._state.keep_credentials(credentials)  # as if the store had come back
        assert (await again.run_round_async()).blocked_by == "not-enrolled"
