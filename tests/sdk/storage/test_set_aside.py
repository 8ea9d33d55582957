"""A record that cannot be read costs itself and nothing else; damage is told from forgery."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedrap import FedRap, Interaction, StoreDamaged
from fedrap.cli import main
from fedrap.storage.database import DeviceStore
from tests.sdk.made import Clock, MadeCoordinator, a_device, a_release

KEY = bytes(range(32))


def opened(folder: Path) -> FedRap:
    return FedRap.open(folder, key=lambda: KEY, clock=Clock())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A device that joined a round."""
    with FedRap.open(
        tmp_path, key=lambda: KEY, clock=Clock(), transport=MadeCoordinator(), token="t"
    ) as device:
        device.consent(train=True, policy="v1")
        for item in ("item-1", "item-5", "item-2"):
            device.record(item)
        assert device.run_round().joined
    return tmp_path


def in_store(folder: Path, act: Callable[[DeviceStore], Any]) -> None:
    """As a version would write it that checked nothing."""
    store = DeviceStore(folder / "app", lambda: KEY)
    act(store)
    store.close()


def flip(folder: Path, table: str, key: str) -> None:
    """One byte in the middle of a record, as a failing disk would."""
    column = {"event": "seq", "block": "name"}[table]
    with sqlite3.connect(folder / "app" / "store.sqlite") as db:
        query = f"SELECT sealed FROM {table} WHERE {column} = ?"
        raw = bytearray(db.execute(query, (key,)).fetchone()[0])
        raw[13] ^= 1
        db.execute(f"UPDATE {table} SET sealed = ? WHERE {column} = ?", (bytes(raw), key))
    db.close()


def bad_kind(store: DeviceStore) -> None:
    store.add_interactions([Interaction("item-9", None, 1.0, 5.0)])  # type: ignore[arg-type]


def bad_answer(store: DeviceStore) -> None:
    answers = store.get("consents", list[Any]) or []
    store.put("consents", [*answers, {"train": "no", "policy": "v1", "at": 6.0}])


def bad_policy(store: DeviceStore) -> None:
    store.put("consents", [{"train": True, "policy": 2026, "at": 6.0}])


@pytest.mark.parametrize(
    ("wrong", "named", "consented"),
    [
        (bad_kind, "interaction 4: a record of another version", True),
        (bad_answer, "record consents: a record of another version", False),
        (bad_policy, "record consents: a record of another version", False),
    ],
)
def test_a_store_that_0_1_made_unreadable_opens_again(
    folder: Path, wrong: Callable[[DeviceStore], None], named: str, consented: bool
) -> None:
    in_store(folder, wrong)
    for _ in range(2):  # once mended it stays so
        with opened(folder) as device:
            status = device.status()
            assert len(status.set_aside) == 1
            assert status.set_aside[0].startswith(named)
            assert (status.interactions, status.consented, status.rounds) == (3, consented, 1)
            assert len(device.recommend(3)) == 3
    with opened(folder) as device:
        device.consent(train=True, policy="v2")
        device.record("item-4")
    with opened(folder) as device:
        assert (device.status().consented, device.status().interactions) == (True, 4)


def test_a_store_of_0_1_itself_that_was_made_unreadable_opens_too(folder: Path) -> None:
    in_store(folder, bad_kind)
    seals: list[bytes] = []
    in_store(folder, lambda store: seals.append(store._seal("meta", "", b"")))
    with sqlite3.connect(folder / "app" / "store.sqlite") as db:  # version 0.1 had no root
        db.execute("DELETE FROM meta WHERE name = 'root'")
        db.execute("UPDATE meta SET value = ? WHERE name = 'check'", (seals[0],))
        db.execute("UPDATE meta SET value = 1 WHERE name = 'schema'")
    db.close()
    with opened(folder) as device:
        assert device.status().interactions == 3
        assert len(device.status().set_aside) == 1


def test_an_unreadable_ledger_ends_rounds_and_nothing_else(folder: Path) -> None:
    flip(folder, "block", "ledger")
    for _ in range(2):
        with FedRap.open(
            folder, key=lambda: KEY, clock=Clock(), transport=MadeCoordinator(), token="t"
        ) as device:
            assert device.run_round().blocked_by == "ledger-lost"
            assert device.status().blocked_by == "ledger-lost"
            assert device.status().set_aside[0].startswith("record ledger: ")
            assert len(device.recommend(3)) == 3


