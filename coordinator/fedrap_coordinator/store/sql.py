"""The store in SQL: SQLAlchemy Core over SQLite and PostgreSQL. Every verb is one transaction.

A transaction runs whole in a worker thread, one hop each; an async driver would hop for every
statement, which was measured to cost more than the statements. The bodies of the verbs are
functions of a connection, in the modules sql_*.py; this one has the threads and the errors.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from fedrap_coordinator.domain.fault_points import Reached, pass_by
from fedrap_coordinator.domain.records import AuditEntry, Charge, Counts
from fedrap_coordinator.errors import StoreGone, StoreUnavailable
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store import (
    sql_admin,
    sql_devices,
    sql_items,
    sql_questions,
    sql_releases,
    sql_rollouts,
    sql_rounds,
)
from fedrap_coordinator.store.engine import (
    CONNECTIONS,
    READS,
    give_back,
    insert_once,
    open_engine,
)
from fedrap_coordinator.store.migrations import open_schema
from fedrap_coordinator.store.task_tables import lock_of, of_task

CHUNK = 64  # sealed bodies read at once
MANY = 4096  # rows without a body
_STEPPING = 0x66656474  # of PostgreSQL: one process at a time ends and opens rounds
T = TypeVar("T")
P = ParamSpec("P")
Body: TypeAlias = Callable[Concatenate[sa.Connection, P], T]
Verb: TypeAlias = Callable[Concatenate["SqlStore", P], Awaitable[T]]


def transaction(body: Body[P, T]) -> Verb[P, T]:
    """A verb of the store that runs `body` as one transaction, in a worker thread."""

    def verb(store: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return store.transact(body, *args, **kwargs)

    return verb


def reading(body: Body[P, T]) -> Verb[P, T]:
    """Like `transaction`, for a body that writes nothing."""

    def verb(store: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return store.read(body, *args, **kwargs)

    return verb


def _task_id(db: sa.Connection, fresh: bytes) -> bytes:
    return _secret(db, "task", fresh)


def _policy(db: sa.Connection, fresh: bytes | None = None) -> bytes | None:
    if fresh is not None:
        insert_once(db, t.meta, name="policy", value=fresh)
    kept = db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == "policy"))
    return None if kept is None else bytes(kept)


def _change_policy(
    db: sa.Connection, policy: bytes, *, was: bytes, audit: AuditEntry | None = None
) -> bool:
    m = t.meta.c
    changed = db.execute(
        t.meta.update().where(m.name == "policy", m.value == was).values(value=policy)
    )
    return sql_admin.audited(db, audit, changed.rowcount == 1)


def _adopted(db: sa.Connection) -> bytes | None:
    kept = db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == "adopted"))
    return None if kept is None else bytes(kept)


def _adopt(db: sa.Connection, scalars: bytes, audit: AuditEntry | None = None) -> None:
    insert_once(db, t.meta, name="adopted", value=scalars)
    db.execute(t.meta.update().where(t.meta.c.name == "adopted").values(value=scalars))
    sql_admin.audited(db, audit, None)


def _secret(db: sa.Connection, name: str, fresh: bytes) -> bytes:
    insert_once(db, t.meta, name=name, value=fresh)
    kept = db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == name))
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


log = logging.getLogger(__name__)
E = TypeVar("E", bound=Exception | None)
Kind = Literal["read", "write"]
Observed = Callable[[Kind, float], None]  # a transaction took so many seconds, its wait included


def _seen_by_nobody(kind: Kind, seconds: float) -> None:
    pass


_PROBE = "probe"


def _probe(db: sa.Connection) -> None:
    """As much as an update takes: a disk that is nearly full has room for a few bytes."""
    db.execute(t.meta.insert().values(name=_PROBE, value=bytes(65536)))
    db.execute(t.meta.delete().where(t.meta.c.name == _PROBE))


class _Database:
    """Connections and the threads that use them; of SQLite all stores of a process share one."""

    def __init__(self, url: str) -> None:
        self.url, self.engine = url, open_engine(url)
        sqlite = self.engine.dialect.name == "sqlite"
        # SQLite has one writer, so it gets one thread; waiting for that thread is the only lock.
        # Its readers see what was committed and wait for nobody; there are two, so that a pass
        # over a whole table keeps no device waiting.
        threads = 1 if sqlite else CONNECTIONS
        self.writers = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="fedrap-store")
        self.readers = self.writers
        if sqlite:
            self.readers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="fedrap-reads")
        self._users, self._turn = 0, threading.Lock()

    def beside(self) -> _Database:
        """For another task of this process: its writes wait in the same line where there is one."""
        return self if self.engine.dialect.name == "sqlite" else _Database(self.url)

    def enter(self) -> None:
        """Somebody uses it."""
        with self._turn:
            self._users += 1

    def leave(self) -> None:
        """And no more. A connection in use is not closed by `dispose`, so all threads end first."""
        with self._turn:
            self._users -= 1
            if self._users > 0:
                return
        self.readers.shutdown()
        self.writers.shutdown()
        self.engine.dispose()


class SqlStore:
    """A store behind a URL such as `sqlite:///fedrap.sqlite` or `postgresql://host/fedrap`.

    A database has one for each task in it; each sees the tables of its own.
    """

    def __init__(
        self,
        url: str | _Database,
        reached: Reached = pass_by,
        observed: Observed = _seen_by_nobody,
        *,
        task: str = "",
    ) -> None:
        self._database = _Database(url) if isinstance(url, str) else url
        self._database.enter()
        self._engine = of_task(self._database.engine, task)
        self._writers, self._readers = self._database.writers, self._database.readers
        self._reached = reached
        self._observed = observed
        self.serves, self.trouble = True, ""
        self._turn = threading.Lock()  # of whoever changes `serves`
        self._reading = self._engine.execution_options(**{READS: True})

    def beside(self, task: str, observed: Observed = _seen_by_nobody) -> SqlStore:
        """The store of another task in the same database."""
        return SqlStore(self._database.beside(), self._reached, observed, task=task)

    def transact(self, body: Body[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Run `body(connection, ...)` as one transaction."""
        return self._run(self._writers, "write", lambda: self._transact(body, *args, **kwargs))

    def read(self, body: Body[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Like `transact`, for a body that writes nothing."""
        return self._run(self._readers, "read", lambda: self._read(body, *args, **kwargs))

    def _run(
        self, threads: ThreadPoolExecutor, kind: Kind, work: Callable[[], T]
    ) -> asyncio.Future[T]:
        """In a thread; from here to the end is what a request waits for."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        running = loop.run_in_executor(threads, work)
        running.add_done_callback(lambda _: self._observed(kind, loop.time() - begun))
        return running

    def _transact(self, body: Body[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        for last in (False, False, True):
            try:
                with self._engine.begin() as db:
                    answer = body(db, *args, **kwargs)
                    self._reached(f"{body.__name__}: written")
                self._reached(f"{body.__name__}: committed")
                self._see(None)
                return answer
            except DBAPIError as error:
                if last or not _may_succeed_now(error):
                    raise self._see(_gone(error)) from error
        raise AssertionError("unreachable")

    def _read(self, body: Body[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with self._reading.begin() as db:
                return body(db, *args, **kwargs)
        except DBAPIError as error:
            raise self._see(_gone(error)) from error

    def _see(self, error: E) -> E:
        """A write went well, or this is why something did not; one line in the log per change."""
        if isinstance(error, StoreGone):
            with self._turn:
                changed, self.serves, self.trouble = self.serves, False, str(error)
            if changed:
                log.error("the database is away; trying again", extra={"said": str(error)})
        elif error is None and not self.serves:
            with self._turn:
                changed, self.serves, self.trouble = not self.serves, True, ""
            if changed:
                log.warning("the database is back")
        return error

    async def open(self) -> None:
        try:
            await self.transact(open_schema)
        except DBAPIError as error:
            raise StoreUnavailable(f"the database cannot be opened: {_said(error)}") from error
        except StoreGone as error:
            raise StoreUnavailable(f"the database cannot be opened: {error}") from error

    async def close(self) -> None:
        await asyncio.to_thread(self._database.leave)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        if self._engine.dialect.name != "postgresql":
            yield True  # one process has the file
            return
        loop = asyncio.get_running_loop()
        taking = loop.run_in_executor(self._writers, self._take)
        try:
            held = await asyncio.shield(taking)
        except asyncio.CancelledError:  # whoever steps was stopped; the lock must not stay taken
            late = await taking
            if late is not None:
                await loop.run_in_executor(self._writers, _give_back, late)
            raise
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
                if db.scalar(sa.select(sa.func.pg_try_advisory_lock(lock_of(db, _STEPPING)))):
                    db.commit()
                    return db
            except BaseException:
                db.close()
                raise
            db.close()
            return None
        except DBAPIError as error:
            raise self._see(_gone(error)) from error

    probe = transaction(_probe)
    give_back = transaction(give_back)
    task_id = transaction(_task_id)
    secret = transaction(_secret)
    policy = transaction(_policy)
    change_policy = transaction(_change_policy)
    adopted = reading(_adopted)
    adopt = transaction(_adopt)
    counts = reading(_counts)

    add_tokens = transaction(sql_devices.add_tokens)
    enrol = transaction(sql_devices.enrol)
    enrol_signed = transaction(sql_devices.enrol_signed)
    device = reading(sql_devices.device)
    devices = reading(sql_devices.devices)
    device_keys = reading(sql_devices.device_keys)
    use_nonce = transaction(sql_devices.use_nonce)
    renew_device = transaction(sql_devices.renew_device)
    revoke_device = transaction(sql_devices.revoke_device)
    forget_device = transaction(sql_devices.forget_device)

    open_round = transaction(sql_rounds.open_round)
    current_round = reading(sql_rounds.current_round)
    progress = reading(sql_rounds.progress)
    set_phase = transaction(sql_rounds.set_phase)
    assign_slots = transaction(sql_rounds.assign_slots)
    add_updates = transaction(sql_rounds.add_updates)
    rounds = reading(sql_rounds.rounds)
    add_release = transaction(sql_rounds.add_release)

    release = reading(sql_releases.release)
    learner = reading(sql_releases.learner)
    update_sets = reading(sql_releases.update_sets)
    sign_release = transaction(sql_releases.sign_release)
    log = reading(sql_releases.log)
    release_history = reading(sql_releases.release_history)
    roll_back = transaction(sql_releases.roll_back)
    prune_releases = transaction(sql_releases.prune_releases)
    add_quality = transaction(sql_releases.add_quality)
    quality = reading(sql_releases.quality)

    add_question = transaction(sql_questions.add_question)
    questions = reading(sql_questions.questions)
    question = reading(sql_questions.question)
    question_keys = reading(sql_questions.question_keys)
    add_answer = transaction(sql_questions.add_answer)
    note_question = transaction(sql_questions.note_question)
    open_question = transaction(sql_questions.open_question)
    end_question = transaction(sql_questions.end_question)

    add_rollout = transaction(sql_rollouts.add_rollout)
    rollouts = reading(sql_rollouts.rollouts)
    rollout = reading(sql_rollouts.rollout)
    move_rollout = transaction(sql_rollouts.move_rollout)

    add_items = transaction(sql_items.add_items)
    import_items = transaction(sql_items.import_items)
    retire_items = transaction(sql_items.retire_items)
    catalogue = reading(sql_items.catalogue)
    extent = reading(sql_items.extent)
    items = reading(sql_items.items)
    shared_attributes = reading(sql_items.shared_attributes)
    public_attributes = reading(sql_items.public_attributes)
    categories = reading(sql_items.categories)

    add_issuer = transaction(sql_admin.add_issuer)
    remove_issuer = transaction(sql_admin.remove_issuer)
    issuers = reading(sql_admin.issuers)
    add_admin = transaction(sql_admin.add_admin)
    remove_admin = transaction(sql_admin.remove_admin)
    admins = reading(sql_admin.admins)
    admin_of = reading(sql_admin.admin_of)
    end_session = transaction(sql_admin.end_session)
    session_ended = reading(sql_admin.session_ended)
    write_audit = transaction(sql_admin.write_audit)
    audit_rows = reading(sql_admin.audit_rows)
    add_refusals = transaction(sql_admin.add_refusals)
    refusals = reading(sql_admin.refusals)
    device_states = reading(sql_admin.device_states)

    async def charges(self, round_id: bytes) -> AsyncIterator[Sequence[Charge]]:
        after = b""
        while rows := await self.read(sql_rounds.charges_after, round_id, after, MANY):
            yield rows
            if len(rows) < MANY:
                return
            after = rows[-1].device

    async def sealed_answers(self, question_id: bytes) -> AsyncIterator[Sequence[bytes]]:
        after = b""
        while rows := await self.read(sql_questions.sealed_after, question_id, after, CHUNK):
            yield [body for _, body in rows]
            if len(rows) < CHUNK:
                return
            after = rows[-1][0]

    async def sealed_updates(self, round_id: bytes) -> AsyncIterator[Sequence[bytes]]:
        after = b""
        while rows := await self.read(sql_rounds.sealed_after, round_id, after, CHUNK):
            yield [body for _, body in rows]
            if len(rows) < CHUNK:
                return
            after = rows[-1][0]


def _give_back(db: sa.Connection) -> None:
    """Free the lock; a connection that is gone has freed it."""
    try:
        with db:
            db.execute(sa.select(sa.func.pg_advisory_unlock(lock_of(db, _STEPPING))))
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
