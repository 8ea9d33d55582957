"""The store in SQL: SQLAlchemy Core over SQLite and PostgreSQL. Every method is one transaction.

A transaction runs whole in a worker thread, one hop each; an async driver would hop for every
statement, which was measured to cost more than the statements.

The methods of `SqlStore` for operators.

The methods of `SqlStore` for devices, issuers, people with rights and the audit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from fedrap_coordinator.domain.decisions import (
    RoundCounts,
    Rule,
    SlotRequest,
    SlotResult,
    Submission,
    SubmissionResult,
)
from fedrap_coordinator.domain.fault_points import Reached, pass_by
from fedrap_coordinator.domain.records import (
    AT_ONCE,
    AdminRecord,
    Attribute,
    AuditEntry,
    AuditRow,
    CataloguePage,
    Charge,
    Counts,
    DeviceRecord,
    DeviceStates,
    EnrolmentOutcome,
    Extent,
    Imported,
    Issuer,
    ItemRow,
    NewItem,
    Quality,
    ReleaseRow,
    RoundRow,
    StoredRelease,
    Terms,
    Ticket,
)
from fedrap_coordinator.domain.rounds import Phase, Round
from fedrap_coordinator.errors import StoreGone, StoreUnavailable
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store import sql_admin, sql_devices, sql_items, sql_releases, sql_rounds
from fedrap_coordinator.store.engine import CONNECTIONS, READS, insert_once, open_engine
from fedrap_coordinator.store.migrations import open_schema

T = TypeVar("T")


class SqlIdentity:
    """One transaction each; `_run` is the store's."""

    async def _run(self, body: Callable[..., T], *arguments: object) -> T:
        raise NotImplementedError

    async def _look(self, body: Callable[..., T], *arguments: object) -> T:
        raise NotImplementedError

    async def _audited(
        self, audit: AuditEntry | None, body: Callable[..., T], *arguments: object
    ) -> T:
        """`body` and the audit's row in one transaction."""

        def both(db: sa.Connection) -> T:
            answer = body(db, *arguments)
            if audit is not None:
                outcome = "refused" if answer is False else audit.outcome
                sql_admin.write_audit(db, replace(audit, outcome=outcome))
            return answer

        return await self._run(both)

    async def add_tokens(
        self, digests: Sequence[bytes], now: float, audit: AuditEntry | None = None
    ) -> None:
        await self._audited(audit, sql_devices.add_tokens, digests, now)

    async def enrol(
        self, token: bytes, device: bytes, public_key: bytes, now: float, terms: Terms = AT_ONCE
    ) -> bool:
        return await self._run(sql_devices.enrol, token, device, public_key, now, terms)

    async def enrol_signed(
        self, ticket: Ticket, device: bytes, public_key: bytes, now: float, terms: Terms = AT_ONCE
    ) -> EnrolmentOutcome:
        return await self._run(sql_devices.enrol_signed, ticket, device, public_key, now, terms)

    async def device(self, device: bytes) -> DeviceRecord | None:
        return await self._look(sql_devices.find, device)

    async def devices(self, after: bytes, count: int) -> Sequence[DeviceRecord]:
        return await self._look(sql_devices.after, after, count)

    async def renew_device(self, device: bytes, valid_until: float, level: str) -> None:
        await self._run(sql_devices.renew, device, valid_until, level)

    async def revoke_device(
        self, device: bytes, now: float, audit: AuditEntry | None = None
    ) -> bool:
        return await self._audited(audit, sql_devices.revoke, device, now)

    async def device_keys(self, devices: Sequence[bytes]) -> Sequence[bytes | None]:
        return await self._look(sql_devices.keys, devices)

    async def use_nonce(self, device: bytes, nonce: int) -> bool:
        return await self._run(sql_devices.use_nonce, device, nonce)

    async def forget_device(self, device: bytes) -> None:
        await self._run(sql_devices.forget, device)

    async def add_issuer(self, issuer: Issuer, audit: AuditEntry | None = None) -> bool:
        return await self._audited(audit, sql_admin.add_issuer, issuer)

    async def remove_issuer(self, name: str, audit: AuditEntry | None = None) -> bool:
        return await self._audited(audit, sql_admin.remove_issuer, name)

    async def issuers(self) -> Sequence[Issuer]:
        return await self._look(sql_admin.issuers)

    async def add_admin(
        self, admin: AdminRecord, digest: bytes, audit: AuditEntry | None = None
    ) -> bool:
        return await self._audited(audit, sql_admin.add_admin, admin, digest)

    async def remove_admin(self, name: str, audit: AuditEntry | None = None) -> bool:
        return await self._audited(audit, sql_admin.remove_admin, name)

    async def admins(self) -> Sequence[AdminRecord]:
        return await self._look(sql_admin.admins)

    async def admin_of(self, digest: bytes) -> AdminRecord | None:
        return await self._look(sql_admin.admin_of, digest)

    async def write_audit(self, entry: AuditEntry) -> None:
        await self._run(sql_admin.write_audit, entry)

    async def audit_rows(self, after: int, count: int) -> Sequence[AuditRow]:
        return await self._look(sql_admin.audit_rows, after, count)


