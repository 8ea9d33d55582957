"""Connections to either database, SQLite in WAL mode or PostgreSQL, and where the two differ."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from fedrap_coordinator.errors import StoreUnavailable

CONNECTIONS = 8  # of one process to PostgreSQL
READS = "fedrap_reads"  # the option of a connection that only reads
SYNCHRONOUS = "FULL"  # of SQLite
PAGES_AT_ONCE = 500  # of SQLite, 2 MB: given back after a release
_INCREMENTAL = 2  # how SQLite calls auto_vacuum=INCREMENTAL
_SQLITE = ("sqlite", "sqlite+pysqlite")
_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")


def open_engine(url: str) -> sa.Engine:
    """An engine for a database URL; connects on first use.

    Raises:
        StoreUnavailable: not a URL, another database, or a driver that is not installed.
    """
    try:
        scheme, _, rest = url.partition("://")
        # libpq's own spelling, and SQLAlchemy's for a driver that is not ours
        parsed = sa.make_url(f"postgresql+psycopg://{rest}" if scheme in _POSTGRES else url)
    except ArgumentError as error:
        raise StoreUnavailable(
            "the database must be a URL such as sqlite:///… or postgresql://…"
        ) from error
    if parsed.drivername in _SQLITE:
        engine = sa.create_engine(parsed)
        sa.event.listen(engine, "connect", _sqlite_pragmas)
        if parsed.database and parsed.database != ":memory:":
            path = Path(parsed.database)
            sa.event.listen(engine, "do_connect", partial(_make_private, path))
            sa.event.listen(engine, "connect", partial(_remember_file, path))
            sa.event.listen(engine, "begin", partial(_still_there, path))
        sa.event.listen(engine, "begin", _begin)
        return engine
    if parsed.drivername == "postgresql+psycopg":
        if importlib.util.find_spec("psycopg") is None:
            raise StoreUnavailable(
                "this database needs psycopg: pip install 'fedrap-coordinator[postgres]'"
            )
        # A connection that the database closed in the meantime is found out before it is used.
        return sa.create_engine(
            parsed, pool_size=CONNECTIONS, max_overflow=1, pool_pre_ping=True,
            isolation_level="READ COMMITTED",
        )  # fmt: skip
    raise StoreUnavailable(
        f"{parsed.drivername} is not supported; use sqlite:///… or postgresql://…"
    )


def copy_database(url: str, path: Path) -> None:
    """A whole copy of a SQLite database as it is at one moment, while others write to it.

    Raises:
        StoreUnavailable: there is none, it is another database, or the copy would overwrite.
    """
    engine = open_engine(url)
    if engine.dialect.name != "sqlite":
        raise StoreUnavailable("this copies SQLite; for PostgreSQL use pg_dump")
    source = engine.url.database or ""
    if not Path(source).is_file():
        raise StoreUnavailable(f"there is no database {source}")
    if path.exists():
        raise StoreUnavailable(f"{path} is there already")
    _private_file(path)
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(path)) as new:
        old.backup(new)


def _private_file(path: Path) -> None:
    """The file is there and only its owner reads it: charges, keys of devices, sealed updates."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        return
    with contextlib.suppress(OSError):  # of somebody else; who may read it is up to them
        path.chmod(path.stat().st_mode & ~0o077)


def give_back(db: sa.Connection) -> None:
    """Give pages that hold nothing any more back to the disk; a few, so that nobody waits long."""
    if db.dialect.name == "sqlite":
        free = int(db.exec_driver_sql("PRAGMA freelist_count").scalar() or 0)
        for _ in range(min(free, PAGES_AT_ONCE)):
            # SQLite goes on with the next page when it is stepped again, and Python's module steps
            # once: of a larger number the first page alone would be given back.
            db.exec_driver_sql("PRAGMA incremental_vacuum(1)")


def maintain_database(url: str) -> tuple[int, int]:
    """Give back all the room that nothing is kept in: bytes before, and after.

    A SQLite file of a version that could not give pages back is written anew once, for which the
    disk needs as much room again. Others may go on meanwhile; they wait for writes.

    Raises:
        StoreUnavailable: there is no database, or another has it for itself.
    """
    engine = open_engine(url).execution_options(isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as db:
            if engine.dialect.name == "postgresql":
                return _maintain_postgresql(db)
            path = Path(engine.url.database or "")
            before = path.stat().st_size
            raw = db.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            if raw.execute("PRAGMA auto_vacuum").fetchone() == (_INCREMENTAL,):
                raw.executescript("PRAGMA incremental_vacuum")
            else:
                raw.execute("PRAGMA auto_vacuum=INCREMENTAL")
                raw.execute("VACUUM")
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return before, path.stat().st_size
    except (DBAPIError, sqlite3.Error) as error:
        raise StoreUnavailable(f"the database could not be maintained: {error}") from error
    finally:
        engine.dispose()


def _maintain_postgresql(db: sa.Connection) -> tuple[int, int]:
    """VACUUM marks room as free for what comes; it makes files shorter only at their ends."""
    size = sa.text("SELECT pg_database_size(current_database())")
    before = int(db.scalar(size) or 0)
    db.execute(sa.text("VACUUM (ANALYZE)"))
    return before, int(db.scalar(size) or 0)


def without_password(url: str) -> str:
    """The URL as it may be shown.

    Raises:
        StoreUnavailable: not a URL.
    """
    engine = open_engine(url)
    return engine.url.render_as_string(hide_password=True)


def _make_private(path: Path, *_: Any) -> None:
    """Before SQLite makes the file; what it puts beside it gets the same mode."""
    if path.parent.is_dir():  # otherwise SQLite says what is wrong
        _private_file(path)


def _sqlite_pragmas(connection: Any, _record: Any) -> None:
    """WAL: readers do not wait. FULL: a commit is on the disk, also when the power fails.

    auto_vacuum is for a file that is made now: freed pages can be given back a few at a time.
    """
    connection.isolation_level = None  # the begin event below starts transactions
    for pragma in (
        "auto_vacuum=INCREMENTAL",
        "journal_mode=WAL",
        f"synchronous={SYNCHRONOUS}",
        "busy_timeout=10000",
    ):
        connection.execute(f"PRAGMA {pragma}")


_FILE = "fedrap_file"  # of a connection: which file it has open


def _remember_file(path: Path, _connection: Any, record: Any) -> None:
    record.info[_FILE] = _identity(path)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _still_there(path: Path, connection: sa.Connection) -> None:
    """SQLite writes on into a file that was moved or deleted: what was accepted would be lost."""
    found = _identity(path)
    if found is None or found != connection.info[_FILE]:
        said = (
            f"{path} is gone; put it back"
            if found is None
            else f"another file is in the place of {path}; start the coordinator again"
        )
        raise OperationalError("BEGIN", (), sqlite3.OperationalError(said))


def _begin(connection: sa.Connection) -> None:
    """Take the write lock first, so that no transaction has to start again half-way."""
    reads = connection.get_execution_options().get(READS, False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def insert_once(db: sa.Connection, table: sa.Table, **values: Any) -> bool:
    """Add a row; False when its key was there. Waits for a rival's transaction to end."""
    # RETURNING, for a rowcount of an insert is not to be relied on.
    return db.execute(_statement(table, db.dialect.name), values).first() is not None


@functools.cache
def _statement(table: sa.Table, dialect: str) -> sa.Executable:
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return insert(table).on_conflict_do_nothing().returning(sa.literal(1))
