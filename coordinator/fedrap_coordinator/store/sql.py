"""The store in SQL: SQLAlchemy Core over SQLite (WAL). Every transaction is one method."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from fedrap_coordinator.errors import StoreUnavailable
from fedrap_coordinator.rounds import Phase, Round
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store import sql_items
from fedrap_coordinator.store.protocol import (
    Added,
    CatalogueView,
    Counts,
    DeviceRecord,
    StoredRelease,
)

CHUNK = 64  # sealed bodies read at once
_OVER = (Phase.RELEASED.value, Phase.ABANDONED.value)


def _sqlite_pragmas(connection: Any, _record: Any) -> None:
    """WAL survives a kill -9; without it each write costs ten times as much."""
    connection.isolation_level = None  # SQLAlchemy's begin event below starts transactions
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: sa.Connection) -> None:
    """A transaction that will write takes its lock first, so that none has to start again."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class SqlStore:
    """A store behind a database URL such as `sqlite:///fedrap.sqlite`."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        self._writer = self._engine.execution_options(writes=True)
        self._turn = asyncio.Lock()  # SQLite has one writer; waiting here is cheaper than there

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        async with self._turn, self._writer.begin() as connection:
            yield connection

    async def open(self) -> None:
        try:
            async with self._transaction() as db:
                await db.run_sync(t.metadata.create_all)
                known = await db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == "schema"))
                if known is None:
                    await db.execute(t.meta.insert().values(name="schema", value=b"%d" % t.SCHEMA))
                elif known != b"%d" % t.SCHEMA:
                    raise StoreUnavailable(
                        f"the database has schema {known.decode()}, this program needs {t.SCHEMA}"
                    )
        except DatabaseError as error:
            raise StoreUnavailable(f"the database cannot be opened: {error.orig}") from error

    async def close(self) -> None:
        await self._engine.dispose()

    async def task_id(self, fresh: bytes) -> bytes:
        async with self._transaction() as db:
            known = await db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == "task"))
            if known is None:
                await db.execute(t.meta.insert().values(name="task", value=fresh))
            return fresh if known is None else bytes(known)

    async def add_tokens(self, digests: Sequence[bytes], now: float) -> None:
        if digests:
            async with self._transaction() as db:
                await db.execute(
                    t.token.insert(), [{"digest": digest, "made_at": now} for digest in digests]
                )

    async def enrol(self, token: bytes, device: bytes, public_key: bytes, now: float) -> bool:
        async with self._transaction() as db:
            used = await db.execute(
                t.token.update()
                .where(t.token.c.digest == token, t.token.c.used_at.is_(None))
                .values(used_at=now)
            )
            if used.rowcount != 1:
                return False
            await db.execute(
                t.device.insert().values(id=device, public_key=public_key, enrolled_at=now)
            )
            return True

    async def device(self, device: bytes) -> DeviceRecord | None:
        async with self._engine.connect() as db:
            row = (await db.execute(t.device.select().where(t.device.c.id == device))).first()
        if row is None:
            return None
        return DeviceRecord(row.id, row.public_key, row.participations, row.last_step)

    async def use_nonce(self, device: bytes, nonce: int) -> bool:
        async with self._transaction() as db:
            raised = await db.execute(
                t.device.update()
                .where(t.device.c.id == device, t.device.c.last_nonce < nonce)
                .values(last_nonce=nonce)
            )
            return raised.rowcount == 1

    async def open_round(self, round_: Round, plan: bytes) -> None:
        async with self._transaction() as db:
            await db.execute(
                t.round_.insert().values(
                    id=round_.id,
                    step=round_.step,
                    release=round_.release,
                    phase=round_.phase.value,
                    plan=plan,
                    opened_at=round_.opened_at,
                )
            )

    async def current_round(self) -> tuple[Round, bytes] | None:
        async with self._engine.connect() as db:
            query = t.round_.select().where(t.round_.c.phase.not_in(_OVER))
            row = (await db.execute(query)).first()
            if row is None:
                return None
            assigned = await _count(db, t.assignment, t.assignment.c.round_id == row.id)
            accepted = await _count(db, t.update, t.update.c.round_id == row.id)
        phase = Phase(row.phase)
        round_ = Round(row.id, row.step, row.release, row.opened_at, phase, assigned, accepted)
        return round_, row.plan

    async def set_phase(self, round_id: bytes, phase: Phase) -> None:
        async with self._transaction() as db:
            await db.execute(
                t.round_.update().where(t.round_.c.id == round_id).values(phase=phase.value)
            )
            if phase is Phase.ABANDONED:
                await _destroy_bodies(db, round_id)

    async def round_phase(self, round_id: bytes) -> Phase | None:
        async with self._engine.connect() as db:
            found = await db.scalar(sa.select(t.round_.c.phase).where(t.round_.c.id == round_id))
        return None if found is None else Phase(found)

    async def assign(
        self, round_id: bytes, device: bytes, step: int, separation: int, cap: int
    ) -> bool | None:
        last, count = t.device.c.last_step, t.device.c.participations
        async with self._transaction() as db:
            if await _count(db, t.assignment, *_mine(t.assignment, round_id, device)):
                return None
            fresh = sa.or_(last.is_(None), last != step)
            charged = await db.execute(
                t.device.update()
                .where(
                    t.device.c.id == device,
                    sa.or_(
                        last == step,
                        sa.and_(count < cap, sa.or_(last.is_(None), last <= step - separation)),
                    ),
                )
                .values(participations=count + sa.case((fresh, 1), else_=0), last_step=step)
            )
            if charged.rowcount != 1:
                return False
            await db.execute(t.assignment.insert().values(round_id=round_id, device_id=device))
            return True

    async def is_assigned(self, round_id: bytes, device: bytes) -> bool:
        async with self._engine.connect() as db:
            return bool(await _count(db, t.assignment, *_mine(t.assignment, round_id, device)))

    async def add_update(
        self, round_id: bytes, device: bytes, digest: bytes, body: bytes, now: float
    ) -> Added:
        try:
            async with self._transaction() as db:
                await db.execute(
                    t.update.insert().values(
                        round_id=round_id,
                        device_id=device,
                        digest=digest,
                        body=body,
                        received_at=now,
                    )
                )
                return Added.STORED
        except IntegrityError:
            known = await self.update_digest(round_id, device)
            return Added.DUPLICATE if known == digest else Added.CONFLICT

    async def update_digest(self, round_id: bytes, device: bytes) -> bytes | None:
        query = sa.select(t.update.c.digest).where(*_mine(t.update, round_id, device))
        async with self._engine.connect() as db:
            digest = await db.scalar(query)
        return None if digest is None else bytes(digest)

    async def sealed_updates(self, round_id: bytes) -> AsyncIterator[Sequence[bytes]]:
        after = b""
        while True:
            query = (
                sa.select(t.update.c.device_id, t.update.c.body)
                .where(t.update.c.round_id == round_id, t.update.c.device_id > after)
                .order_by(t.update.c.device_id)
                .limit(CHUNK)
            )
            async with self._engine.connect() as db:
                rows = (await db.execute(query)).all()
            if not rows:
                return
            after = rows[-1].device_id
            yield [row.body for row in rows]

    async def add_release(self, release: StoredRelease, round_id: bytes | None) -> None:
        async with self._transaction() as db:
            await db.execute(
                t.release.insert().values(
                    version=release.version,
                    step=release.step,
                    devices=release.devices,
                    body=release.body,
                    gram=release.gram,
                )
            )
            if round_id is not None:
                await db.execute(
                    t.round_.update()
                    .where(t.round_.c.id == round_id)
                    .values(phase=Phase.RELEASED.value)
                )
                await _destroy_bodies(db, round_id)

    async def release(self, version: int | None) -> StoredRelease | None:
        query = t.release.select().order_by(t.release.c.version.desc()).limit(1)
        if version is not None:
            query = query.where(t.release.c.version == version)
        async with self._engine.connect() as db:
            row = (await db.execute(query)).first()
        if row is None:
            return None
        return StoredRelease(row.version, row.step, row.devices, row.body, row.gram)

    async def add_items(self, items: Sequence[str]) -> int:
        async with self._transaction() as db:
            return await sql_items.add(db, items)

    async def retire_items(self, items: Sequence[str]) -> int:
        async with self._transaction() as db:
            return await sql_items.retire(db, items)

    async def catalogue(self, start: int) -> CatalogueView:
        async with self._engine.connect() as db:
            return await sql_items.view(db, start)

    async def counts(self) -> Counts:
        async with self._engine.connect() as db:
            return Counts(
                devices=await _count(db, t.device),
                tokens=await _count(db, t.token, t.token.c.used_at.is_(None)),
                items=await _count(db, t.item),
                releases=await _count(db, t.release),
            )


def _engine(url: str) -> AsyncEngine:
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        raise StoreUnavailable(f"{parsed.get_backend_name()} is not supported yet; use sqlite:///…")
    engine = create_async_engine(parsed.set(drivername="sqlite+aiosqlite"))
    sa.event.listen(engine.sync_engine, "connect", _sqlite_pragmas)
    sa.event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _mine(table: sa.Table, round_id: bytes, device: bytes) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.round_id == round_id, table.c.device_id == device


async def _count(db: AsyncConnection, table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
    return int(await db.scalar(sa.select(sa.func.count()).select_from(table).where(*where)) or 0)


async def _destroy_bodies(db: AsyncConnection, round_id: bytes) -> None:
    await db.execute(t.update.update().where(t.update.c.round_id == round_id).values(body=None))
