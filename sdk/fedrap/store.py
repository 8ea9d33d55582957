"""The encrypted store of one device: SQLite with AES-256-GCM around every record.

No item id, vector or key is ever in the file in clear, and no index names an item. What belongs
to one round (D, the ledger entry, the outbox) is written in one transaction, with a full sync.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedrap.errors import StoreBusy, StoreDamaged, StoreLocked
from fedrap.keys import KeyProvider, checked_key

try:
    import fcntl
except ImportError:  # Windows has no flock; SQLite's own lock has to do
    fcntl = None  # type: ignore[assignment]

SCHEMA = 1
_HINT = "restore it from a backup, or delete it to start afresh"
_TABLES = """
CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS event(seq INTEGER PRIMARY KEY, sealed BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS block(name TEXT PRIMARY KEY, sealed BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS outbox(round BLOB PRIMARY KEY, sealed BLOB NOT NULL);
"""
S = TypeVar("S")


class Interaction(msgspec.Struct, frozen=True, array_like=True):
    """One thing the user did."""

    item: str
    kind: str
    weight: float
    at: float


class DeviceStore:
    """All durable state of a device.

    Raises:
        StoreBusy, StoreLocked, StoreDamaged: on opening; nothing was changed.
    """

    def __init__(self, folder: Path, key: KeyProvider) -> None:
        self._lock = _take_lock(folder / "lock")
        try:
            # After the lock: two processes that open a new store must not both make a key.
            self._cipher = AESGCM(checked_key(key))
            self._db = _connect(folder / "store.sqlite")
            self._name = self._open_schema()
        except BaseException:
            self._release_lock()
            raise

    def close(self) -> None:
        """Give the file back; a second call does nothing."""
        self._db.close()
        self._release_lock()

    def add_interaction(self, interaction: Interaction) -> None:
        """Keep one interaction; durable when this returns, also across a kill -9."""
        with self._transaction():
            row = self._db.execute("SELECT coalesce(max(seq), 0) + 1 FROM event").fetchone()
            raw = msgspec.msgpack.encode(interaction)
            self._db.execute(
                "INSERT INTO event VALUES (?, ?)", (row[0], self._seal("event", row[0], raw))
            )

    def interactions(self) -> list[Interaction]:
        """All interactions, oldest first."""
        rows = self._rows("SELECT seq, sealed FROM event ORDER BY seq")
        return [
            msgspec.msgpack.decode(self._open("event", seq, sealed), type=Interaction)
            for seq, sealed in rows
        ]

    def put(self, name: str, value: object) -> None:
        """Keep a value under a name."""
        with self._transaction():
            self._put(name, value)

    def put_all(self, values: dict[str, object]) -> None:
        """Keep several values in one transaction."""
        with self._transaction():
            for name, value in values.items():
                self._put(name, value)

    def get(self, name: str, kind: type[S]) -> S | None:
        """The value under a name."""
        rows = self._rows("SELECT sealed FROM block WHERE name = ?", name)
        if not rows:
            return None
        return msgspec.msgpack.decode(self._open("block", name, rows[0][0]), type=kind)

    def commit_round(self, round_id: bytes, body: bytes, blocks: dict[str, object]) -> None:
        """What the device keeps, its ledger and the outgoing bytes: all of it or nothing."""
        self._db.execute("PRAGMA synchronous=FULL")
        try:
            with self._transaction():
                for name, value in blocks.items():
                    self._put(name, value)
                self._db.execute(
                    "INSERT OR REPLACE INTO outbox VALUES (?, ?)",
                    (round_id, self._seal("outbox", round_id.hex(), body)),
                )
        finally:
            self._db.execute("PRAGMA synchronous=NORMAL")

    def outbox(self) -> list[tuple[bytes, bytes]]:
        """Updates that were prepared and not yet answered: (round, bytes)."""
        rows = self._rows("SELECT round, sealed FROM outbox ORDER BY rowid")
        return [
            (bytes(round_id), self._open("outbox", bytes(round_id).hex(), sealed))
            for round_id, sealed in rows
        ]

    def forget_outgoing(self, round_id: bytes) -> None:
        """The update was accepted or finally refused."""
        with self._transaction():
            self._db.execute("DELETE FROM outbox WHERE round = ?", (round_id,))

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.ProgrammingError):  # ours: the store was closed
                raise
            raise StoreDamaged(f"store.sqlite cannot be read ({error}); {_HINT}") from error

    def _put(self, name: str, value: object) -> None:
        sealed = self._seal("block", name, msgspec.msgpack.encode(value))
        self._db.execute("INSERT OR REPLACE INTO block VALUES (?, ?)", (name, sealed))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise StoreDamaged(f"the store could not be written: {error}") from error
            raise

    def _open_schema(self) -> bytes:
        """The store's random name, after its schema and its key were checked."""
        try:
            self._db.executescript(_TABLES)
            known = dict(self._db.execute("SELECT name, value FROM meta"))
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise StoreDamaged(f"store.sqlite is not a store ({error}); {_HINT}") from error
        schema = int(known.get("schema", SCHEMA))
        if schema != SCHEMA:
            self._db.close()
            raise StoreDamaged(f"the store has schema {schema}, this version reads {SCHEMA}")
        self._name = bytes(known.get("name") or os.urandom(16))
        if "check" not in known:
            with self._transaction():
                rows = {"schema": SCHEMA, "name": self._name, "check": self._seal("meta", "", b"")}
                self._db.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
            return self._name
        try:
            self._open("meta", "", known["check"])
        except StoreDamaged as error:
            self._db.close()
            raise StoreLocked("the key does not open this store") from error
        return self._name

    def _seal(self, table: str, key: object, raw: bytes) -> bytes:
        nonce = os.urandom(12)
        return nonce + self._cipher.encrypt(nonce, raw, self._context(table, key))

    def _open(self, table: str, key: object, sealed: bytes) -> bytes:
        """The record; its place is part of the seal, so that records cannot be swapped."""
        try:
            return self._cipher.decrypt(sealed[:12], sealed[12:], self._context(table, key))
        except (InvalidTag, ValueError) as error:
            raise StoreDamaged(f"a record of the store was changed; {_HINT}") from error

    def _context(self, table: str, key: object) -> bytes:
        return self._name + f"|{SCHEMA}|{table}|{key}".encode()

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _connect(path: Path) -> sqlite3.Connection:
    size = path.stat().st_size if path.exists() else 0
    if 0 < size < 512:  # SQLite would take such a stump for a new, empty file
        raise StoreDamaged(f"store.sqlite was cut to {size} bytes; {_HINT}")
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
    except sqlite3.DatabaseError as error:
        db.close()
        raise StoreDamaged(f"store.sqlite is not a store ({error}); {_HINT}") from error
    return db


def _take_lock(path: Path) -> int | None:
    """One process at a time; the lock file says which."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 100).decode("ascii", "replace").strip() or "another one"
            os.close(descriptor)
            raise StoreBusy(f"the store is open in process {holder}") from error
    os.truncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor
