"""Devices in SQL: enrolment tokens, nonces, charges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from fedrap_coordinator.domain.records import (
    AT_ONCE,
    AuditEntry,
    DeviceRecord,
    EnrolmentOutcome,
    Terms,
    Ticket,
)
from fedrap_coordinator.errors import DeviceExists, TokenExists
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.engine import insert_once
from fedrap_coordinator.store.sql_admin import audited

_FOREVER = 9e18  # seconds; PostgreSQL and SQLite both take it where infinity needs care


def add_tokens(
    db: sa.Connection, digests: Sequence[bytes], now: float, audit: AuditEntry | None = None
) -> None:
    """Keep the digests of one-time tokens; raises TokenExists."""
    rows = [{"digest": digest, "made_at": now} for digest in digests]
    try:
        if rows:
            db.execute(t.token.insert(), rows)
    except IntegrityError as error:
        raise TokenExists("a token was added before") from error
    audited(db, audit, None)


def enrol(
    db: sa.Connection,
    token: bytes,
    device: bytes,
    public_key: bytes,
    now: float,
    terms: Terms = AT_ONCE,
) -> bool:
    """Use up a token and add the device; False when the token is unknown or used."""
    used = db.execute(
        t.token.update()
        .where(t.token.c.digest == token, t.token.c.used_at.is_(None))
        .values(used_at=now)
    )
    if used.rowcount != 1:
        return False
    _add(db, device, public_key, now, terms)
    return True


def enrol_signed(
    db: sa.Connection,
    ticket: Ticket,
    device: bytes,
    public_key: bytes,
    now: float,
    terms: Terms = AT_ONCE,
) -> EnrolmentOutcome:
    """Use up a one-time id; ids whose token is over are dropped, for the time refuses those."""
    s, a = t.signed_token.c, t.account.c
    db.execute(t.signed_token.delete().where(s.expires_at < now))
    known = db.scalar(sa.select(s.digest).where(s.digest == ticket.digest))
    if known is not None:
        return EnrolmentOutcome.USED
    if ticket.account is not None:
        insert_once(db, t.account, digest=ticket.account, devices=0)
        counted = db.execute(
            t.account.update()
            .where(a.digest == ticket.account, a.devices < ticket.most_devices)
            .values(devices=a.devices + 1)
        )
        if counted.rowcount != 1:
            return EnrolmentOutcome.TOO_MANY
    if not insert_once(db, t.signed_token, digest=ticket.digest, expires_at=ticket.expires_at):
        if ticket.account is not None:  # somebody was faster by a hair
            less = {"devices": a.devices - 1}
            db.execute(t.account.update().where(a.digest == ticket.account).values(less))
        return EnrolmentOutcome.USED
    _add(db, device, public_key, now, terms)
    return EnrolmentOutcome.DONE


def _add(db: sa.Connection, device: bytes, public_key: bytes, now: float, terms: Terms) -> None:
    released = int(db.scalar(sa.select(sa.func.max(t.release_fact.c.step))) or 0)
    row = {
        "id": device,
        "public_key": public_key,
        "enrolled_at": now,
        "first_step": terms.first_step(released),
        "not_before": terms.not_before(now),
        "free_at": min(terms.free_at(now), _FOREVER),
        "valid_until": min(terms.valid_until, _FOREVER),
        "level": terms.level,
    }
    try:
        db.execute(t.device.insert().values(row))
    except IntegrityError as error:  # the transaction ends here, and with it what was used up
        raise DeviceExists("the device is enrolled") from error


def device(db: sa.Connection, device: bytes) -> DeviceRecord | None:
    """A device's record."""
    row = db.execute(_RECORDS.where(t.device.c.id == device)).first()
    return None if row is None else _record(row)


def devices(db: sa.Connection, after: bytes, count: int) -> Sequence[DeviceRecord]:
    """Up to `count` devices beyond the id `after`."""
    query = _RECORDS.where(t.device.c.id > after).order_by(t.device.c.id).limit(count)
    return [_record(row) for row in db.execute(query)]


def _record(row: Sequence[Any]) -> DeviceRecord:
    """A row of `_RECORDS`."""
    values = list(row)
    for column in _TIMES:
        if values[column] >= _FOREVER:
            values[column] = math.inf
    return DeviceRecord(*values)


