"""Rounds, updates and releases in SQL."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from fedrap_coordinator.rounds import Phase, Round
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.protocol import Added, Charge, RoundRow, StoredRelease
from fedrap_coordinator.store.sql_devices import settle
from fedrap_coordinator.store.sql_releases import insert_release

_OVER = (Phase.RELEASED.value, Phase.ABANDONED.value)


def open_round(db: sa.Connection, round_: Round, plan: bytes) -> None:
    """Keep a new round."""
    db.execute(
        t.round_.insert().values(
            id=round_.id,
            step=round_.step,
            release=round_.release,
            phase=round_.phase.value,
            plan=plan,
            opened_at=round_.opened_at,
            seal_id=round_.seal_id or None,
        )
    )


def current_round(db: sa.Connection) -> tuple[Round, bytes] | None:
    """The round that is not over, its places and updates counted."""
    row = db.execute(t.round_.select().where(t.round_.c.phase.not_in(_OVER))).first()
    if row is None:
        return None
    counts = [
        int(db.scalar(sa.select(sa.func.count()).where(table.c.round_id == row.id)) or 0)
        for table in (t.assignment, t.update)
    ]
    assigned, accepted = counts
    phase, seal = Phase(row.phase), bytes(row.seal_id or b"")
    round_ = Round(row.id, row.step, row.release, row.opened_at, phase, assigned, accepted, seal)
    return round_, row.plan


def rounds(db: sa.Connection, count: int) -> Sequence[RoundRow]:
    """The last rounds, the newest first; their places and updates counted in two passes."""
    r = t.round_.c
    newest = t.round_.select().order_by(r.opened_at.desc(), r.id.desc()).limit(count)
    rows, ids = list(db.execute(newest)), sa.select(newest.subquery().c.id)
    assigned, accepted = (
        {
            bytes(found.round_id): int(found.n)
            for found in db.execute(
                sa.select(table.c.round_id, sa.func.count().label("n"))
                .where(table.c.round_id.in_(ids))
                .group_by(table.c.round_id)
            )
        }
        for table in (t.assignment, t.update)
    )
    return [
        RoundRow(
            row.id, row.step, row.release, Phase(row.phase), row.plan, row.opened_at,
            assigned.get(bytes(row.id), 0), accepted.get(bytes(row.id), 0), row.closed_at,
        )
        for row in rows
    ]  # fmt: skip


def charges_after(db: sa.Connection, round_id: bytes, after: bytes, count: int) -> Sequence[Charge]:
    """Up to `count` places of devices beyond `after`, in order of device."""
    a, u = t.assignment.c, t.update.c
    came = sa.and_(u.round_id == a.round_id, u.device_id == a.device_id)
    query = (
        sa.select(a.device_id, u.digest)
        .select_from(t.assignment.outerjoin(t.update, came))
        .where(a.round_id == round_id, a.device_id > after)
        .order_by(a.device_id)
        .limit(count)
    )
    return [Charge(bytes(row.device_id), row.digest is not None) for row in db.execute(query)]


def set_phase(db: sa.Connection, round_id: bytes, phase: Phase, now: float | None = None) -> None:
    """Keep a phase; a round that is over loses its sealed bodies."""
    db.execute(t.round_.update().where(t.round_.c.id == round_id).values(phase=phase.value))
    if phase.value in _OVER:
        db.execute(t.round_.update().where(t.round_.c.id == round_id).values(closed_at=now))
        db.execute(t.update.update().where(t.update.c.round_id == round_id).values(body=None))


def round_phase(db: sa.Connection, round_id: bytes) -> Phase | None:
    """The phase of any round ever opened."""
    found = db.scalar(sa.select(t.round_.c.phase).where(t.round_.c.id == round_id))
    return None if found is None else Phase(found)


def add_update(
    db: sa.Connection, round_id: bytes, device: bytes, digest: bytes, body: bytes, now: float
) -> Added:
    """Keep a sealed update; the primary key makes a second one of a device impossible."""
    values = {"round_id": round_id, "device_id": device, "digest": digest, "body": body}
    try:
        with db.begin_nested():
            db.execute(t.update.insert().values(**values, received_at=now))
    except IntegrityError:
        known = update_digest(db, round_id, device)
        return Added.DUPLICATE if known == digest else Added.CONFLICT
    return Added.STORED


def update_digest(db: sa.Connection, round_id: bytes, device: bytes) -> bytes | None:
    """Digest of a device's update in a round."""
    u = t.update.c
    digest = db.scalar(sa.select(u.digest).where(u.round_id == round_id, u.device_id == device))
    return None if digest is None else bytes(digest)


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


def add_release(db: sa.Connection, release: StoredRelease, round_id: bytes | None) -> None:
    """Keep a version of C; its round is over in the same transaction."""
    insert_release(db, release)
    if round_id is not None:
        set_phase(db, round_id, Phase.RELEASED, release.facts.made_at or None)
        settle(db, round_id)
