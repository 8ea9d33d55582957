"""The schema's number is checked at every start, and older databases are brought to it.

One function for each number, from the schema before it to its own; all that are due run in one
transaction, so a kill -9 in the middle leaves the database as it was. A step that makes a table
makes it as it is today, so a later step asks whether its column is there already.

Tasks with a name began at schema 13: a step after that one runs for each task's own tables, so what
it writes as text has `named(db, table)` and not the plain name.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import sqlalchemy as sa

from fedrap_coordinator.domain.charges import with_charge
from fedrap_coordinator.errors import StoreUnavailable
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.task_tables import make_tables, named
from fedrap_core.errors import FedRapError
from fedrap_core.plan import Plan
from fedrap_core.privacy.accounting import step_cost
from fedrap_core.wire.codec import decode_value
from fedrap_core.wire.releases import pack_entries

_LOCK = 0x66656472  # of PostgreSQL: two processes that start at once make one schema


log = logging.getLogger(__name__)


def open_schema(db: sa.Connection) -> None:
    """Make the tables, or bring them up to date.

    Raises:
        StoreUnavailable: the database was made by a newer program; nothing was changed.
    """
    if db.dialect.name == "postgresql":
        db.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    known = _number(db)
    if known is None:
        make_tables(db)
        db.execute(t.meta.insert().values(name="schema", value=_written()))
        return
    if known > t.SCHEMA:
        raise StoreUnavailable(
            f"the database has schema {known}, this program knows up to {t.SCHEMA}; "
            "use the newer program, or restore a backup"
        )
    for number in range(known + 1, t.SCHEMA + 1):
        if number in STEPS:  # a number may have been left out
            STEPS[number](db)
    if known < t.SCHEMA:
        log.warning("database brought up to date", extra={"was": known, "schema": t.SCHEMA})
        db.execute(t.meta.update().where(t.meta.c.name == "schema").values(value=_written()))
    make_tables(db)  # those that are not there yet


def to_schema_2(db: sa.Connection) -> None:
    """Terms of enrolment, certificates and revocation; a round names its sealing key."""
    _run(
        db,
        "ALTER TABLE device ADD COLUMN counted_step INTEGER",
        "ALTER TABLE device ADD COLUMN first_step INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE device ADD COLUMN not_before FLOAT NOT NULL DEFAULT 0",
        "ALTER TABLE device ADD COLUMN free_at FLOAT NOT NULL DEFAULT 0",
        "ALTER TABLE device ADD COLUMN valid_until FLOAT NOT NULL DEFAULT 9e18",
        "ALTER TABLE device ADD COLUMN level VARCHAR(40) NOT NULL DEFAULT 'none'",
        "ALTER TABLE device ADD COLUMN revoked_at FLOAT",
        "ALTER TABLE assignment DROP COLUMN step_before",
        "UPDATE device SET counted_step = (SELECT MAX(round.step) FROM update_ "
        "JOIN round ON round.id = update_.round_id "
        "WHERE update_.device_id = device.id AND round.phase = 'released')",
        _add_column(db, t.round_.c.seal_id),
    )


def to_schema_3(db: sa.Connection) -> None:
    """A round carries how many slots were given and how many updates came."""
    _run(
        db,
        "ALTER TABLE round ADD COLUMN assigned INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE round ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0",
        "UPDATE round SET "
        "assigned = (SELECT COUNT(*) FROM assignment WHERE assignment.round_id = round.id), "
        "accepted = (SELECT COUNT(*) FROM update_ WHERE update_.round_id = round.id)",
    )


def to_schema_4(db: sa.Connection) -> None:
    """Facts of releases outlive their bodies.

    A version may publish the C of an earlier step again, so a step is no longer unique there.
    """
    _run(
        db,
        "ALTER TABLE round ADD COLUMN closed_at FLOAT",
        "ALTER TABLE release RENAME TO release_3",
    )
    t.metadata.create_all(db, tables=[t.release, t.release_fact])
    _run(
        db,
        "INSERT INTO release (version, step, devices, body, gram) "
        "SELECT version, step, devices, body, gram FROM release_3",
        "INSERT INTO release_fact (version, step, devices, restores, made_at, items, zeros, "
        "whole_bytes, delta_bytes) "
        "SELECT version, step, devices, NULL, 0, 0, 0, 0, NULL FROM release_3",
        "DROP TABLE release_3",
    )


def to_schema_5(db: sa.Connection) -> None:
    """How many devices stand behind each row, and releases in sparse form."""
    if not _has_column(db, t.release.c.support):
        _run(db, _add_column(db, t.release.c.support))
    give_bitmaps(db)


def to_schema_6(db: sa.Connection) -> None:
    """Releases are entries of a signed log. The coordinator signs the latest when it starts."""
    t.metadata.create_all(db, tables=[t.release_log])


def to_schema_7(db: sa.Connection) -> None:
    """The state of the sequence part, with the releases that have one."""
    t.metadata.create_all(db, tables=[t.learner])


def to_schema_8(db: sa.Connection) -> None:
    """From which updates a step was made; of earlier ones that is not known."""
    if not _has_column(db, t.release_fact.c.updates):
        _run(db, _add_column(db, t.release_fact.c.updates))


def to_schema_9(db: sa.Connection) -> None:
    """What each device has spent, by the rules that the rounds it was charged for were opened with.

    A round whose rule cannot be read any more, and a charge whose round is gone, count as without
    a guarantee: less would be claimed without knowing it.
    """
    for column in (t.device.c.spent, t.device.c.last_cost):
        if not _has_column(db, column):
            _run(db, f"ALTER TABLE device ADD COLUMN {column.name} FLOAT NOT NULL DEFAULT 0")
    a, r, d = t.assignment.c, t.round_.c, t.device.c
    rules = {bytes(row.id): (row.step, _cost(bytes(row.plan))) for row in db.execute(
        sa.select(r.id, r.step, r.plan)
    )}  # fmt: skip
    known = sa.select(d.id, d.participations, d.last_step).where(d.participations > 0)
    for device in db.execute(known).all():
        costs: dict[int, float] = {}
        for place in db.scalars(sa.select(a.round_id).where(a.device_id == device.id)):
            step, cost = rules.get(bytes(place), (-1, math.inf))
            costs[step] = max(cost, costs.get(step, 0.0))
        lost = len(costs) < device.participations
        spent = math.inf if lost else sum(costs.values())
        last = costs.get(device.last_step, 0.0)
        db.execute(t.device.update().where(d.id == device.id).values(spent=spent, last_cost=last))


def to_schema_10(db: sa.Connection) -> None:
    """When a round's phases ended, and how much it received; of older rounds it is not known."""
    if not _has_column(db, t.round_.c.summed_at):
        _run(
            db,
            "ALTER TABLE round ADD COLUMN summed_at FLOAT",
            "ALTER TABLE round ADD COLUMN body_bytes BIGINT NOT NULL DEFAULT 0",
        )


