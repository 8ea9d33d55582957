"""The encrypted store: nothing in clear, nothing lost, and a clear word when it cannot be used."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fedrap import FedRap, StoreBusy, StoreDamaged, StoreLocked
from fedrap.results import Interaction
from fedrap.storage.database import DeviceStore
from tests.sdk.made import MadeCoordinator, a_device

KEY = bytes(range(32))
SECRET = "very-secret-item"


def opened(folder: Path, key: bytes = KEY) -> DeviceStore:
    folder.mkdir(exist_ok=True)
    return DeviceStore(folder, lambda: key)


def an_interaction(item: str = SECRET) -> Interaction:
    return Interaction(item, "tap", 1.0, 5.0)


def filled(folder: Path, count: int = 300) -> Path:
    """A closed store with this many interactions; returns its file."""
    store = opened(folder)
    for number in range(count):
        store.add_interactions([an_interaction(f"{SECRET}-{number}")])
    store.put("ledger", ["one"])
    store.put("personal", {"a": 1.0})
    store.commit_round(b"r" * 16, b"first body", {})
    store.commit_round(b"s" * 16, b"second body", {})
    store.close()
    return folder / "store.sqlite"


def change(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as db:
        for statement in statements:
            db.execute(statement)
    db.close()


def everything(store: DeviceStore) -> object:
    return (
        store.interactions(),
        store.get("ledger", list[str]),
        store.get("personal", dict[str, float]),
        store.outbox(),
    )


def test_what_was_kept_is_there_after_closing(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    store = opened(tmp_path)
    assert [one.item for one in store.interactions()] == [f"{SECRET}-{n}" for n in range(3)]
    assert store.get("ledger", list[str]) == ["one"]
    assert store.get("nothing", list[str]) is None
    assert store.outbox() == [(b"r" * 16, b"first body"), (b"s" * 16, b"second body")]
    store.forget_outgoing(b"r" * 16)
    store.forget_outgoing(b"unknown")
    assert store.outbox() == [(b"s" * 16, b"second body")]
    store.close()
    store.close()


def test_no_item_and_no_key_is_in_any_file_in_clear(tmp_path: Path) -> None:
    key = os.urandom(32)
    with FedRap.open(tmp_path, key=lambda: key, transport=MadeCoordinator(), token="tok-en") as it:
        it.consent(train=True, policy="policy-of-this-app")
        it.record("item-5")
        it.record(SECRET, kind="buy-kind")
        assert it.run_round().joined
        credentials = it._state.contents().credentials
        assert credentials is not None
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert any(path.name.endswith("-wal") for path in files)
        raw = b"".join(path.read_bytes() for path in files)
    raw += b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    words = [SECRET, "item-", "buy-kind", "policy-of-this-app", "tok-en"]
    for hidden in (*(word.encode() for word in words), key, credentials.private_key):
        assert hidden not in raw
        assert hidden.hex().encode() not in raw


def test_another_key_does_not_open_the_store_and_changes_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path)
    before = path.read_bytes()
    with pytest.raises(StoreLocked, match="the key does not open"):
        opened(tmp_path, bytes(32))
    assert path.read_bytes() == before
    opened(tmp_path).close()


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_of_another_length_is_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(StoreLocked, match="32 bytes"):
        opened(tmp_path, bytes(size))
    opened(tmp_path).close()


@pytest.mark.parametrize("left", [1, 511, 99, 100, 600, 4096, 8192, 20_000, -4096, -1])
def test_a_truncated_file_is_damaged_and_a_way_out_is_named(tmp_path: Path, left: int) -> None:
    path = filled(tmp_path)
    os.truncate(path, left if left > 0 else path.stat().st_size + left)
    with pytest.raises(StoreDamaged, match="restore it from a backup, or delete it"):
        FedRap.open(tmp_path.parent, app=tmp_path.name, key=lambda: KEY)
    path.unlink()
    opened(tmp_path).close()  # the way out works, so the lock was given back


@pytest.mark.parametrize("raw", [b"garbage " * 2000, os.urandom(9000), b"SQLite format 3\0" * 99])
def test_a_file_that_is_no_store_is_damaged(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "store.sqlite").write_bytes(raw)
    with pytest.raises(StoreDamaged, match="restore it from a backup, or delete it"):
        opened(tmp_path)
    assert (tmp_path / "store.sqlite").read_bytes() == raw


def test_a_store_of_a_newer_schema_is_not_touched(tmp_path: Path) -> None:
    path = filled(tmp_path)
    change(path, "UPDATE meta SET value = 3 WHERE name = 'schema'")
    with pytest.raises(StoreDamaged, match="the store has schema 3, this version reads 2"):
        opened(tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET sealed = (SELECT sealed FROM event WHERE seq = 2) WHERE seq = 1",
        "UPDATE event SET seq = 1000 WHERE seq = 1",
        "UPDATE event SET sealed = x'' WHERE seq = 1",
        "UPDATE event SET sealed = zeroblob(60) WHERE seq = 1",
        "INSERT OR REPLACE INTO block SELECT 'ledger', sealed FROM block WHERE name = 'personal'",
        "UPDATE outbox SET round = zeroblob(16) WHERE round = CAST('ssssssssssssssss' AS BLOB)",
        "INSERT OR REPLACE INTO block SELECT 'ledger', sealed FROM event WHERE seq = 1",
    ],
)
def test_records_that_were_swapped_or_changed_are_refused(tmp_path: Path, statement: str) -> None:
    change(filled(tmp_path), statement)
    with pytest.raises(StoreDamaged, match="a record of the store was changed"):
        opened(tmp_path)


def test_a_record_of_another_store_with_the_same_key_is_refused(tmp_path: Path) -> None:
    mine, theirs = filled(tmp_path / "mine"), filled(tmp_path / "theirs")
    change(mine, f"ATTACH '{theirs}' AS t", "UPDATE event SET sealed = "
           "(SELECT sealed FROM t.event WHERE seq = 1) WHERE seq = 1")  # fmt: skip
    with pytest.raises(StoreDamaged):
        opened(tmp_path / "mine")


def test_a_round_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    drawn: list[int] = []

    def random_bytes(count: int) -> bytes:
        """One nonce for each record that is sealed."""
        drawn.append(count)
        if len(drawn) == fails_at:
            raise RuntimeError("the power fails here")
        return os.urandom(count)

    fails_at = 0
    store = DeviceStore(tmp_path, lambda: KEY, random_bytes)
    before = everything(store)
    for blocks in ({"ledger": ["two"], "personal": object()}, {"ledger": object()}):
        with pytest.raises(TypeError):
            store.commit_round(b"x" * 16, b"body", blocks)
        assert everything(store) == before
    for record in (1, 2):  # the ledger, and the outgoing bytes after it
        fails_at = len(drawn) + record
        with pytest.raises(RuntimeError):
            store.commit_round(b"x" * 16, b"body", {"ledger": ["two"]})
        assert everything(store) == before
    store.close()


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.add_interactions([an_interaction()])
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreDamaged, match="full"):
        store.add_interactions([an_interaction("x" * 100_000)])
    assert store.interactions() == [an_interaction()]
    store.close()


def test_a_kill_right_after_record_loses_nothing(tmp_path: Path) -> None:
    script = f"""
