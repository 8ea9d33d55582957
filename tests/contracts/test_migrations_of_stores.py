"""A database of an older program is brought up to date whole; a newer one is left alone."""

from __future__ import annotations

import math

import msgpack
import numpy as np
import pytest
import sqlalchemy as sa

from fedrap_coordinator.domain.charges import charge_times
from fedrap_coordinator.domain.decisions import SlotRequest, SlotRule
from fedrap_coordinator.domain.records import StoredRelease
from fedrap_coordinator.domain.rounds import Phase, Round
from fedrap_coordinator.errors import StoreUnavailable
from fedrap_coordinator.rounds.releases import load_model
from fedrap_coordinator.store import migrations
from fedrap_coordinator.store.engine import open_engine
from fedrap_coordinator.store.schema import SCHEMA, metadata
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.errors import MalformedMessage
from fedrap_core.plan import Plan, Privacy
from fedrap_core.quantize import QuantizedRows
from fedrap_core.wire.codec import encode_value
from fedrap_core.wire.releases import model_hash
from tests.contracts.one_by_one import assign, round_phase
from tests.contracts.test_stores import device_id, round_id

ITEMS = QuantizedRows(
    np.array([[0, 5, 0], [-127, 0, 1]], dtype=np.int8), np.array([0.5, 0.25], dtype=np.float32)
)
# Schema 1 as it was made, in words of both databases; BYTES is BLOB or BYTEA.
SCHEMA_1 = """
CREATE TABLE meta (name VARCHAR(40) PRIMARY KEY, value BYTES NOT NULL);
CREATE TABLE token (digest BYTES PRIMARY KEY, made_at FLOAT NOT NULL, used_at FLOAT);
CREATE TABLE device (id BYTES PRIMARY KEY, public_key BYTES NOT NULL, enrolled_at FLOAT NOT NULL,
  last_nonce BIGINT NOT NULL, participations INTEGER NOT NULL, last_step INTEGER);
CREATE TABLE round (id BYTES PRIMARY KEY, step INTEGER NOT NULL, release INTEGER NOT NULL,
  phase VARCHAR(12) NOT NULL, plan BYTES NOT NULL, opened_at FLOAT NOT NULL);
CREATE TABLE assignment (round_id BYTES NOT NULL, device_id BYTES NOT NULL, step_before INTEGER,
  PRIMARY KEY (round_id, device_id));
CREATE TABLE update_ (round_id BYTES NOT NULL, device_id BYTES NOT NULL, digest BYTES NOT NULL,
  received_at FLOAT NOT NULL, body BYTES, PRIMARY KEY (round_id, device_id));
CREATE TABLE release (version INTEGER PRIMARY KEY, step INTEGER NOT NULL UNIQUE,
  devices INTEGER NOT NULL, body BYTES NOT NULL, gram BYTES);
CREATE TABLE item ("row" INTEGER PRIMARY KEY, item_id VARCHAR(200) NOT NULL UNIQUE,
  retired BOOLEAN NOT NULL)
"""


def fill_schema_1(url: str) -> None:
    """Two devices, a released round with one of them, an open round with the other."""
    engine = open_engine(url)
    kind = "BLOB" if engine.dialect.name == "sqlite" else "BYTEA"
    with engine.begin() as db:
        for statement in SCHEMA_1.replace("BYTES", kind).split(";"):
            db.execute(sa.text(statement))
        put = sa.text("INSERT INTO meta VALUES ('schema', :value)")
        db.execute(put, {"value": b"1"})
        for number, last in ((1, 1), (2, 2)):
            db.execute(
                sa.text("INSERT INTO device VALUES (:id, :key, 5, 7, 1, :last)"),
                {"id": device_id(number), "key": b"key", "last": last},
            )
        for number, phase in ((1, "released"), (2, "collecting")):
            db.execute(
                sa.text("INSERT INTO round VALUES (:id, :step, 1, :phase, :plan, 9)"),
                {"id": round_id(number), "step": number, "phase": phase, "plan": b"plan"},
            )
            given = {"round": round_id(number), "device": device_id(number)}
            db.execute(sa.text("INSERT INTO assignment VALUES (:round, :device, NULL)"), given)
        db.execute(
            sa.text("INSERT INTO update_ VALUES (:round, :device, :digest, 9, NULL)"),
            {"round": round_id(1), "device": device_id(1), "digest": b"d"},
        )
        db.execute(
            sa.text("INSERT INTO release VALUES (3, 2, 1, :body, NULL)"), {"body": _old_release()}
        )
        db.execute(sa.text("INSERT INTO release VALUES (2, 1, 1, :body, NULL)"), {"body": b"torn"})
    engine.dispose()