def to_schema_11(db: sa.Connection) -> None:
    """When each device was charged and what for, from the rounds that it has a slot in.

    Charges whose round is gone count as of the latest time that the database knows: a window that
    begins later than it did claims nothing that does not hold.
    """
    if not _has_column(db, t.device.c.charges):
        _run(
            db,
            "ALTER TABLE device ADD COLUMN charges TEXT NOT NULL DEFAULT ''",
            "ALTER TABLE device ADD COLUMN dearest FLOAT NOT NULL DEFAULT 0",
        )
    a, r, d = t.assignment.c, t.round_.c, t.device.c
    rounds = {
        bytes(row.id): (row.step, row.opened_at, _cost(bytes(row.plan)))
        for row in db.execute(sa.select(r.id, r.step, r.opened_at, r.plan))
    }
    latest = max((at for _, at, _ in rounds.values()), default=0.0)
    known = sa.select(d.id, d.participations).where(d.participations > 0)
    for device in db.execute(known).all():
        steps: dict[int, tuple[float, float]] = {}  # when it was first charged, and the dearest
        for place in db.scalars(sa.select(a.round_id).where(a.device_id == device.id)):
            if (found := rounds.get(bytes(place))) is not None:
                step, at, cost = found
                before = steps.get(step, (at, cost))
                steps[step] = min(at, before[0]), max(cost, before[1])
        made = [steps[step] for step in sorted(steps)]
        made += [(latest, math.inf)] * (device.participations - len(made))
        charges = ""
        for at, cost in made:
            charges = with_charge(charges, at, cost)
        most = max(cost for _, cost in made)
        values = {"charges": charges, "dearest": most}
        db.execute(t.device.update().where(d.id == device.id).values(values))


