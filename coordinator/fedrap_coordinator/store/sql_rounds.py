"""Rounds in SQL: opened, moved on, slots given, updates kept, released."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from fedrap_coordinator.domain import decisions
from fedrap_coordinator.domain.decisions import (
    SlotRequest,
    SlotResult,
    SlotRule,
    Submission,
    SubmissionResult,
)
from fedrap_coordinator.domain.records import Charge, RoundRow, StoredRelease
from fedrap_coordinator.domain.rollouts import Rollout
from fedrap_coordinator.domain.rounds import OVER, Phase, Round, RoundCounts
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store import sql_devices
from fedrap_coordinator.store.sql_releases import for_everybody, insert_release
from fedrap_coordinator.store.sql_rollouts import keep_rollout
from fedrap_coordinator.store.task_tables import lock_of

_OVER = tuple(phase.value for phase in OVER)
# What every batch asks is built once: building cost as much as running it.
_COUNTS = (
    sa.select(t.round_.c.phase, t.round_.c.assigned, t.round_.c.accepted)
    .where(t.round_.c.id == sa.bindparam("round"))
    .with_for_update()
)
_CAME = sa.and_(
    t.update.c.round_id == t.assignment.c.round_id,
    t.update.c.device_id == t.assignment.c.device_id,
)
_ASSIGNED = (
    sa.select(t.assignment.c.device_id, t.update.c.digest)
    .select_from(t.assignment.outerjoin(t.update, _CAME))
    .where(
        t.assignment.c.round_id == sa.bindparam("round"),
        t.assignment.c.device_id.in_(sa.bindparam("devices", expanding=True)),
    )
)
_ADD = t.update.insert()
_OPENING = 0x66656473  # of PostgreSQL: two processes that open a round at once open one


def open_round(db: sa.Connection, round_: Round, plan: bytes) -> bool:
    """Keep a new round, unless its step is open, released, or behind us."""
    if db.dialect.name == "postgresql":
        db.execute(sa.select(sa.func.pg_advisory_xact_lock(lock_of(db, _OPENING))))
    r, released = t.round_.c, sa.select(t.release.c.step).where(t.release.c.step >= round_.step)
    rival = sa.select(r.id).where(r.phase.not_in(_OVER), r.step >= round_.step)
    if db.execute(rival).first() or db.execute(released).first():
        return False
    db.execute(
        t.round_.insert().values(
            id=round_.id,
            step=round_.step,
            release=round_.release,
            phase=round_.phase.value,
            plan=plan,
            opened_at=round_.opened_at,
            seal_id=round_.seal_id or None,
            helper=round_.helper or None,
        )
    )
    return True


def current_round(db: sa.Connection) -> tuple[Round, bytes] | None:
    """The round that is not over, with its slots and updates."""
    row = db.execute(t.round_.select().where(t.round_.c.phase.not_in(_OVER))).first()
    if row is None:
        return None
    phase, seal = Phase(row.phase), (bytes(row.seal_id or b""), bytes(row.helper or b""))
    counts = row.assigned, row.accepted
    return Round(row.id, row.step, row.release, row.opened_at, phase, *counts, *seal), row.plan


def progress(db: sa.Connection) -> tuple[tuple[Round, bytes] | None, int | None]:
    """The round that is not over, and the number of the latest release that is for everybody."""
    v = t.release.c.version
    return current_round(db), db.scalar(sa.select(sa.func.max(v)).where(for_everybody(v)))


def rounds(db: sa.Connection, count: int) -> Sequence[RoundRow]:
    """The last rounds, the newest first."""
    newest = t.round_.select().order_by(*t.NEWEST_ROUND_FIRST).limit(count)
    return [
        RoundRow(
            row.id, row.step, row.release, Phase(row.phase), row.plan, row.opened_at,
            row.assigned, row.accepted, row.closed_at, row.summed_at, row.body_bytes,
        )
        for row in db.execute(newest)
    ]  # fmt: skip


def charges_after(db: sa.Connection, round_id: bytes, after: bytes, count: int) -> Sequence[Charge]:
    """Up to `count` slots of devices beyond `after`, in order of device."""
    a, u = t.assignment.c, t.update.c
    query = (
        sa.select(a.device_id, u.digest)
        .select_from(t.assignment.outerjoin(t.update, _CAME))
        .where(a.round_id == round_id, a.device_id > after)
        .order_by(a.device_id)
        .limit(count)
    )
    return [Charge(bytes(row.device_id), row.digest is not None) for row in db.execute(query)]


def set_phase(
    db: sa.Connection,
    round_id: bytes,
    phase: Phase,
    was: Phase | None = None,
    now: float | None = None,
) -> bool:
    """Keep a phase; a round that is over has its end, and loses its sealed bodies."""
    values: dict[str, object] = {"phase": phase.value}
    if phase in OVER:
        values["closed_at"] = now
    elif phase is Phase.SUMMING:
        values["summed_at"] = now
    change = t.round_.update().where(t.round_.c.id == round_id).values(values)
    if was is not None:
        change = change.where(t.round_.c.phase == was.value)
    if db.execute(change).rowcount != 1:
        return False
    if phase in OVER:
        db.execute(t.update.update().where(t.update.c.round_id == round_id).values(body=None))
    return True


def assign_slots(
    db: sa.Connection,
    round_id: bytes,
    requests: Sequence[SlotRequest],
    rule: SlotRule,
    now: float,
) -> tuple[Sequence[SlotResult], RoundCounts]:
    """Read with locks, decide, write: nobody else gives a slot in this round meanwhile."""
    counts, names = _locked(db, round_id), sorted({one.device for one in requests})
    devices, a = sql_devices.locked(db, names), t.assignment.c
    assigned = db.scalars(
        sa.select(a.device_id).where(a.round_id == round_id, a.device_id.in_(names))
    ).all()
    batch = decisions.assign_slots(requests, counts, devices, map(bytes, assigned), rule, now)
    sql_devices.charge(db, batch.devices.values())
    if batch.assigned:
        rows = [{"round_id": round_id, "device_id": device} for device in batch.assigned]
        db.execute(t.assignment.insert(), rows)
        _count(db, round_id, assigned=batch.counts.assigned)
    return batch.results, batch.counts


def add_updates(
    db: sa.Connection,
    round_id: bytes,
    submissions: Sequence[Submission],
    max_updates: int,
    now: float,
) -> tuple[Sequence[SubmissionResult], RoundCounts]:
    """Read with locks, decide, write: nobody else adds to this round or ends it meanwhile."""
    counts, names = _locked(db, round_id), sorted({one.device for one in submissions})
    devices = sql_devices.locked(db, names)
    rows = db.execute(_ASSIGNED, {"round": round_id, "devices": names}).all()
    assigned = frozenset(bytes(device) for device, _ in rows)
    digests = {bytes(device): bytes(digest) for device, digest in rows if digest is not None}
    batch = decisions.add_updates(submissions, counts, devices, assigned, digests, max_updates, now)
    sql_devices.charge(db, batch.devices.values())
    if batch.stored:
        db.execute(
            _ADD,
            [
                {
                    "round_id": round_id, "device_id": one.device, "digest": one.digest,
                    "body": one.body, "received_at": now,
                }
                for one in batch.stored
            ],
        )  # fmt: skip
        more = sum(len(one.body or b"") for one in batch.stored)
        kept = t.round_.c.body_bytes + more
        _count(db, round_id, accepted=batch.counts.accepted, body_bytes=kept)
    return batch.results, batch.counts


def _locked(db: sa.Connection, round_id: bytes) -> RoundCounts:
    """The round, for this transaction alone until it ends."""
    row = db.execute(_COUNTS, {"round": round_id}).first()
    return (
        RoundCounts(None)
        if row is None
        else RoundCounts(Phase(row.phase), row.assigned, row.accepted)
    )


def _count(db: sa.Connection, round_id: bytes, **counts: int | sa.ColumnElement[int]) -> None:
    db.execute(t.round_.update().where(t.round_.c.id == round_id).values(**counts))


def sealed_after(
    db: sa.Connection, round_id: bytes, after: bytes, count: int
) -> Sequence[tuple[bytes, bytes]]:
    """Up to `count` sealed bodies of devices beyond `after`, in order of device."""
    u = t.update.c
    query = (
        sa.select(u.device_id, u.body)
        .where(u.round_id == round_id, u.device_id > after, u.body.is_not(None))
        .order_by(u.device_id)
        .limit(count)
    )
    return [(row.device_id, row.body) for row in db.execute(query)]


def add_release(
    db: sa.Connection,
    release: StoredRelease,
    round_id: bytes | None,
    rollout: Rollout | None = None,
) -> None:
    """Keep a version of C; its round is over in the same transaction."""
    insert_release(db, release)
    keep_rollout(db, rollout)
    if round_id is not None:
        set_phase(db, round_id, Phase.RELEASED, None, release.facts.made_at or None)
        sql_devices.settle(db, round_id)
