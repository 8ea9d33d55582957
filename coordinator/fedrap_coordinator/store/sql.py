"""The store in SQL: SQLAlchemy Core over SQLite (WAL). Every method is one transaction.

A transaction runs whole in a worker thread, one hop each; an async driver would hop for every
statement, which was measured to cost more than the statements. SQLite has one writer, so it gets
one thread, and waiting for that thread is the only lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DatabaseError

from fedrap_coordinator.errors import StoreUnavailable
from fedrap_coordinator.rounds import Phase, Round
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store import sql_devices, sql_items, sql_rounds
from fedrap_coordinator.store.protocol import (
    Added,
    CatalogueView,
    Counts,
    DeviceRecord,
    Extent,
    StoredRelease,
)

CHUNK = 64  # sealed bodies read at once
T = TypeVar("T")


class SqlStore:
    """A store behind a database URL such as `sqlite:///fedrap.sqlite`."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fedrap-store")

    async def _run(self, body: Callable[..., T], *arguments: object) -> T:
        """Run `body(connection, *arguments)` as one transaction."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(self._transact, body, arguments))

    def _transact(self, body: Callable[..., T], arguments: tuple[object, ...]) -> T:
        with self._engine.begin() as db:
            return body(db, *arguments)

    async def open(self) -> None:
        try:
            await self._run(_open_schema)
        except DatabaseError as error:
            raise StoreUnavailable(f"the database cannot be opened: {error.orig}") from error

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.dispose)
        self._thread.shutdown()

    async def task_id(self, fresh: bytes) -> bytes:
        return await self._run(_task_id, fresh)

    async def add_tokens(self, digests: Sequence[bytes], now: float) -> None:
        await self._run(sql_devices.add_tokens, digests, now)

    async def enrol(self, token: bytes, device: bytes, public_key: bytes, now: float) -> bool:
        return await self._run(sql_devices.enrol, token, device, public_key, now)

    async def device(self, device: bytes) -> DeviceRecord | None:
        return await self._run(sql_devices.find, device)

    async def use_nonce(self, device: bytes, nonce: int) -> bool:
        return await self._run(sql_devices.use_nonce, device, nonce)

    async def forget_device(self, device: bytes) -> None:
        await self._run(sql_devices.forget, device)

    async def open_round(self, round_: Round, plan: bytes) -> None:
        await self._run(sql_rounds.open_round, round_, plan)

    async def current_round(self) -> tuple[Round, bytes] | None:
        return await self._run(sql_rounds.current_round)

    async def set_phase(self, round_id: bytes, phase: Phase) -> None:
        await self._run(sql_rounds.set_phase, round_id, phase)

    async def round_phase(self, round_id: bytes) -> Phase | None:
        return await self._run(sql_rounds.round_phase, round_id)

    async def assign(
        self, round_id: bytes, device: bytes, step: int, separation: int, cap: int
    ) -> bool | None:
        return await self._run(sql_devices.assign, round_id, device, step, separation, cap)

    async def is_assigned(self, round_id: bytes, device: bytes) -> bool:
        return await self._run(sql_devices.is_assigned, round_id, device)

    async def add_update(
        self, round_id: bytes, device: bytes, digest: bytes, body: bytes, now: float
    ) -> Added:
        return await self._run(sql_rounds.add_update, round_id, device, digest, body, now)

    async def update_digest(self, round_id: bytes, device: bytes) -> bytes | None:
        return await self._run(sql_rounds.update_digest, round_id, device)

    async def sealed_updates(self, round_id: bytes) -> AsyncIterator[Sequence[bytes]]:
        after = b""
        while rows := await self._run(sql_rounds.sealed_after, round_id, after, CHUNK):
            after = rows[-1][0]
            yield [body for _, body in rows]

    async def add_release(self, release: StoredRelease, round_id: bytes | None) -> None:
        await self._run(sql_rounds.add_release, release, round_id)

    async def release(self, version: int | None) -> StoredRelease | None:
        return await self._run(sql_rounds.find_release, version)

    async def add_items(self, items: Sequence[str]) -> int:
        return await self._run(sql_items.add, items)

    async def retire_items(self, items: Sequence[str]) -> int:
        return await self._run(sql_items.retire, items)

    async def catalogue(self, start: int) -> CatalogueView:
        return await self._run(sql_items.view, start)

    async def extent(self) -> Extent:
        return await self._run(sql_items.extent)

    async def counts(self) -> Counts:
        return await self._run(_counts)


def _engine(url: str) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
    except ArgumentError as error:
        raise StoreUnavailable("the database must be a URL such as sqlite:///…") from error
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise StoreUnavailable(f"{parsed.drivername} is not supported yet; use sqlite:///…")
    engine = sa.create_engine(parsed)
    sa.event.listen(engine, "connect", _sqlite_pragmas)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _sqlite_pragmas(connection: Any, _record: Any) -> None:
    """WAL survives a kill -9, and without it each write costs ten times as much."""
    connection.isolation_level = None  # the begin event below starts transactions
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: sa.Connection) -> None:
    """Take the write lock first, so that no transaction has to start again half-way."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _open_schema(db: sa.Connection) -> None:
    t.metadata.create_all(db)
    known = db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == "schema"))
    if known is None:
        db.execute(t.meta.insert().values(name="schema", value=b"%d" % t.SCHEMA))
    elif known != b"%d" % t.SCHEMA:
        found = known.decode("ascii", "replace")
        raise StoreUnavailable(f"the database has schema {found}, this program needs {t.SCHEMA}")


def _task_id(db: sa.Connection, fresh: bytes) -> bytes:
    known = db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == "task"))
    if known is None:
        db.execute(t.meta.insert().values(name="task", value=fresh))
    return fresh if known is None else bytes(known)


def _counts(db: sa.Connection) -> Counts:
    def of(table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
        return int(db.scalar(sa.select(sa.func.count()).select_from(table).where(*where)) or 0)

    return Counts(
        devices=of(t.device),
        tokens=of(t.token, t.token.c.used_at.is_(None)),
        items=of(t.item),
        releases=of(t.release),
    )
