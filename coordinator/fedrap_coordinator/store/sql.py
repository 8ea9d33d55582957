"""The store in SQL: SQLAlchemy Core over SQLite and PostgreSQL. Every method is one transaction.

A transaction runs whole in a worker thread, one hop each; an async driver would hop for every
statement, which was measured to cost more than the statements.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from fedrap_coordinator.errors import StoreUnavailable
from fedrap_coordinator.rounds import Phase, Round
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store import sql_devices, sql_items, sql_releases, sql_rounds
from fedrap_coordinator.store.engine import CONNECTIONS, open_engine
from fedrap_coordinator.store.insert_once import insert_once
from fedrap_coordinator.store.migrations import open_schema
from fedrap_coordinator.store.protocol import (
    Added,
    CatalogueView,
    Charge,
    Counts,
    Extent,
    RoundRow,
    StoredRelease,
)
from fedrap_coordinator.store.sql_operator_store import SqlOperator

CHUNK = 64  # sealed bodies read at once
MANY = 4096  # rows without a body
T = TypeVar("T")


class SqlStore(SqlOperator):
    """A store behind a URL such as `sqlite:///fedrap.sqlite` or `postgresql://host/fedrap`."""

    def __init__(self, url: str) -> None:
        self._engine = open_engine(url)
        # SQLite has one writer, so it gets one thread; waiting for that thread is the only lock.
        threads = 1 if self._engine.dialect.name == "sqlite" else CONNECTIONS
        self._thread = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="fedrap-store")

    async def _run(self, body: Callable[..., T], *arguments: object) -> T:
        """Run `body(connection, *arguments)` as one transaction."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(self._transact, body, arguments))

    def _transact(self, body: Callable[..., T], arguments: tuple[object, ...]) -> T:
        with self._engine.begin() as db:
            return body(db, *arguments)

    async def open(self) -> None:
        try:
            await self._run(open_schema)
        except DBAPIError as error:
            said = str(error.orig).strip().splitlines() or ["no reason given"]
            raise StoreUnavailable(f"the database cannot be opened: {said[0]}") from error

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.dispose)
        self._thread.shutdown()

    async def task_id(self, fresh: bytes) -> bytes:
        return await self._run(_task_id, fresh)

    async def open_round(self, round_: Round, plan: bytes) -> None:
        await self._run(sql_rounds.open_round, round_, plan)

    async def current_round(self) -> tuple[Round, bytes] | None:
        return await self._run(sql_rounds.current_round)

    async def set_phase(self, round_id: bytes, phase: Phase, now: float | None = None) -> None:
        await self._run(sql_rounds.set_phase, round_id, phase, now)

    async def round_phase(self, round_id: bytes) -> Phase | None:
        return await self._run(sql_rounds.round_phase, round_id)

    async def assign(
        self,
        round_id: bytes,
        device: bytes,
        step: int,
        separation: int,
        cap: int,
        now: float = 0.0,
    ) -> bool | None:
        return await self._run(sql_devices.assign, round_id, device, step, separation, cap, now)

    async def rounds(self, count: int) -> Sequence[RoundRow]:
        return await self._run(sql_rounds.rounds, count)

    async def charges(self, round_id: bytes) -> AsyncIterator[Sequence[Charge]]:
        after = b""
        while rows := await self._run(sql_rounds.charges_after, round_id, after, MANY):
            after = rows[-1].device
            yield rows

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
        return await self._run(sql_releases.find_release, version)

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


def _task_id(db: sa.Connection, fresh: bytes) -> bytes:
    insert_once(db, t.meta, name="task", value=fresh)
    kept = db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == "task"))
    return bytes(kept or fresh)


def _counts(db: sa.Connection) -> Counts:
    def of(table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
        return int(db.scalar(sa.select(sa.func.count()).select_from(table).where(*where)) or 0)

    return Counts(
        devices=of(t.device),
        tokens=of(t.token, t.token.c.used_at.is_(None)),
        items=of(t.item),
        releases=of(t.release_fact),
    )