@pytest.mark.parametrize("name", ["held", "c/0", "catalogue", "ids/0"])
def test_a_release_that_cannot_be_read_is_fetched_anew(tmp_path: Path, name: str) -> None:
    coordinator = MadeCoordinator(latest=a_release(2))
    with FedRap.open(tmp_path, key=lambda: KEY, transport=coordinator, token="t") as device:
        device.consent(train=True, policy="v1")
        device.record("item-1")
        device.sync()
        before = device.recommend(3)
    flip(tmp_path, "block", name)
    with FedRap.open(tmp_path, key=lambda: KEY, transport=coordinator, token="t") as device:
        assert device.recommend(3) == []
        device.sync()
        assert device.recommend(3) == before
        assert device.status().set_aside


@pytest.mark.parametrize("name", ["credentials", "personal", "consents"])
def test_any_other_record_costs_itself(folder: Path, name: str) -> None:
    flip(folder, "block", name)
    with opened(folder) as device:
        assert device.status().set_aside[0].startswith(f"record {name}: ")
        assert device.status().interactions == 3


def test_what_was_set_aside_goes_when_the_user_clears_the_history(folder: Path) -> None:
    flip(folder, "event", "2")
    with opened(folder) as device:
        assert device.status().interactions == 2
        assert device.clear_history() == 2
        assert device.status().set_aside == ()
    with opened(folder) as device:
        assert (device.status().interactions, device.status().set_aside) == (0, ())


def test_a_record_that_was_removed_is_forgery_and_no_damage(folder: Path) -> None:
    with sqlite3.connect(folder / "app" / "store.sqlite") as db:
        db.execute("DELETE FROM block WHERE name = 'ledger'")
    db.close()
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="was changed or removed"):
            opened(folder)


def doctor(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, Any]:
    code = main(["--store", str(folder), "--json", "doctor", *options])
    said = capsys.readouterr()
    return code, msgspec.json.decode(said.out) if said.out else said.err


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A store with a key of its own."""
    with a_device(tmp_path, MadeCoordinator()) as device:
        assert device.run_round().joined
    return tmp_path


def test_the_doctor_finds_a_healthy_store_healthy(
    plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = (plain / "app" / "store.sqlite").read_bytes()
    for options in ((), ("--repair",)):
        code, said = doctor(plain, capsys, *options)
        assert (code, said["opens"], said["interactions"], said["findings"]) == (0, True, 3, [])
    assert (plain / "app" / "store.sqlite").read_bytes() == raw


def test_the_doctor_mends_forgery_at_the_price_of_rounds(
    plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = plain / "app" / "store.sqlite"
    with sqlite3.connect(file) as db:
        db.execute("DELETE FROM event WHERE seq = 1")
    db.close()
    code, said = doctor(plain, capsys)
    assert (code, said["opens"]) == (1, False)
    assert "changed or removed" in said["findings"][0]
    code, said = doctor(plain, capsys, "--repair")
    assert (code, said["opens"], said["interactions"], said["ledger_lost"]) == (0, True, 2, True)
    with FedRap.open(plain, transport=MadeCoordinator(), token="t") as device:
        assert device.status().interactions == 2
        assert device.run_round().blocked_by == "ledger-lost"
        device.erase()
    assert not (plain / "app").exists()


def test_the_doctor_copies_what_a_torn_database_still_has(
    plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FedRap.open(plain, clock=Clock()) as device:
        device.record_many([Interaction(f"item-{n}" * 9, "view", 1.0, 5.0) for n in range(300)])
    file = plain / "app" / "store.sqlite"
    raw = bytearray(file.read_bytes())
    middle = len(raw) // 2 // 4096 * 4096
    raw[middle : middle + 4096] = bytes(4096)
    file.write_bytes(bytes(raw))
    code, _ = doctor(plain, capsys)
    assert code == 1
    code, said = doctor(plain, capsys, "--repair")
    assert (code, said["opens"]) == (0, True)
    assert 100 < said["interactions"] < 303
    assert (plain / "app" / "store.damaged").read_bytes() == bytes(raw)
    with FedRap.open(plain) as device:
        assert device.status().interactions == said["interactions"]


def test_the_doctor_says_what_it_cannot_mend(
    plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (plain / "app" / "store.key").write_bytes(bytes(32))
    assert doctor(plain, capsys) == (2, "fedrap: the key does not open this store; give the key "
                                     "that it was made with, or delete the store's folder to "
                                     "start afresh\n")  # fmt: skip
    (plain / "app" / "store.sqlite").unlink()
    code, said = doctor(plain, capsys)
    assert (code, "there is no store" in said) == (2, True)
