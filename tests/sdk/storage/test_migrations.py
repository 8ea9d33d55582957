"""Older and newer schemas of the store: migrated whole, or a clear word and nothing touched."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from fedrap import FedRap, Interaction, StoreDamaged, StoreLocked
from fedrap.storage import migrations
from fedrap.storage.migrations import Step, migrate
from tests.sdk.made import a_device


def change(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as db:
        for statement in statements:
            db.execute(statement)
    db.close()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A made-up schema 0, in which events were called taps and there was no outbox."""
    a_device(tmp_path, None, items=("a", "b")).close()
    path = tmp_path / "app" / "store.sqlite"
    change(
        path,
        "ALTER TABLE event RENAME TO tap",
        "DROP TABLE outbox",
        "UPDATE meta SET value = 0 WHERE name = 'schema'",
    )
    return path


def rename(db: sqlite3.Connection) -> None:
    db.execute("ALTER TABLE tap RENAME TO event")


def use_steps(monkeypatch: pytest.MonkeyPatch, steps: Mapping[int, Step]) -> None:
    monkeypatch.setattr(migrations, "STEPS", {**migrations.STEPS, **steps})


def schema(path: Path) -> object:
    with sqlite3.connect(path) as db:
        (value,) = db.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    db.close()
    return value


def test_an_older_store_is_migrated_and_nothing_is_lost(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_steps(monkeypatch, {0: rename})
    for _ in range(2):  # the second time there is nothing to do
        with FedRap.open(tmp_path) as device:
            assert [one.item for one in device._state.contents().interactions] == ["a", "b"]
            assert device.status().consented
            assert device.status().pending == 0
        assert schema(old) == 2


def test_an_older_store_without_a_way_here_is_named_and_not_touched(
    old: Path, tmp_path: Path
) -> None:
    before = old.read_bytes()
    with pytest.raises(StoreDamaged, match=r"schema 0.*no step.*older version, or delete it"):
        FedRap.open(tmp_path)
    assert old.read_bytes() == before


def test_a_step_that_fails_leaves_the_old_schema_whole(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(db: sqlite3.Connection) -> None:
        rename(db)
        raise RuntimeError("the power fails here")

    use_steps(monkeypatch, {0: fail})
    with pytest.raises(RuntimeError):
        FedRap.open(tmp_path)
    assert schema(old) == 0
    use_steps(monkeypatch, {0: rename})
    with FedRap.open(tmp_path) as device:
        assert device.status().interactions == 2


def test_a_wrong_key_migrates_nothing(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_steps(monkeypatch, {0: rename})
    with pytest.raises(StoreLocked):
        FedRap.open(tmp_path, key=lambda: bytes(32))
    assert schema(old) == 0


def test_a_newer_store_says_that_the_app_is_too_old_and_is_not_touched(tmp_path: Path) -> None:
    a_device(tmp_path, None).close()
    path = tmp_path / "app" / "store.sqlite"
    change(path, "DROP TABLE outbox", "UPDATE meta SET value = 7 WHERE name = 'schema'")
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match=r"schema 7, this version reads 2; update the app"):
        FedRap.open(tmp_path)
    assert path.read_bytes() == before


def test_steps_are_taken_in_order_from_where_the_store_is() -> None:
    taken: list[int] = []
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB)")
    db.execute("INSERT INTO meta VALUES ('schema', 2)")

    def step(number: int) -> Step:
        return lambda db: taken.append(number)

    migrate(db, 2, 5, {number: step(number) for number in range(9)})
    assert taken == [2, 3, 4]
    assert db.execute("SELECT value FROM meta").fetchone() == (5,)
    db.close()


def test_a_record_that_another_version_wrote_is_named(tmp_path: Path) -> None:
    with a_device(tmp_path, None) as device:
        device._state._store.put("consents", "something else")
    with FedRap.open(tmp_path) as device:
        (named,) = device.status().set_aside
        assert named.startswith("record consents: a record of another version")
        assert (device.status().interactions, device.status().consented) == (3, False)


def test_interactions_that_version_0_1_kept_as_taps_stay_what_they_are(tmp_path: Path) -> None:
    with FedRap.open(tmp_path) as device:
        device.record_many([Interaction("old", "tap", 1.0, 5.0)])  # its default kind
        device.record("new", at=6.0)
    with FedRap.open(tmp_path) as device:
        kept = device._state.contents().interactions
        assert [(one.item, one.kind) for one in kept] == [("old", "tap"), ("new", "view")]
