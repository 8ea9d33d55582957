"""Versions of C in SQL: kept, found, published again, dropped; and what was measured of them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from fedrap_coordinator.domain.records import (
    AuditEntry,
    Facts,
    Quality,
    ReleaseRow,
    StoredRelease,
)
from fedrap_coordinator.domain.rollouts import Rollout
from fedrap_coordinator.domain.rounds import OVER, Phase
from fedrap_coordinator.errors import AlreadyReleased
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.sql_admin import audited
from fedrap_coordinator.store.sql_rollouts import keep_rollout
from fedrap_core.wire.authority import read_entry

_OVER = tuple(phase.value for phase in OVER)
PIECE = 8 * 1024 * 1024  # bytes of a state in one row: neither database likes rows of gigabytes


def insert_release(db: sa.Connection, release: StoredRelease) -> None:
    """Keep a version of C and its facts; raises AlreadyReleased."""
    facts = release.facts
    try:
        db.execute(
            t.release.insert().values(
                version=release.version,
                step=release.step,
                devices=release.devices,
                body=release.body,
                gram=release.gram,
                support=release.support,
            )
        )
        db.execute(
            t.release_fact.insert().values(
                version=release.version,
                step=release.step,
                devices=release.devices,
                restores=release.restores,
                made_at=facts.made_at,
                items=facts.items,
                zeros=facts.zeros,
                whole_bytes=facts.whole_bytes,
                delta_bytes=facts.delta_bytes,
                updates=release.updates or None,
                staged=release.staged or None,
            )
        )
        _append(db, [release.entry] if release.entry else [])
        for start in range(0, len(release.learner or b""), PIECE):
            piece = (release.learner or b"")[start : start + PIECE]
            at = {"version": release.version, "number": start // PIECE}
            db.execute(t.learner.insert().values(**at, body=piece))
    except IntegrityError as error:
        raise AlreadyReleased(f"step {release.step} or its version was released before") from error


def _append(db: sa.Connection, entries: Sequence[bytes]) -> None:
    """Add entries to the log; each link is used once, so a fork is an IntegrityError."""
    for signed in entries:
        entry = read_entry(signed)
        db.execute(
            t.release_log.insert().values(version=entry.version, before=entry.before, entry=signed)
        )


def update_sets(db: sa.Connection) -> dict[int, bytes]:
    """By step: the digest of the updates that it was made from."""
    f = t.release_fact.c
    rows = db.execute(sa.select(f.step, f.updates).where(f.updates.is_not(None)))
    return {row.step: bytes(row.updates) for row in rows}


def learner(db: sa.Connection, version: int) -> bytes | None:
    """The state of the sequence part with a release."""
    c = t.learner.c
    pieces = db.scalars(sa.select(c.body).where(c.version == version).order_by(c.number))
    return b"".join(bytes(piece) for piece in pieces) or None


def sign_release(db: sa.Connection, release: StoredRelease) -> None:
    """The first entry of the log; the release has it in its body from now on."""
    try:
        _append(db, [release.entry])
    except IntegrityError as error:
        raise AlreadyReleased("the log of releases has begun already") from error
    r = t.release.c
    db.execute(t.release.update().where(r.version == release.version).values(body=release.body))


def log(db: sa.Connection, since: int, count: int) -> tuple[Sequence[bytes], bytes]:
    """Entries beyond version `since`, the oldest first, and the last of all."""
    version, entry = t.release_log.c.version, t.release_log.c.entry
    rows = db.scalars(sa.select(entry).where(version > since).order_by(version).limit(count))
    found = [bytes(row) for row in rows]
    head = db.scalar(sa.select(entry).order_by(version.desc()).limit(1))
    return found, b"" if head is None else bytes(head)


def for_everybody(version: sa.Column[int]) -> sa.ColumnElement[bool]:
    """Is this the version of a release that is not staged?"""
    f = t.release_fact.c
    return ~sa.exists().where(f.version == version, f.staged.is_not(None))


def release(db: sa.Connection, version: int | None) -> StoredRelease | None:
    """A version of C, or the latest that is for everybody."""
    v = t.release.c.version
    query = t.release.select().order_by(v.desc()).limit(1)
    query = query.where(for_everybody(v) if version is None else v == version)
    row = db.execute(query).first()
    if row is None:
        return None
    known = db.execute(
        t.release_fact.select().where(t.release_fact.c.version == row.version)
    ).first()
    facts, restores = (Facts(), None) if known is None else (_facts(known), known.restores)
    in_log = t.release_log.c.version == row.version
    entry = db.scalar(sa.select(t.release_log.c.entry).where(in_log)) or b""
    return StoredRelease(
        row.version, row.step, row.devices, row.body, row.gram, restores, facts, row.support,
        bytes(entry), updates=b"" if known is None else bytes(known.updates or b""),
        staged=b"" if known is None else bytes(known.staged or b""),
    )  # fmt: skip


def roll_back(
    db: sa.Connection,
    release: StoredRelease,
    audit: AuditEntry | None = None,
    lost: Sequence[bytes] = (),
    rollout: Rollout | None = None,
) -> None:
    """An earlier C under a new version; what was collected for the one before is destroyed."""
    r = t.round_.c
    open_ones = [bytes(one) for one in db.scalars(sa.select(r.id).where(r.phase.not_in(_OVER)))]
    try:
        _append(db, lost)
    except IntegrityError as error:
        raise AlreadyReleased("the log of releases has those entries already") from error
    insert_release(db, release)
    for round_id in open_ones:
        db.execute(
            t.round_.update()
            .where(r.id == round_id)
            .values(phase=Phase.ABANDONED.value, closed_at=release.facts.made_at)
        )
        db.execute(t.update.update().where(t.update.c.round_id == round_id).values(body=None))
    keep_rollout(db, rollout)
    audited(db, audit, None)


def prune_releases(db: sa.Connection, keep: int, states: int = 1) -> int:
    """Drop all bodies but the last `keep`, and all states but the last `states`; facts stay."""
    v = t.release.c.version

    def last_of(count: int) -> int | None:
        return db.scalar(sa.select(v).order_by(v.desc()).offset(max(1, count) - 1).limit(1))

    newest = last_of(min(keep, states))
    if newest is not None:
        db.execute(t.learner.delete().where(t.learner.c.version < newest))
    last = last_of(keep)
    if last is None:
        return 0
    return int(db.execute(t.release.delete().where(v < last)).rowcount)


def release_history(db: sa.Connection, count: int) -> Sequence[ReleaseRow]:
    """Newest first."""
    f = t.release_fact
    kept = sa.exists().where(t.release.c.version == f.c.version).label("kept")
    rows = db.execute(sa.select(f, kept).order_by(f.c.version.desc()).limit(count))
    return [
        ReleaseRow(
            row.version,
            row.step,
            row.devices,
            row.restores,
            _facts(row),
            bool(row.kept),
            bytes(row.staged or b""),
        )
        for row in rows
    ]


def _facts(row: sa.Row[tuple[object, ...]]) -> Facts:
    return Facts(row.made_at, row.items, row.zeros, row.whole_bytes, row.delta_bytes)


def add_quality(db: sa.Connection, quality: Quality, audit: AuditEntry | None = None) -> None:
    """The same metric of the same version is replaced."""
    q = t.quality.c
    same = sa.and_(q.version == quality.version, q.metric == quality.metric)
    db.execute(t.quality.delete().where(same))
    db.execute(
        t.quality.insert().values(
            version=quality.version,
            metric=quality.metric,
            value=quality.value,
            at=quality.at,
            note=quality.note,
        )
    )
    audited(db, audit, None)


def quality(db: sa.Connection, count: int) -> Sequence[Quality]:
    """Newest version first."""
    q = t.quality.c
    rows = db.execute(t.quality.select().order_by(q.version.desc(), q.metric).limit(count))
    return [Quality(row.version, row.metric, row.value, row.at, row.note) for row in rows]