import os, signal
from fedrap import FedRap
device = FedRap.open({str(tmp_path)!r})
for number in range(20):
    device.record(f"item-{{number}}")
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    with FedRap.open(tmp_path) as device:
        kept = [one.item for one in device._state.contents().interactions]
    assert kept == [f"item-{number}" for number in range(20)]


def test_a_store_that_is_open_elsewhere_names_the_process(tmp_path: Path) -> None:
    script = f"""
import sys
from fedrap import FedRap
with FedRap.open({str(tmp_path)!r}):
    print("open", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(StoreBusy, match=f"process {other.pid}$"):
            FedRap.open(tmp_path)
        other.communicate("")
    FedRap.open(tmp_path).close()


def test_a_second_opener_makes_no_key(tmp_path: Path) -> None:
    with a_device(tmp_path, None):
        key = tmp_path / "app" / "store.key"
        first = key.read_bytes()
        key.unlink()  # as if both had found none and the other one were first
        with pytest.raises(StoreBusy, match=f"process {os.getpid()}$"):
            FedRap.open(tmp_path)
        assert not key.exists()
        key.write_bytes(first)
    FedRap.open(tmp_path).close()


def test_only_the_owner_may_read_the_key(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        FedRap.open(tmp_path / "store").close()
    finally:
        os.umask(before)
    folder = tmp_path / "store" / "app"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "store.key").stat().st_mode & 0o777 == 0o600
    assert len((folder / "store.key").read_bytes()) == 32
