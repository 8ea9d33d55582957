"""The store in SQL: SQLAlchemy Core over SQLite and PostgreSQL. Every method is one transaction.

A transaction runs whole in a worker thread, one hop each; an async driver would hop for every
statement, which was measured to cost more than the statements.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from fedrap_coordinator.errors import StoreGone, StoreUnavailable
from fedrap_coordinator.faults import Reached, pass_by
from fedrap_coordinator.rounds import Phase, Round
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store import sql_devices, sql_items, sql_releases, sql_rounds
from fedrap_coordinator.store.batches import Added, Ask, Place, Rule, Sent, Tally
from fedrap_coordinator.store.engine import CONNECTIONS, READS, open_engine
from fedrap_coordinator.store.insert_once import insert_once
from fedrap_coordinator.store.migrations import open_schema
from fedrap_coordinator.store.protocol import (
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
_STEPPING = 0x66656474  # of PostgreSQL: one process at a time ends and opens rounds
T = TypeVar("T")


class SqlStore(SqlOperator):
    """A store behind a URL such as `sqlite:///fedrap.sqlite` or `postgresql://host/fedrap`."""

    def __init__(self, url: str, reached: Reached = pass_by) -> None:
        self._engine = open_engine(url)
        self._reached = reached
        sqlite = self._engine.dialect.name == "sqlite"
        # SQLite has one writer, so it gets one thread; waiting for that thread is the only lock.
        # Its readers see what was committed and wait for nobody; there are two, so that a pass
        # over a whole table keeps no device waiting.
        threads = 1 if sqlite else CONNECTIONS
        self._writers = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="fedrap-store")
        self._readers = self._writers
        if sqlite:
            self._readers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="fedrap-reads")
        self._reading = self._engine.execution_options(**{READS: True})

    async def _run(self, body: Callable[..., T], *arguments: object) -> T:
        """Run `body(connection, *arguments)` as one transaction."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writers, partial(self._transact, body, arguments))

    async def _look(self, body: Callable[..., T], *arguments: object) -> T:
        """Like `_run`, for a body that writes nothing."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, partial(self._read, body, arguments))

    def _transact(self, body: Callable[..., T], arguments: tuple[object, ...]) -> T:
        for last in (False, False, True):
            try:
                with self._engine.begin() as db:
                    answer = body(db, *arguments)
                    self._reached(f"{body.__name__}: written")
                self._reached(f"{body.__name__}: committed")
                return answer
            except DBAPIError as error:
                if last or not _may_succeed_now(error):
                    raise _gone(error) from error
        raise AssertionError("unreachable")

    def _read(self, body: Callable[..., T], arguments: tuple[object, ...]) -> T:
        try:
            with self._reading.begin() as db:
                return body(db, *arguments)
        except DBAPIError as error:
            raise _gone(error) from error

    async def open(self) -> None:
        try:
            await self._run(open_schema)
        except DBAPIError as error:
            raise StoreUnavailable(f"the database cannot be opened: {_said(error)}") from error
        except StoreGone as error:
            raise StoreUnavailable(f"the database cannot be opened: {error}") from error

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._writers, self._engine.dispose)
        self._readers.shutdown()
        self._writers.shutdown()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        if self._engine.dialect.name != "postgresql":
            yield True  # one process has the file
            return
        loop = asyncio.get_running_loop()
        held = await loop.run_in_executor(self._writers, self._take)
        try:
            yield held is not None
        finally:
            if held is not None:
                await loop.run_in_executor(self._writers, _give_back, held)

    def _take(self) -> sa.Connection | None:
        """A session that holds the lock; it ends with the connection, so with the process too."""
        try:
            db = self._engine.connect()
            try:
                if db.scalar(sa.select(sa.func.pg_try_advisory_lock(_STEPPING))):
                    db.commit()
                    return db
            except BaseException:
                db.close()
                raise
            db.close()
            return None
        except DBAPIError as error:
            raise _gone(error) from error

    async def task_id(self, fresh: bytes) -> bytes:
        return await self._run(_task_id, fresh)

    async def open_round(self, round_: Round, plan: bytes) -> bool:
        return await self._run(sql_rounds.open_round, round_, plan)

    async def current_round(self) -> tuple[Round, bytes] | None:
        return await self._look(sql_rounds.current_round)

    async def set_phase(
        self, round_id: bytes, phase: Phase, was: Phase | None = None, now: float | None = None
    ) -> bool:
        return await self._run(sql_rounds.set_phase, round_id, phase, was, now)

    async def round_phase(self, round_id: bytes) -> Phase | None:
        return await self._look(sql_rounds.round_phase, round_id)

    async def give_places(
        self, round_id: bytes, asks: Sequence[Ask], rule: Rule, now: float
    ) -> tuple[Sequence[Place], Tally]:
        return await self._run(sql_rounds.give_places, round_id, asks, rule, now)

    async def rounds(self, count: int) -> Sequence[RoundRow]:
        return await self._look(sql_rounds.rounds, count)

    async def charges(self, round_id: bytes) -> AsyncIterator[Sequence[Charge]]:
        after = b""
        while rows := await self._look(sql_rounds.charges_after, round_id, after, MANY):
            after = rows[-1].device
            yield rows

    async def is_assigned(self, round_id: bytes, device: bytes) -> bool:
        return await self._look(sql_devices.is_assigned, round_id, device)

    async def add_updates(
        self, round_id: bytes, sent: Sequence[Sent], most: int, now: float
    ) -> tuple[Sequence[Added], Tally]:
        return await self._run(sql_rounds.add_updates, round_id, sent, most, now)

    async def update_digest(self, round_id: bytes, device: bytes) -> bytes | None:
        return await self._look(sql_rounds.update_digest, round_id, device)

    async def sealed_updates(self, round_id: bytes) -> AsyncIterator[Sequence[bytes]]:
        after = b""
        while rows := await self._look(sql_rounds.sealed_after, round_id, after, CHUNK):
            after = rows[-1][0]
            yield [body for _, body in rows]

    async def add_release(self, release: StoredRelease, round_id: bytes | None) -> None:
        await self._run(sql_rounds.add_release, release, round_id)

    async def release(self, version: int | None) -> StoredRelease | None:
        return await self._look(sql_releases.find_release, version)

    async def latest_version(self) -> int | None:
        return await self._look(sql_releases.latest_version)

    async def add_items(self, items: Sequence[str]) -> int:
        return await self._run(sql_items.add, items)

    async def retire_items(self, items: Sequence[str]) -> int:
        return await self._run(sql_items.retire, items)

    async def catalogue(self, start: int) -> CatalogueView:
        return await self._look(sql_items.view, start)

    async def extent(self) -> Extent:
        return await self._look(sql_items.extent)

    async def counts(self) -> Counts:
        return await self._look(_counts)


def _give_back(db: sa.Connection) -> None:
    """Free the lock; a connection that is gone has freed it."""
    try:
        with db:
            db.execute(sa.select(sa.func.pg_advisory_unlock(_STEPPING)))
            db.commit()
    except DBAPIError:
        db.invalidate()


def _may_succeed_now(error: DBAPIError) -> bool:
    """Two transactions met, and the database chose this one to start again."""
    return getattr(error.orig, "sqlstate", None) in ("40001", "40P01")


def _gone(error: DBAPIError) -> Exception:
    """The error of a database that does not serve now; others are our own faults."""
    if isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated:
        return StoreGone(_said(error))
    return error


def _said(error: DBAPIError) -> str:
    return (str(error.orig).strip().splitlines() or ["no reason given"])[0]


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
