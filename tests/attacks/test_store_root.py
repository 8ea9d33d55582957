"""Somebody changes a device's store with SQL: is what it says then believed?

In version 0.1 every record was sealed, but not that there were these and no others: two statements
turned "withdrawn, 100 rounds" into "consented, 0".
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from fedrap import CoordinatorUnreachable, FedRap, StoreDamaged
from tests.sdk.made import MadeCoordinator, a_device


def sql(folder: Path, *statements: str) -> None:
    with sqlite3.connect(folder / "app" / "store.sqlite") as db:
        for one in statements:
            db.execute(one)
    db.close()


def a_store(folder: Path) -> dict[str, bytes]:
    """Consented, one round, withdrawn; gives the records as they were before the withdrawal."""
    coordinator = MadeCoordinator()
    with a_device(folder, coordinator) as device:
        assert device.run_round().joined
    with sqlite3.connect(folder / "app" / "store.sqlite") as db:
        before = dict(db.execute("SELECT name, sealed FROM block"))
    db.close()
    with FedRap.open(folder) as device:
        device.consent(train=False, policy="no")
    return before


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM block WHERE name = 'ledger'",
        "DELETE FROM block WHERE name = 'consents'",
        "DELETE FROM event WHERE seq = 2",
        "DELETE FROM event",
        "DELETE FROM block",
        "DELETE FROM meta WHERE name = 'root'",
        "UPDATE meta SET value = x'00' WHERE name = 'root'",
    ],
)
def test_a_record_that_is_gone_is_damage(tmp_path: Path, statement: str) -> None:
    a_store(tmp_path)
    sql(tmp_path, statement)
    with pytest.raises(StoreDamaged, match="changed"):
        FedRap.open(tmp_path)


def test_an_old_record_in_place_of_the_new_one_is_damage(tmp_path: Path) -> None:
    old = a_store(tmp_path)["consents"].hex()
    sql(tmp_path, f"UPDATE block SET sealed = x'{old}' WHERE name = 'consents'")
    with pytest.raises(StoreDamaged, match="changed"):
        FedRap.open(tmp_path)


def test_an_outbox_that_comes_back_or_goes_is_damage(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    coordinator.fails["send_update"] = [CoordinatorUnreachable("gone")]
    with a_device(tmp_path, coordinator) as device:
        device.run_round()
    sql(tmp_path, "DELETE FROM outbox")
    with pytest.raises(StoreDamaged, match="changed"):
        FedRap.open(tmp_path)


def test_a_store_of_version_0_1_is_taken_over(tmp_path: Path) -> None:
    a_store(tmp_path)
    with FedRap.open(tmp_path) as device:
        store = device._state._store
        old = store._seal("meta", "", b"")
        store._db.execute("DELETE FROM meta WHERE name = 'root'")
        store._db.execute("UPDATE meta SET value = 1 WHERE name = 'schema'")
        store._db.execute("UPDATE meta SET value = ? WHERE name = 'check'", (old,))
    with FedRap.open(tmp_path) as device:
        assert (device.status().rounds, device.status().consented) == (1, False)
    sql(tmp_path, "DELETE FROM block WHERE name = 'ledger'")
    with pytest.raises(StoreDamaged, match="changed"):
        FedRap.open(tmp_path)


def test_an_honest_store_opens_again_and_again(tmp_path: Path) -> None:
    a_store(tmp_path)
    for number in range(3):
        with FedRap.open(tmp_path) as device:
            device.record(f"item-{number}")
            assert device.status().rounds == 1
