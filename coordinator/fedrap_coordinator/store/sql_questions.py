"""Questions about quality and their answers, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from fedrap_coordinator.domain.questions import (
    ENDED,
    GivenAnswer,
    QuestionRow,
    QuestionState,
    decide_answer,
)
from fedrap_coordinator.domain.records import AuditEntry
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store import sql_devices
from fedrap_coordinator.store.engine import insert_once
from fedrap_coordinator.store.sql_admin import audited
from fedrap_core.wire.problems import Problem

_OPEN = tuple(state.value for state in QuestionState if state not in ENDED)


def add_question(db: sa.Connection, row: QuestionRow, audit: AuditEntry | None = None) -> bool:
    """Keep a new question; where there is one of that id, nothing happens at all."""
    fresh = insert_once(
        db, t.question, id=row.id, signed=row.signed, seal_id=row.seal_id, asked_at=row.asked_at,
        ends_at=row.ends_at, most=row.most, budget=row.budget, purpose=row.purpose,
        state=row.state.value, answers=row.answers, total=row.total,
    )  # fmt: skip
    return audited(db, audit, True) if fresh else False


def questions(db: sa.Connection, count: int, only_open: bool = False) -> Sequence[QuestionRow]:
    """The newest first."""
    q = t.question.c
    query = t.question.select().order_by(q.asked_at.desc(), q.id).limit(count)
    if only_open:
        query = query.where(q.state.in_(_OPEN))
    return [_row(row) for row in db.execute(query)]


def question(db: sa.Connection, question_id: bytes) -> QuestionRow | None:
    """One of them."""
    row = db.execute(t.question.select().where(t.question.c.id == question_id)).first()
    return None if row is None else _row(row)


def question_keys(db: sa.Connection) -> frozenset[bytes]:
    """The sealing keys that questions name which are not over."""
    q = t.question.c
    return frozenset(
        bytes(key) for key in db.scalars(sa.select(q.seal_id).where(q.state.in_(_OPEN)))
    )


def add_answer(
    db: sa.Connection, question_id: bytes, given: GivenAnswer, now: float, since: float = 0.0
) -> Problem | None:
    """Read with locks, decide, write."""
    q, a = t.question.c, t.answer.c
    locked = t.question.select().where(q.id == question_id).with_for_update()
    found = db.execute(locked).first()
    devices = sql_devices.locked(db, [given.device])
    mine = sa.and_(a.question_id == question_id, a.device_id == given.device)
    before = db.scalar(sa.select(a.digest).where(mine))
    count = (
        sa.select(sa.func.count())
        .join_from(t.answer, t.question, a.question_id == q.id)
        .where(a.device_id == given.device, q.asked_at >= since)
    )
    decision = decide_answer(
        given,
        None if found is None else _row(found),
        devices.get(given.device),
        None if before is None else bytes(before),
        int(db.scalar(count) or 0),
        now,
    )
    if decision.device is not None:
        sql_devices.charge(db, [decision.device])
    if decision.is_new:
        db.execute(
            t.answer.insert().values(
                question_id=question_id,
                device_id=given.device,
                digest=given.digest,
                body=given.body,
            )
        )
        db.execute(t.question.update().where(q.id == question_id).values(answers=q.answers + 1))
    return decision.problem


def open_question(db: sa.Connection, question_id: bytes, signed: bytes) -> bool:
    """False when somebody else opened it."""
    q = t.question.c
    opening = QuestionState.OPENING.value
    moved = t.question.update().where(q.id == question_id, q.state == opening)
    changes = {"state": QuestionState.OPEN.value, "signed": signed}
    return db.execute(moved.values(**changes)).rowcount == 1


def end_question(
    db: sa.Connection,
    question_id: bytes,
    state: QuestionState,
    was: QuestionState,
    total: bytes = b"",
    now: float | None = None,
) -> bool:
    """False when it is not in `was` any more; at its end the sealed answers are destroyed."""
    q = t.question.c
    moved = t.question.update().where(q.id == question_id, q.state == was.value)
    changes: dict[str, Any] = {"state": state.value, "closed_at": now, "total": total}
    if db.execute(moved.values(**changes)).rowcount != 1:
        return False
    if state in ENDED:
        db.execute(t.answer.update().where(t.answer.c.question_id == question_id).values(body=None))
    return True


def note_question(db: sa.Connection, question_id: bytes, purpose: str, was: str) -> bool:
    """False when `was` is not its word any more."""
    q = t.question.c
    moved = t.question.update().where(q.id == question_id, q.purpose == was)
    return db.execute(moved.values(purpose=purpose)).rowcount == 1


def sealed_after(
    db: sa.Connection, question_id: bytes, after: bytes, count: int
) -> Sequence[tuple[bytes, bytes]]:
    """Up to `count` sealed answers of devices beyond `after`, in order of device."""
    a = t.answer.c
    query = (
        sa.select(a.device_id, a.body)
        .where(a.question_id == question_id, a.device_id > after, a.body.is_not(None))
        .order_by(a.device_id)
        .limit(count)
    )
    return [(bytes(row.device_id), bytes(row.body)) for row in db.execute(query)]


def _row(row: Any) -> QuestionRow:
    return QuestionRow(
        bytes(row.id), bytes(row.signed), bytes(row.seal_id), row.asked_at, row.ends_at, row.most,
        row.budget, row.purpose, QuestionState(row.state), row.answers, bytes(row.total),
        row.closed_at,
    )  # fmt: skip
