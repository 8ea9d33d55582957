"""Several people on one device: stores of their own, keys of their own."""

from __future__ import annotations

import contextlib
import os
import random
import zipfile
from pathlib import Path

import pytest

from fedrap import BrokenExport, FedRap, StoreLocked
from tests.sdk.made import Clock, MadeCoordinator, a_device


class AppKey:
    """A key that the app keeps elsewhere, and that erasing deletes for good."""

    def __init__(self) -> None:
        self.raw: bytes | None = bytes(range(32))

    def __call__(self) -> bytes:
        if self.raw is None:
            raise StoreLocked("the key was deleted")
        return self.raw

    def erase(self) -> None:
        self.raw = None


@pytest.mark.parametrize("own", [True, False])
def test_profiles_share_nothing_and_one_is_erased_alone(tmp_path: Path, own: bool) -> None:
    key = AppKey() if own else None
    for name in ("ann", "bob", None):
        with FedRap.open(tmp_path, profile=name, key=key) as device:
            device.record(f"item of {name}")
    with FedRap.open(tmp_path, profile="ann", key=key) as ann:
        with FedRap.open(tmp_path, profile="bob", key=key) as bob:  # both at once
            assert [one.item for one in bob.history()] == ["item of bob"]
        assert ann.erase().deleted
    with FedRap.open(tmp_path, key=key) as device:
        assert [one.item for one in device.history()] == ["item of None"]
        device.erase()  # the app's key stays: it opens bob's
    with FedRap.open(tmp_path, profile="bob", key=key) as bob:
        assert [one.item for one in bob.history()] == ["item of bob"]
    with FedRap.open(tmp_path, profile="ann", key=key) as ann:
        assert list(ann.history()) == []


def test_every_profile_has_another_key(tmp_path: Path) -> None:
    key = AppKey()
    for name in ("ann", "bob"):
        FedRap.open(tmp_path, profile=name, key=key).close()
    wrapped = [path / "store.wrapped" for path in sorted((tmp_path / "app").iterdir())]
    first, second = (path.read_bytes() for path in wrapped)
    wrapped[0].write_bytes(second)
    wrapped[1].write_bytes(first)
    for name in ("ann", "bob"):
        with pytest.raises(StoreLocked, match="does not open this profile"):
            FedRap.open(tmp_path, profile=name, key=key)


def test_a_name_neither_chooses_a_path_nor_is_read_from_one(tmp_path: Path) -> None:
    with FedRap.open(tmp_path, profile="../../ann@example.org") as device:
        device.record("tea")
    names = [path.name for path in tmp_path.rglob("*")]
    assert not any("ann" in name for name in names)
    assert all(path.is_relative_to(tmp_path / "app") for path in (tmp_path / "app").rglob("*"))


@pytest.mark.parametrize("passphrase", [None, "correct horse"])
def test_a_history_moves_to_another_device(tmp_path: Path, passphrase: str | None) -> None:
    file = tmp_path / "mine"
    with a_device(tmp_path / "old", MadeCoordinator(), clock=Clock(1.7e9)) as device:
        assert device.run_round().joined
        device.hide("item-7")
        device.export(file, passphrase=passphrase)
        before = list(device.history())
        spent = device.status().epsilon
    assert (b"item-1" in zlib_free(file)) is (passphrase is None)
    with FedRap.open(tmp_path / "new", clock=Clock(1.7e9 + 9)) as device:
        device.record("item-9")
        for new in (3, 0):  # twice is once
            assert device.import_export(file, passphrase=passphrase) == new
        assert list(device.history())[:3] == before
        status = device.status()
        assert (status.interactions, status.hidden, status.rounds) == (4, 1, 1)
        assert (status.epsilon, status.consented, status.enrolled) == (spent, False, False)


def zlib_free(path: Path) -> bytes:
    """What can be read in a file, as far as it is a zip."""
    try:
        with zipfile.ZipFile(path) as archive:
            return b"".join(archive.read(name) for name in archive.namelist())
    except zipfile.BadZipFile:
        return path.read_bytes()


def test_an_export_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    with FedRap.open(tmp_path / "old") as device:
        device.record("tea")
        device.export(good, passphrase="correct horse")
    raw = good.read_bytes()
    with FedRap.open(tmp_path / "new") as device:
        for passphrase in (None, "another horse"):
            with pytest.raises(BrokenExport, match="passphrase"):
                device.import_export(good, passphrase=passphrase)
        for broken in (b"", b"PK", raw[:40], raw[:-1], os.urandom(500)):
            bad.write_bytes(broken)
            with pytest.raises(BrokenExport):
                device.import_export(bad, passphrase="correct horse")
        device.export(bad)
        whole = bad.read_bytes()
        rng = random.Random(5)
        for _ in range(150):  # whatever a disk or somebody did to it
            torn = bytearray(whole)
            torn[rng.randrange(len(torn))] ^= 1 << rng.randrange(8)
            bad.write_bytes(bytes(torn[: rng.choice([len(torn), rng.randrange(len(torn))])]))
            with contextlib.suppress(BrokenExport):
                device.import_export(bad)
        for documents in (
            {"interactions.json": "[{}]"},
            {"interactions.json": '[{"item": 5, "kind": "a", "weight": 1, "at": 5}]'},
            {"interactions.json": "{}"},
            {"hidden.json": "[5]"},
            {"ledger.json": '[{"step": "x"}]'},
            {"interactions.json": "[" * 100_000},
            {"interactions.json": "[5]"},
        ):
            with zipfile.ZipFile(bad, "w") as archive:
                for name, text in documents.items():
                    archive.writestr(name, text)
            with pytest.raises(BrokenExport, match="nothing was taken over"):
                device.import_export(bad)
        assert (device.status().interactions, device.status().hidden) == (0, 0)
