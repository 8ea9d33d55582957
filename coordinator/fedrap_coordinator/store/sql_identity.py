"""Issuers, people with rights, and the audit in SQL."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.identity_protocol import AdminRecord, AuditEntry, AuditRow, Issuer
from fedrap_coordinator.store.insert_once import insert_once


def add_issuer(db: sa.Connection, issuer: Issuer) -> bool:
    """False when there is one of that name."""
    return insert_once(
        db, t.issuer, name=issuer.name, public_key=issuer.public_key, added_at=issuer.added_at
    )


def remove_issuer(db: sa.Connection, name: str) -> bool:
    """False when there is none."""
    return db.execute(t.issuer.delete().where(t.issuer.c.name == name)).rowcount == 1


def issuers(db: sa.Connection) -> Sequence[Issuer]:
    """In order of name."""
    rows = db.execute(t.issuer.select())
    return sorted((Issuer(*row) for row in rows), key=lambda one: one.name)


def add_admin(db: sa.Connection, admin: AdminRecord, digest: bytes) -> bool:
    """False when there is one of that name."""
    return insert_once(
        db, t.admin, name=admin.name, role=admin.role, digest=digest, added_at=admin.added_at
    )


def remove_admin(db: sa.Connection, name: str) -> bool:
    """False when there is none."""
    return db.execute(t.admin.delete().where(t.admin.c.name == name)).rowcount == 1


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


def write_audit(db: sa.Connection, entry: AuditEntry) -> None:
    """Append; one writer at a time, for each row is chained to the one before."""
    if db.dialect.name == "postgresql":
        db.execute(sa.text("LOCK TABLE audit IN EXCLUSIVE MODE"))
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
