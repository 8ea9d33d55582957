"""What admins do and look at, in SQL: issuers, admins, the audit, refusals, devices by state.

Where a function takes an `audit`, that row is written in the same transaction, its outcome
"refused" when the answer is False.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from fedrap_coordinator.domain import charges
from fedrap_coordinator.domain.privacy_audit import with_costs
from fedrap_coordinator.domain.records import (
    AdminRecord,
    AuditEntry,
    AuditRow,
    DeviceStates,
    Issuer,
)
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.engine import insert_once
from fedrap_coordinator.store.task_tables import named
from fedrap_core.plan import Privacy

T = TypeVar("T")


def add_issuer(db: sa.Connection, issuer: Issuer, audit: AuditEntry | None = None) -> bool:
    """False when there is one of that name."""
    added = insert_once(
        db, t.issuer, name=issuer.name, public_key=issuer.public_key, added_at=issuer.added_at
    )
    return audited(db, audit, added)


def remove_issuer(db: sa.Connection, name: str, audit: AuditEntry | None = None) -> bool:
    """False when there is none."""
    removed = db.execute(t.issuer.delete().where(t.issuer.c.name == name)).rowcount == 1
    return audited(db, audit, removed)


def issuers(db: sa.Connection) -> Sequence[Issuer]:
    """In order of name."""
    rows = db.execute(t.issuer.select())
    return sorted((Issuer(*row) for row in rows), key=lambda one: one.name)


def add_admin(
    db: sa.Connection, admin: AdminRecord, digest: bytes, audit: AuditEntry | None = None
) -> bool:
    """False when there is one of that name."""
    added = insert_once(
        db, t.admin, name=admin.name, role=admin.role, digest=digest, added_at=admin.added_at
    )
    return audited(db, audit, added)


def remove_admin(db: sa.Connection, name: str, audit: AuditEntry | None = None) -> bool:
    """False when there is none."""
    removed = db.execute(t.admin.delete().where(t.admin.c.name == name)).rowcount == 1
    return audited(db, audit, removed)


def admins(db: sa.Connection) -> Sequence[AdminRecord]:
    """In order of name."""
    a = t.admin.c
    rows = db.execute(sa.select(a.name, a.role, a.added_at))
    return sorted((AdminRecord(*row) for row in rows), key=lambda one: one.name)


def admin_of(db: sa.Connection, digest: bytes) -> AdminRecord | None:
    """Whose bearer token it is."""
    a = t.admin.c
    row = db.execute(sa.select(a.name, a.role, a.added_at).where(a.digest == digest)).first()
    return None if row is None else AdminRecord(*row)


def end_session(db: sa.Connection, session: bytes, until: float, now: float) -> None:
    """Keep its id while the cookie would be good; those that are over by now are dropped."""
    db.execute(t.ended_session.delete().where(t.ended_session.c.until <= now))
    insert_once(db, t.ended_session, id=session, until=until)


def session_ended(db: sa.Connection, session: bytes) -> bool:
    """Did somebody sign out of it?"""
    e = t.ended_session.c
    return db.execute(sa.select(e.id).where(e.id == session)).first() is not None


def write_audit(db: sa.Connection, entry: AuditEntry) -> None:
    """Append; one writer at a time, for each row is chained to the one before."""
    if db.dialect.name == "postgresql":
        db.execute(sa.text(f"LOCK TABLE {named(db, t.audit)} IN EXCLUSIVE MODE"))
    a = t.audit.c
    last = db.execute(sa.select(a.number, a.digest).order_by(a.number.desc()).limit(1)).first()
    number, before = (0, bytes(32)) if last is None else (last.number, bytes(last.digest))
    db.execute(
        t.audit.insert().values(
            number=number + 1,
            at=entry.at,
            who=entry.who,
            action=entry.action,
            target=entry.target,
            outcome=entry.outcome,
            digest=entry.digest(before),
        )
    )


def audited(db: sa.Connection, entry: AuditEntry | None, answer: T) -> T:
    """Write the audit's row for an act with this answer, in the same transaction."""
    if entry is not None:
        outcome = "refused" if answer is False else entry.outcome
        write_audit(db, replace(entry, outcome=outcome))
    return answer