class SqlOperator(SqlIdentity):
    """One transaction each; `_run` is the store's."""

    async def roll_back(self, release: StoredRelease, audit: AuditEntry | None = None) -> None:
        await self._audited(audit, sql_releases.roll_back, release)

    async def prune_releases(self, keep: int) -> int:
        return await self._run(sql_releases.prune, keep)

    async def release_history(self, count: int) -> Sequence[ReleaseRow]:
        return await self._look(sql_releases.history, count)

    async def import_items(
        self, items: Sequence[NewItem], audit: AuditEntry | None = None
    ) -> Imported:
        return await self._audited(audit, sql_items.import_items, items)

    async def alike(self, start: int) -> Sequence[Attribute]:
        return await self._look(sql_items.alike, start)

    async def items(self, start: int, count: int, search: str = "") -> Sequence[ItemRow]:
        return await self._look(sql_items.find, start, count, search)

    async def categories(self, count: int) -> Sequence[tuple[str, int]]:
        return await self._look(sql_items.categories, count)

    async def add_refusals(self, round_id: bytes, counts: Mapping[str, int]) -> None:
        await self._run(sql_admin.add_refusals, round_id, counts)

    async def refusals(self, rounds: int) -> Mapping[bytes, Mapping[str, int]]:
        return await self._look(sql_admin.refusals, rounds)

    async def device_states(self, step: int, separation: int, cap: int, now: float) -> DeviceStates:
        return await self._look(sql_admin.device_states, step, separation, cap, now)

    async def add_quality(self, quality: Quality, audit: AuditEntry | None = None) -> None:
        await self._audited(audit, sql_releases.add_quality, quality)

    async def quality(self, count: int) -> Sequence[Quality]:
        return await self._look(sql_releases.find_quality, count)

    async def secret(self, name: str, fresh: bytes) -> bytes:
        return await self._run(_secret, name, fresh)


def _secret(db: sa.Connection, name: str, fresh: bytes) -> bytes:
    insert_once(db, t.meta, name=name, value=fresh)
    kept = db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == name))
    return bytes(kept or fresh)


CHUNK = 64  # sealed bodies read at once
MANY = 4096  # rows without a body
_STEPPING = 0x66656474  # of PostgreSQL: one process at a time ends and opens rounds


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

    async def assign_slots(
        self, round_id: bytes, asks: Sequence[SlotRequest], rule: Rule, now: float
    ) -> tuple[Sequence[SlotResult], RoundCounts]:
        return await self._run(sql_rounds.assign_slots, round_id, asks, rule, now)

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
        self, round_id: bytes, sent: Sequence[Submission], most: int, now: float
    ) -> tuple[Sequence[SubmissionResult], RoundCounts]:
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

    async def catalogue(self, start: int) -> CataloguePage:
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
