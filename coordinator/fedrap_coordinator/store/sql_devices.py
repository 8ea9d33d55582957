"""Devices in SQL: tokens, nonces, and the one statement that admits a device to a round."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.protocol import DeviceRecord


def add_tokens(db: sa.Connection, digests: Sequence[bytes], now: float) -> None:
    """Keep the digests of one-time tokens."""
    rows = [{"digest": digest, "made_at": now} for digest in digests]
    try:
        if rows:
            db.execute(t.token.insert(), rows)
    except IntegrityError as error:
        raise ValueError("a token was added before") from error


def enrol(db: sa.Connection, token: bytes, device: bytes, public_key: bytes, now: float) -> bool:
    """Use up a token and add the device; False when the token is unknown or used."""
    used = db.execute(
        t.token.update()
        .where(t.token.c.digest == token, t.token.c.used_at.is_(None))
        .values(used_at=now)
    )
    if used.rowcount != 1:
        return False
    db.execute(t.device.insert().values(id=device, public_key=public_key, enrolled_at=now))
    return True


def find(db: sa.Connection, device: bytes) -> DeviceRecord | None:
    """A device's record."""
    row = db.execute(t.device.select().where(t.device.c.id == device)).first()
    if row is None:
        return None
    return DeviceRecord(row.id, row.public_key, row.participations, row.last_step)


def use_nonce(db: sa.Connection, device: bytes, nonce: int) -> bool:
    """Remember a nonce; False when it is not larger than all before."""
    raised = db.execute(
        t.device.update()
        .where(t.device.c.id == device, t.device.c.last_nonce < nonce)
        .values(last_nonce=nonce)
    )
    return raised.rowcount == 1


def forget(db: sa.Connection, device: bytes) -> None:
    """Drop a device's key, nonce and record."""
    db.execute(t.device.delete().where(t.device.c.id == device))


def assign(
    db: sa.Connection, round_id: bytes, device: bytes, step: int, separation: int, cap: int
) -> bool | None:
    """A place in the round, charged: True new, None had one, False the rule forbids it.

    One UPDATE decides and charges, so that no two requests can both find room below the cap. A
    step that is tried again after an abandoned round is not charged a second time.
    """
    if is_assigned(db, round_id, device):
        return None
    known = find(db, device)
    if known is None:
        return False
    last, count = t.device.c.last_step, t.device.c.participations
    again = sa.and_(last.is_not(None), last == step)
    rested = sa.or_(last.is_(None), last <= step - separation)
    charged = db.execute(
        t.device.update()
        .where(t.device.c.id == device, sa.or_(again, sa.and_(count < cap, rested)))
        .values(participations=count + sa.case((again, 0), else_=1), last_step=step)
    )
    if charged.rowcount != 1:
        return False
    values = {"round_id": round_id, "device_id": device, "step_before": known.last_step}
    db.execute(t.assignment.insert().values(**values))
    return True


def forgive_absent(db: sa.Connection, round_id: bytes) -> None:
    """Devices that had a place in a released round and are not in its sum may come sooner.

    The separation is about what was released; the cap stays charged. Without this, asking more
    devices than are needed would leave none for the next round of a small population.
    """
    a, u, d = t.assignment.c, t.update.c, t.device.c
    came = sa.select(u.device_id).where(u.round_id == round_id)
    before = sa.select(a.step_before).where(a.round_id == round_id, a.device_id == d.id)
    absent = sa.select(a.device_id).where(a.round_id == round_id, a.device_id.not_in(came))
    db.execute(t.device.update().where(d.id.in_(absent)).values(last_step=before.scalar_subquery()))


def is_assigned(db: sa.Connection, round_id: bytes, device: bytes) -> bool:
    """Does the device have a place in that round?"""
    a = t.assignment.c
    query = sa.select(a.device_id).where(a.round_id == round_id, a.device_id == device)
    return db.scalar(query) is not None