def _cost(plan: bytes) -> float:
    try:
        return step_cost(decode_value(Plan, plan).privacy.charged_noise)
    except FedRapError:
        return math.inf


def to_schema_12(db: sa.Connection) -> None:
    """A round keeps what its offers say of a second server."""
    if not _has_column(db, t.round_.c.helper):
        _run(db, _add_column(db, t.round_.c.helper))


def to_schema_13(db: sa.Connection) -> None:
    """Releases that go to a share of the devices first; all that there were went to everybody."""
    if not _has_column(db, t.release_fact.c.staged):
        _run(db, _add_column(db, t.release_fact.c.staged))
    t.metadata.create_all(db, tables=[t.rollout])


STEPS: dict[int, Callable[[sa.Connection], None]] = {
    2: to_schema_2,
    3: to_schema_3,
    4: to_schema_4,
    5: to_schema_5,
    6: to_schema_6,
    7: to_schema_7,
    8: to_schema_8,
    9: to_schema_9,
    10: to_schema_10,
    11: to_schema_11,
    12: to_schema_12,
    13: to_schema_13,
}


def _run(db: sa.Connection, *statements: str) -> None:
    for statement in statements:
        db.execute(sa.text(statement))


def _number(db: sa.Connection) -> int | None:
    """The schema of this database; None when it is empty."""
    if not sa.inspect(db).has_table(named(db, t.meta)):
        return None
    found = db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == "schema"))
    text = b"" if found is None else bytes(found)
    if not text.isdigit():
        raise StoreUnavailable("the database is not one of a coordinator: it names no schema")
    return int(text)


def _written() -> bytes:
    return b"%d" % t.SCHEMA


def _has_column(db: sa.Connection, column: sa.Column[Any]) -> bool:
    known = sa.inspect(db).get_columns(column.table.name)
    return column.name in {one["name"] for one in known}


def _add_column(db: sa.Connection, column: sa.Column[bytes]) -> str:
    """Bytes have another name in each database."""
    kind = column.type.compile(db.dialect)
    return f"ALTER TABLE {column.table.name} ADD COLUMN {column.name} {kind}"


def give_bitmaps(db: sa.Connection) -> None:
    """Write every stored release in the form that devices read now; C and its hash stay."""
    r = t.release.c
    for version in list(db.scalars(sa.select(r.version))):  # one at a time: they are large
        body = bytes(db.scalar(sa.select(r.body).where(r.version == version)) or b"")
        db.execute(t.release.update().where(r.version == version).values(body=with_bitmap(body)))


def with_bitmap(body: bytes) -> bytes:
    """The bytes of a release with a bitmap, from those of one that has all its values.

    What is no such release stays as it is: whoever loads it says what is wrong with it.
    """
    try:
        fields = msgpack.unpackb(body)
        values = np.frombuffer(fields["values"], dtype=np.int8)
    except Exception:  # damaged bytes can fail in a dozen ways
        return body
    if "bitmap" in fields:
        return body
    bitmap, others = pack_entries(values)
    return bytes(msgpack.packb({**fields, "bitmap": bitmap, "values": others}, use_bin_type=True))
