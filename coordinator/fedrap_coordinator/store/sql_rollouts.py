"""Roll-outs in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from fedrap_coordinator.domain.records import AuditEntry
from fedrap_coordinator.domain.rollouts import Rollout, RolloutState
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.engine import insert_once
from fedrap_coordinator.store.sql_admin import audited


def add_rollout(db: sa.Connection, row: Rollout, audit: AuditEntry | None = None) -> bool:
    """False while another one goes on; `going` is unique, whoever is faster."""
    return audited(db, audit, insert_once(db, t.rollout, **_values(row)))


def rollouts(db: sa.Connection, count: int) -> Sequence[Rollout]:
    """The newest first."""
    r = t.rollout.c
    query = t.rollout.select().order_by(r.started_at.desc(), r.id).limit(count)
    return [_row(row) for row in db.execute(query)]


def rollout(db: sa.Connection) -> Rollout | None:
    """The one that goes on."""
    row = db.execute(t.rollout.select().where(t.rollout.c.going == 1)).first()
    return None if row is None else _row(row)


def move_rollout(
    db: sa.Connection, row: Rollout, was: Rollout, audit: AuditEntry | None = None
) -> bool:
    """False when it is not as it was any more."""
    r = t.rollout.c
    same = sa.and_(
        r.id == was.id, r.state == was.state.value, r.stage == was.stage, r.tries == was.tries
    )
    moved = db.execute(t.rollout.update().where(same).values(_values(row)))
    return audited(db, audit, moved.rowcount == 1)


def keep_rollout(db: sa.Connection, row: Rollout | None) -> None:
    """As it is now, in the transaction of a release."""
    if row is not None:
        db.execute(t.rollout.update().where(t.rollout.c.id == row.id).values(_values(row)))


def _values(row: Rollout) -> dict[str, Any]:
    return {
        "id": row.id, "source": row.source, "shares": " ".join(map(repr, row.shares)),
        "tolerance": row.tolerance, "started_at": row.started_at, "state": row.state.value,
        "base": row.base, "version": row.version, "stage": row.stage, "tries": row.tries,
        "reason": row.reason[:400], "ended_at": row.ended_at,
        "going": None if row.is_over else 1,
    }  # fmt: skip


def _row(row: Any) -> Rollout:
    shares = tuple(float(one) for one in row.shares.split())
    return Rollout(
        bytes(row.id), row.source, shares, row.tolerance, row.started_at, RolloutState(row.state),
        row.base, row.version, row.stage, row.tries, row.reason, row.ended_at,
    )  # fmt: skip