def _old_release() -> bytes:
    """A release as schemas 1 to 4 have it: all values, no bitmap."""
    fields = {
        "v": 1, "type": "release", "task": bytes(16), "version": 3, "step": 2, "size": 2, "dim": 3,
        "catalogue": 1, "scoring": {"name": "paper", "seed": 1}, "model": model_hash(ITEMS),
        "scales": ITEMS.scales.tobytes(), "values": ITEMS.values.tobytes(),
    }  # fmt: skip
    return bytes(msgpack.packb(fields, use_bin_type=True))


async def test_stored_releases_without_bitmaps_keep_their_c_and_its_hash(database: str) -> None:
    fill_schema_1(database)
    for _ in range(2):
        store = SqlStore(database)
        await store.open()
        release, torn = await store.release(3), await store.release(2)
        await store.close()
        assert release is not None
        model = load_model(release)
        assert np.array_equal(model.common.items.values, ITEMS.values)
        assert len(model.message.values) == 3
        assert model.message.model == model_hash(ITEMS)
        assert torn is not None
        with pytest.raises(MalformedMessage):
            load_model(torn)


async def test_releases_of_schema_4_get_bitmaps_where_they_are(database: str) -> None:
    store = SqlStore(database)
    await store.open()
    insert = "INSERT INTO release (version, step, devices, body) VALUES (3, 2, 1, :body)"

    def turn_back(db: sa.Connection) -> None:
        db.execute(sa.text("ALTER TABLE release DROP COLUMN support"))
        db.execute(sa.text("UPDATE meta SET value = :four WHERE name = 'schema'"), {"four": b"4"})
        db.execute(sa.text(insert), {"body": _old_release()})

    await store.transact(turn_back)
    await store.close()
    store = SqlStore(database)
    await store.open()
    release = await store.release(3)
    await store.close()
    assert release is not None
    assert np.array_equal(load_model(release).common.items.values, ITEMS.values)
    _same_tables(database)


async def test_schema_1_becomes_this_one_and_nothing_is_lost(database: str) -> None:
    fill_schema_1(database)
    for _ in range(2):  # a second start finds it done
        store = SqlStore(database)
        await store.open()
        one, two = [await store.device(device_id(number)) for number in (1, 2)]
        current = await store.current_round()
        assert one is not None
        assert two is not None
        assert (one.participations, one.last_step, one.counted_step) == (1, 1, 1)
        assert (two.participations, two.last_step, two.counted_step) == (1, 2, None)
        assert current is not None
        assert (current[0].step, current[0].assigned, current[0].seal_id) == (2, 1, b"")
        assert await assign(store, round_id(2), device_id(2), 2, 2, 9, 10.0) is None
        assert await assign(store, round_id(2), device_id(1), 2, 2, 9, 10.0) is False
        assert await round_phase(store, round_id(1)) is Phase.RELEASED
        await store.close()
    _same_tables(database)


def _same_tables(database: str) -> None:
    """What migrations make has the columns that a fresh database has."""
    engine = open_engine(database)
    found = sa.inspect(engine)
    for table in metadata.sorted_tables:
        columns = {column["name"] for column in found.get_columns(table.name)}
        assert columns == {column.name for column in table.columns}, table.name
    engine.dispose()