_NAMES = [one.name for one in fields(DeviceRecord)]
_TIMES = [_NAMES.index(name) for name in ("free_at", "valid_until")]
_RECORDS = sa.select(*(t.device.c[name] for name in _NAMES))
_LOCKED = (
    _RECORDS.where(t.device.c.id.in_(sa.bindparam("devices", expanding=True)))
    .order_by(t.device.c.id)
    .with_for_update()
)


def device_keys(db: sa.Connection, devices: Sequence[bytes]) -> Sequence[bytes | None]:
    """The public keys of these devices."""
    d = t.device.c
    rows = db.execute(sa.select(d.id, d.public_key).where(d.id.in_(devices)))
    found = {bytes(row.id): bytes(row.public_key) or None for row in rows}
    return [found.get(device) for device in devices]


def locked(db: sa.Connection, devices: Sequence[bytes]) -> dict[bytes, DeviceRecord]:
    """These devices, for this transaction alone until it ends; always locked in the same order."""
    return {bytes(row[0]): _record(row) for row in db.execute(_LOCKED, {"devices": devices})}


def charge(db: sa.Connection, devices: Iterable[DeviceRecord]) -> None:
    """Keep nonces and charges."""
    rows = [
        {
            "device": one.id, "nonce": one.last_nonce, "times": one.participations,
            "step": one.last_step, "cost": one.spent, "last": one.last_cost,
            "charged": one.charges, "most": one.dearest,
        }
        for one in devices
    ]  # fmt: skip
    if rows:
        db.execute(_CHARGE, rows)


_CHARGE = (
    t.device.update()
    .where(t.device.c.id == sa.bindparam("device"))
    .values(
        last_nonce=sa.bindparam("nonce"),
        participations=sa.bindparam("times"),
        last_step=sa.bindparam("step"),
        spent=sa.bindparam("cost"),
        last_cost=sa.bindparam("last"),
        charges=sa.bindparam("charged"),
        dearest=sa.bindparam("most"),
    )
)


def renew_device(db: sa.Connection, device: bytes, valid_until: float, level: str) -> None:
    """The end of a new certificate."""
    values = {"valid_until": min(valid_until, _FOREVER), "level": level}
    db.execute(t.device.update().where(t.device.c.id == device).values(values))


def revoke_device(
    db: sa.Connection, device: bytes, now: float, audit: AuditEntry | None = None
) -> bool:
    """Once; the record stays, so that the device cannot pass for one that was forgotten."""
    d = t.device.c
    done = db.execute(
        t.device.update().where(d.id == device, d.revoked_at.is_(None)).values(revoked_at=now)
    )
    return audited(db, audit, done.rowcount == 1)


def use_nonce(db: sa.Connection, device: bytes, nonce: int) -> bool:
    """Remember a nonce; False when it is not larger than all before."""
    raised = db.execute(
        t.device.update()
        .where(t.device.c.id == device, t.device.c.last_nonce < nonce)
        .values(last_nonce=nonce)
    )
    return raised.rowcount == 1


def forget_device(db: sa.Connection, device: bytes) -> None:
    """Drop a device's key, nonce and record; of one that was revoked the bare id stays."""
    d = t.device.c
    db.execute(t.device.delete().where(d.id == device, d.revoked_at.is_(None)))
    stays = {"public_key": b"", "last_nonce": 0, "level": "none"}
    db.execute(t.device.update().where(d.id == device).values(stays))


def settle(db: sa.Connection, round_id: bytes) -> None:
    """After a release: who is in the sum was counted, who is not may come sooner.

    The separation is about what was released; the cap stays charged. Without this, asking more
    devices than are needed would leave none for the next round of a small population.
    """
    a, u, d, r = t.assignment.c, t.update.c, t.device.c, t.round_.c
    step = sa.select(r.step).where(r.id == round_id).scalar_subquery()
    came = sa.select(u.device_id).where(u.round_id == round_id)
    db.execute(t.device.update().where(d.id.in_(came)).values(counted_step=step))
    absent = sa.select(a.device_id).where(a.round_id == round_id, a.device_id.not_in(came))
    db.execute(t.device.update().where(d.id.in_(absent)).values(last_step=d.counted_step))