def audit_rows(db: sa.Connection, after: int, count: int) -> Sequence[AuditRow]:
    """In order of number."""
    a = t.audit.c
    rows = db.execute(t.audit.select().where(a.number > after).order_by(a.number).limit(count))
    return [
        AuditRow(
            row.number,
            AuditEntry(row.at, row.who, row.action, row.target, row.outcome),
            bytes(row.digest),
        )
        for row in rows
    ]


def add_refusals(db: sa.Connection, round_id: bytes, counts: Mapping[str, int]) -> None:
    """Add up; several processes may count for one round."""
    insert = postgresql.insert if db.dialect.name == "postgresql" else sqlite.insert
    # In one order, so that no two processes wait for each other.
    for problem, count in sorted(counts.items()):
        one = insert(t.refusal).values(round_id=round_id, problem=problem, count=count)
        db.execute(
            one.on_conflict_do_update(
                index_elements=["round_id", "problem"],
                set_={"count": t.refusal.c.count + count},
            )
        )


def refusals(db: sa.Connection, rounds: int) -> Mapping[bytes, Mapping[str, int]]:
    """Of the last rounds."""
    last = sa.select(t.round_.c.id).order_by(*t.NEWEST_ROUND_FIRST).limit(rounds).subquery()
    query = t.refusal.select().where(t.refusal.c.round_id.in_(sa.select(last.c.id)))
    found: dict[bytes, dict[str, int]] = {}
    for row in db.execute(query):
        found.setdefault(bytes(row.round_id), {})[row.problem] = int(row._mapping["count"])
    return found


def device_states(db: sa.Connection, step: int, rule: Privacy, now: float) -> DeviceStates:
    """One pass over the devices; the order of the cases is that of `decisions`.

    Independent of `participation.why_not` on purpose, and tested against it.
    """
    d, cap, separation = t.device.c, rule.cap, rule.separation
    spent_all = d.participations >= cap
    inside: sa.ColumnElement[bool] = sa.literal(True)  # was it charged within the window?
    if math.isfinite(rule.window):
        out = charges.edge(now, rule)
        newest = 1 + charges.WIDTH * (cap - 1)  # where the K-th newest charge begins
        spent_all = sa.func.substr(d.charges, newest, charges.DIGITS) > out
        inside = sa.func.substr(d.charges, 1, charges.DIGITS) > out
    resting = sa.and_(d.last_step.is_not(None), d.last_step > step - separation)
    if rule.rest > 0:
        newest_charge = sa.func.substr(d.charges, 1, charges.DIGITS)
        resting = sa.or_(resting, newest_charge > charges.rested(now, rule))
    waiting = sa.or_(d.not_before > now, sa.and_(d.first_step > step, d.free_at > now))
    state = sa.case(
        (d.revoked_at.is_not(None), "revoked"),
        (d.valid_until <= now, "expired"),
        (sa.and_(d.last_step.is_not(None), d.last_step == step), "resting"),
        (spent_all, "spent"),
        (resting, "resting"),
        (waiting, "waiting"),
        else_="ready",
    ).label("state")
    counted = sa.select(
        state, d.participations, sa.func.count().label("n"), sa.func.max(d.spent).label("spent"),
        sa.func.min(sa.case((d.first_step > step, d.first_step))).label("first"),
        sa.func.max(sa.case((inside, d.dearest), else_=0.0)).label("dearest"),
    )  # fmt: skip
    sums: dict[str, int] = {}
    charged: dict[int, int] = {}
    first, dearest = 0, 0.0
    spent: dict[int, float] = {}  # participations -> mu^2 of the device that has most
    for row in db.execute(counted.group_by(state, d.participations)):
        sums[row.state] = sums.get(row.state, 0) + row.n
        charged[row.participations] = charged.get(row.participations, 0) + row.n
        if row.state == "waiting" and row.first is not None:
            first = min(first or row.first, row.first)
        spent[row.participations] = max(spent.get(row.participations, 0.0), row.spent)
        dearest = max(dearest, row.dearest)
    states = DeviceStates(**sums, charged=dict(sorted(charged.items())), first_free=first)
    return with_costs(states, spent, rule, dearest)