async def test_a_crash_in_the_middle_leaves_the_old_schema_as_it_was(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_schema_1(database)
    whole = migrations.STEPS[2]

    def broken(db: sa.Connection) -> None:
        whole(db)
        db.execute(sa.text("SELECT nonsense FROM nowhere"))

    monkeypatch.setitem(migrations.STEPS, 2, broken)
    store = SqlStore(database)
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await store.open()
    await store.close()
    monkeypatch.setitem(migrations.STEPS, 2, whole)
    store = SqlStore(database)
    await store.open()
    assert (await store.counts()).devices == 2
    await store.close()


@pytest.mark.parametrize(
    ("written", "says"), [(b"%d" % (SCHEMA + 1), "newer"), (b"x", "names no schema")]
)
async def test_a_database_of_another_program_is_refused_and_left_alone(
    database: str, written: bytes, says: str
) -> None:
    store = SqlStore(database)
    await store.open()
    change = sa.text("UPDATE meta SET value = :value WHERE name = 'schema'")
    await store.transact(lambda db: db.execute(change, {"value": written}))
    await store.close()
    other = SqlStore(database)
    with pytest.raises(StoreUnavailable, match=says):
        await other.open()
    read = sa.text("SELECT value FROM meta WHERE name = 'schema'")
    assert bytes(await other.transact(lambda db: db.scalar(read))) == written
    await other.close()


async def test_schema_4_gains_support_and_keeps_its_releases(database: str) -> None:
    store = SqlStore(database)
    await store.open()
    await store.add_release(StoredRelease(1, 0, 0, b"one", b"gram"), None)
    await store.transact(lambda db: db.execute(sa.text("ALTER TABLE release DROP COLUMN support")))
    older = sa.text("UPDATE meta SET value = :value WHERE name = 'schema'")
    await store.transact(lambda db: db.execute(older, {"value": b"4"}))
    await store.close()
    store = SqlStore(database)
    await store.open()
    assert await store.release(None) == StoredRelease(1, 0, 0, b"one", b"gram")
    counted = StoredRelease(2, 1, 3, b"two", b"gram", support=b"support")
    await store.add_release(counted, None)
    assert await store.release(None) == counted
    await store.close()
    _same_tables(database)


async def test_schema_8_learns_what_devices_have_spent_from_the_rules_of_their_rounds(
    database: str,
) -> None:
    store = SqlStore(database)
    await store.open()
    await store.add_tokens([bytes([one]) * 32 for one in range(4)], 0.0)
    for one in range(4):
        await store.enrol(bytes([one]) * 32, bytes([one]) * 16, b"k" * 65, 0.0)
    rules = [Privacy(noise=noise, separation=1) for noise in (1.0, 2.0, 0.0)]
    who = [(1, [0, 1]), (2, [0, 2]), (3, [2])]
    for (step, devices), rule in zip(who, rules, strict=True):
        place = bytes([100 + step]) * 16
        plan = encode_value(Plan(privacy=rule))
        await store.open_round(Round(place, step, 1, float(step)), plan)
        asked = [SlotRequest(bytes([one]) * 16) for one in devices]
        await store.assign_slots(place, asked, SlotRule(step, 10, rule), 0.0)
        await store.set_phase(place, Phase.ABANDONED, was=Phase.COLLECTING, now=0.0)
    spent = [1.25, 1.0, math.inf, 0.0]
    assert [one.spent for one in await store.devices(b"", 9)] == spent
    for column in ("spent", "last_cost"):
        drop = sa.text(f"ALTER TABLE device DROP COLUMN {column}")
        await store.transact(sa.Connection.execute, drop)
    older = sa.text("UPDATE meta SET value = :value WHERE name = 'schema'")
    await store.transact(lambda db: db.execute(older, {"value": b"8"}))
    await store.close()
    store = SqlStore(database)
    await store.open()
    found = await store.devices(b"", 9)
    assert [one.spent for one in found] == spent
    assert [one.last_cost for one in found] == [0.25, 1.0, math.inf, 0.0]
    states = await store.device_states(4, Privacy(noise=1.0, cap=3), 0.0)
    assert (states.most_spent, states.most_promised) == (math.inf, math.inf)
    await store.close()
    _same_tables(database)


async def test_schema_9_learns_when_phases_end_and_how_much_came(database: str) -> None:
    store = SqlStore(database)
    await store.open()
    await store.open_round(Round(b"r" * 16, 1, 1, 5.0), encode_value(Plan()))
    for column in ("summed_at", "body_bytes"):
        drop = sa.text(f"ALTER TABLE round DROP COLUMN {column}")
        await store.transact(sa.Connection.execute, drop)
    older = sa.text("UPDATE meta SET value = :value WHERE name = 'schema'")
    await store.transact(lambda db: db.execute(older, {"value": b"9"}))
    await store.close()
    store = SqlStore(database)
    await store.open()
    (row,) = await store.rounds(9)
    assert (row.opened_at, row.summed_at, row.body_bytes) == (5.0, None, 0)
    await store.close()
    _same_tables(database)


async def test_schema_10_learns_when_devices_were_charged_from_their_rounds(database: str) -> None:
    store = SqlStore(database)
    await store.open()
    await store.add_tokens([bytes([one]) * 32 for one in range(3)], 0.0)
    for one in range(3):
        await store.enrol(bytes([one]) * 32, bytes([one]) * 16, b"k" * 65, 0.0)
    rule = Privacy(noise=2.0, separation=1, cap=2, window_days=365.0)
    for step, devices in ((1, [0, 1]), (2, [0])):
        place, at = bytes([100 + step]) * 16, 1e9 + 86_400.0 * step
        await store.open_round(Round(place, step, 1, at), encode_value(Plan(privacy=rule)))
        asked = [SlotRequest(bytes([one]) * 16) for one in devices]
        await store.assign_slots(place, asked, SlotRule(step, 10, rule), at)
        await store.set_phase(place, Phase.ABANDONED, was=Phase.COLLECTING, now=at)
    known = [(one.charges, one.dearest) for one in await store.devices(b"", 9)]
    assert [len(charge_times(charges)) for charges, _ in known] == [2, 1, 0]
    # One of a device's rounds is gone: when that was is not known, so it counts as of the latest.
    lost = "UPDATE device SET participations = 2 WHERE participations = 1"
    await store.transact(sa.Connection.execute, sa.text(lost))
    for column in ("charges", "dearest"):
        drop = sa.text(f"ALTER TABLE device DROP COLUMN {column}")
        await store.transact(sa.Connection.execute, drop)
    older = sa.text("UPDATE meta SET value = :value WHERE name = 'schema'")
    await store.transact(lambda db: db.execute(older, {"value": b"10"}))
    await store.close()
    store = SqlStore(database)
    await store.open()
    found = await store.devices(b"", 9)
    assert [(one.charges, one.dearest) for one in (found[0], found[2])] == [known[0], known[2]]
    assert charge_times(found[1].charges) == [1e9 + 2 * 86_400.0, 1e9 + 86_400.0]
    assert found[1].dearest == math.inf
    states = await store.device_states(9, rule, 1e9 + 90 * 86_400.0)
    assert (states.spent, states.ready) == (2, 1)
    later = await store.device_states(9, rule, 1e9 + 367.5 * 86_400.0)  # one is out by then
    assert (later.spent, later.ready) == (0, 3)
    await store.close()
    _same_tables(database)


async def test_schema_12_learns_of_staged_releases_and_all_it_had_were_everybodys(
    database: str,
) -> None:
    store = SqlStore(database)
    await store.open()
    await store.add_release(StoredRelease(1, 0, 0, b"one", b"gram"), None)
    for change in (
        "ALTER TABLE release_fact DROP COLUMN staged",
        "DROP TABLE rollout",
        "UPDATE meta SET value = :value WHERE name = 'schema'",
    ):
        values = {"value": b"12"} if ":value" in change else {}
        await store.transact(sa.Connection.execute, sa.text(change), values)
    await store.close()
    store = SqlStore(database)
    await store.open()
    assert await store.release(None) == StoredRelease(1, 0, 0, b"one", b"gram")
    assert (await store.progress())[1] == 1
    assert await store.rollout() is None
    await store.close()
    _same_tables(database)
