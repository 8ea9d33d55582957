"""The encrypted store of one device: SQLite with AES-256-GCM around every record.

No item id, vector or key is ever in the file in clear, and no index names an item. What belongs
to one round (D, the ledger entry, the outbox) is written in one transaction, with a full sync.

One sealed root says which records there are: a counter, and the sum of a MAC of each record. It is
written with every change and checked on opening, so that no record can be removed, or replaced by
an older one. An older copy of the whole file has its own root, and cannot be told from it.

A record that is the one that was written, and still cannot be read, is damage and no forgery: it is
set aside with a word for why, and the rest works. Where it is the ledger that cannot be read, the
store remembers that, because rounds must not be counted anew.
"""

from __future__ import annotations

import hmac
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedrap.errors import StoreClosed, StoreDamaged, StoreLocked
from fedrap.results import Interaction
from fedrap.storage import migrations
from fedrap.storage.files import (
    DATABASE,
    HAS_FLOCK,
    HINT,
    LOCK,
    WITHDRAWN,
    connect,
    delete_files,
    take_lock,
)
from fedrap.storage.store_key import ErasableKey, KeyProvider, checked_key

SCHEMA = 2
_SEAL = 1  # version of the seal; the schema may change without sealing anything anew
_TABLES = """
CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS event(seq INTEGER PRIMARY KEY, sealed BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS block(name TEXT PRIMARY KEY, sealed BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS outbox(round BLOB PRIMARY KEY, sealed BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS aside(place TEXT NOT NULL, why TEXT NOT NULL, sealed BLOB NOT NULL);
"""
LEDGER, LEDGER_LOST = "ledger", "ledger_lost"
_KEYS = {"event": "seq", "block": "name", "outbox": "round"}
_CALLED = {"event": "interaction", "block": "record", "outbox": "update"}
_ROOTED = b"root"  # in the check of a store that has a root
_SUMS = 1 << 256
_ENDS = "CAST(coalesce(substr(sealed, 1, 12) || substr(sealed, -16), '') AS BLOB)"  # nonce and tag
S = TypeVar("S")
_inherited: list[sqlite3.Connection] = []  # of a parent process: never used, and never closed


class DeviceStore:
    """All durable state of a device.

    With `accept_changed` a store whose records are not those that were written last is taken as it
    is, and its ledger is remembered as lost: for a repair that its owner asked for.

    Raises:
        StoreBusy, StoreLocked, StoreDamaged: on opening; nothing was changed.
    """

    def __init__(
        self,
        folder: Path,
        key: KeyProvider,
        random_bytes: Callable[[int], bytes] = os.urandom,
        *,
        accept_changed: bool = False,
    ) -> None:
        self._accept_changed = accept_changed
        self._folder = folder
        self._withdrawn = str(folder / WITHDRAWN)
        self._key = key
        self._random_bytes = random_bytes
        self._connection: sqlite3.Connection | None = None
        self._lock: int | None = None
        self._process = os.getpid()
        self.reopen()

    def __del__(self) -> None:
        """An app that forgot to close gets its store back when the device is collected."""
        with suppress(Exception):
            if self._process == os.getpid():
                self.close()

    def reopen(self) -> None:
        """Take the store, on opening and in a forked child whose parent has given it back."""
        self._lock = take_lock(self._folder / LOCK)
        self._process = os.getpid()
        try:
            # After the lock: two processes that open a new store must not both make a key.
            key = checked_key(self._key)
            self._cipher = AESGCM(key)
            self._root_key = hmac.digest(key, b"fedrap store root", "sha256")
            self._counter = self._sum = 0
            self._connection = connect(self._folder / DATABASE)
            self._name = self._open_schema()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the files back; a second call does nothing."""
        self.rest()
        self._release_lock()

    def rest(self) -> None:
        """Close the database and keep the lock; the next use opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def abandon(self) -> None:
        """In a forked child: let go of what belongs to the parent, without touching it.

        Closing an inherited connection could delete the parent's WAL, so it is left alone.
        Closing the descriptor of the lock does not unlock it as long as the parent has it.
        """
        if self._connection is not None:
            _inherited.append(self._connection)
            self._connection = None
        self._release_lock()

    def destroy(self) -> tuple[str, ...]:
        """Delete the key and all files, and close; returns the names of what there was.

        Raises:
            StoreDamaged: something could not be deleted; the rest is gone.
        """
        self.rest()
        if not HAS_FLOCK:  # Windows deletes no file that is open
            self._release_lock()
        try:
            key: object = self._key
            return delete_files(self._folder, key.erase if isinstance(key, ErasableKey) else None)
        finally:
            self._release_lock()

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._lock is None:
                raise StoreClosed("the store is closed; open it again")
            self._connection = connect(self._folder / DATABASE)
        return self._connection

    def add_interactions(self, interactions: Sequence[Interaction]) -> list[int]:
        """Keep all of them or none; durable when this returns, also across a kill -9.

        Returns the number that each was given.
        """
        with self._transaction():
            row = self._db.execute("SELECT coalesce(max(seq), 0) + 1 FROM event").fetchone()
            numbers = list(range(int(row[0]), int(row[0]) + len(interactions)))
            for number, one in zip(numbers, interactions, strict=True):
                sealed = self._seal("event", number, msgspec.msgpack.encode(one))
                self._db.execute("INSERT INTO event VALUES (?, ?)", (number, sealed))
                self._sum += self._mac("event", number, sealed)
        return numbers

    def forget_interactions(
        self,
        numbers: Sequence[int],
        blocks: Mapping[str, object],
        *,
        updates: bool = False,
        aside: bool = False,
    ) -> None:
        """Overwrite these interactions, and keep what changes with them, in one transaction.

        With `updates` the outbox goes too, with `aside` the interactions that were set aside.
        """
        self._db.execute("PRAGMA secure_delete=ON")
        try:
            with self._transaction():
                for number in numbers:
                    self._forget_sum("event", number)
                self._db.executemany("DELETE FROM event WHERE seq = ?", [(n,) for n in numbers])
                for name, value in blocks.items():
                    self._put(name, value)
                if updates:
                    self._empty_outbox()
                if aside:
                    self._db.execute("DELETE FROM aside WHERE place LIKE 'interaction %'")
        finally:
            self._db.execute("PRAGMA secure_delete=OFF")

    def interactions(self) -> list[Interaction]:
        """All interactions, oldest first."""
        return [interaction for _, interaction in self.numbered_interactions()]

    def numbered_interactions(self) -> list[tuple[int, Interaction]]:
        """All interactions with their numbers, oldest first; unreadable ones are set aside."""
        found, unreadable = [], []
        for seq, sealed in self._rows("SELECT seq, sealed FROM event ORDER BY seq"):
            try:
                one = _decoded(self._open("event", seq, sealed), Interaction)
                found.append((int(seq), one))
            except StoreDamaged as error:
                unreadable.append((seq, str(error)))
        for seq, why in unreadable:
            self._set_aside("event", seq, why)
        return found

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
        """The value under a name; one that cannot be read is set aside, and is none."""
        rows = self._rows("SELECT sealed FROM block WHERE name = ?", name)
        if not rows:
            return None
        try:
            return _decoded(self._open("block", name, rows[0][0]), kind)
        except StoreDamaged as error:
            self._set_aside("block", name, str(error))
            return None

    def get_list(self, name: str, kind: type[S]) -> list[S | None]:
        """The list under a name; None stands for each of its values that cannot be read.

        Where there is one, the record as it was is set aside.
        """
        whole = self.get(name, list[msgspec.Raw])
        found: list[S | None] = []
        broken = ""
        for raw in whole or []:
            try:
                found.append(_decoded(bytes(raw), kind))
            except StoreDamaged as error:
                found.append(None)
                broken = str(error)
        if broken:
            self._set_aside("block", name, broken)
        return found

    def set_aside(self) -> list[str]:
        """What could not be read, each with a word for why; it is kept as it was."""
        return [f"{place}: {why}" for place, why in self._rows("SELECT place, why FROM aside")]

    def set_block_aside(self, name: str, why: str) -> None:
        """A value that is of no use, such as a C of which a part is missing."""
        self._set_aside("block", name, why)

    def _set_aside(self, table: str, key: object, why: str) -> None:
        called = key.hex() if isinstance(key, bytes) else key
        place, why = f"{_CALLED[table]} {called}", why.removesuffix(f"; {HINT}")
        with self._transaction():
            self._db.execute(
                f"INSERT INTO aside SELECT ?, ?, sealed FROM {table} WHERE {_KEYS[table]} = ?",
                (place, why, key),
            )
            self._forget_sum(table, key)
            self._db.execute(f"DELETE FROM {table} WHERE {_KEYS[table]} = ?", (key,))
            if (table, key) == ("block", LEDGER):
                self._put(LEDGER_LOST, True)

    def commit_round(self, round_id: bytes, body: bytes, blocks: dict[str, object]) -> None:
        """What the device keeps, its ledger and the outgoing bytes: all of it or nothing."""
        self._db.execute("PRAGMA synchronous=FULL")
        try:
            with self._transaction():
                for name, value in blocks.items():
                    self._put(name, value)
                sealed = self._seal("outbox", round_id.hex(), body)
                self._forget_sum("outbox", round_id)
                self._db.execute("INSERT OR REPLACE INTO outbox VALUES (?, ?)", (round_id, sealed))
                self._sum += self._mac("outbox", round_id, sealed)
        finally:
            self._db.execute("PRAGMA synchronous=NORMAL")

    def outbox(self) -> list[tuple[bytes, bytes]]:
        """Updates that were prepared and not yet answered: (round, bytes)."""
        found, unreadable = [], []
        for round_id, sealed in self._rows("SELECT round, sealed FROM outbox ORDER BY rowid"):
            try:
                body = self._open("outbox", bytes(round_id).hex(), sealed)
                found.append((bytes(round_id), body))
            except StoreDamaged as error:
                unreadable.append((round_id, str(error)))
        for round_id, why in unreadable:
            self._set_aside("outbox", round_id, why)
        return found

    def withdraw(self, blocks: Mapping[str, object]) -> None:
        """Keep these values and empty the outbox, in one transaction with a full sync."""
        self._db.execute("PRAGMA synchronous=FULL")
        try:
            with self._transaction():
                for name, value in blocks.items():
                    self._put(name, value)
                self._empty_outbox()
        finally:
            self._db.execute("PRAGMA synchronous=NORMAL")

    def _empty_outbox(self) -> None:
        for (round_id,) in self._rows("SELECT round FROM outbox"):
            self._forget_sum("outbox", round_id)
        self._db.execute("DELETE FROM outbox")

    def is_withdrawn(self) -> bool:
        """Did another process leave word that the consent is taken back?"""
        return os.path.exists(self._withdrawn)

    def clear_withdrawn(self) -> None:
        """It was heard, or a newer answer came."""
        with suppress(FileNotFoundError):
            os.unlink(self._withdrawn)

    def forget_outgoing(self, round_id: bytes) -> None:
        """The update was accepted or finally refused."""
        with self._transaction():
            self._forget_sum("outbox", round_id)
            self._db.execute("DELETE FROM outbox WHERE round = ?", (round_id,))

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(f"store.sqlite cannot be read ({error}); {HINT}") from error

    def _put(self, name: str, value: object) -> None:
        """Keep a value in place of the old one; None keeps none."""
        self._forget_sum("block", name)
        if value is None:
            self._db.execute("DELETE FROM block WHERE name = ?", (name,))
            return
        sealed = self._seal("block", name, msgspec.msgpack.encode(value))
        self._db.execute("INSERT OR REPLACE INTO block VALUES (?, ?)", (name, sealed))
        self._sum += self._mac("block", name, sealed)

    def _mac(self, table: str, key: object, sealed: bytes) -> int:
        """Nonce and tag stand for the whole record: nobody else makes another with the same."""
        place = key.hex() if isinstance(key, bytes) else str(key)
        known = f"{table}|{place}|".encode() + sealed[:12] + sealed[-16:]
        return int.from_bytes(hmac.digest(self._root_key, known, "sha256"), "big")

    def _forget_sum(self, table: str, key: object) -> None:
        query = f"SELECT {_ENDS} FROM {table} WHERE {_KEYS[table]} = ?"
        for (ends,) in self._rows(query, key):
            self._sum -= self._mac(table, key, bytes(ends))

    def _write_root(self) -> None:
        self._counter += 1
        self._sum %= _SUMS
        raw = msgspec.msgpack.encode((self._counter, self._sum.to_bytes(32, "big")))
        root = self._seal("meta", "root", raw)
        there = self._db.execute("UPDATE meta SET value = ? WHERE name = 'root'", (root,)).rowcount
        if not there:
            self._db.execute("INSERT INTO meta VALUES ('root', ?)", (root,))

    def _sum_of_all(self) -> int:
        total = 0
        for table, column in _KEYS.items():
            for key, known in self._rows(f"SELECT {column}, {_ENDS} FROM {table}"):
                total += self._mac(table, key, known)
        return total % _SUMS

    def _check_root(self, root: bytes | None) -> None:
        """Are these the records that were written last?"""
        raw = b"" if root is None else self._open("meta", "root", bytes(root))
        known = _decoded(raw, tuple[int, bytes]) if raw else (0, b"")
        self._counter, self._sum = known[0], self._sum_of_all()
        if self._sum.to_bytes(32, "big") != known[1]:
            raise StoreDamaged(
                f"a record of the store was changed or removed, or is an older one; {HINT}"
            )

    def _accept(self, root: bytes | None) -> None:
        """Seal a root for the records that there are, whatever was written last."""
        try:
            self._check_root(root)
        except StoreDamaged:
            self._sum = self._sum_of_all()
            with self._transaction():
                self._put(LEDGER_LOST, True)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        db, before = self._db, (self._counter, self._sum)
        try:
            db.execute("BEGIN IMMEDIATE")
            yield
            if self._sum != before[1]:
                self._write_root()
            db.execute("COMMIT")
        except BaseException as error:
            self._counter, self._sum = before
            if db.in_transaction:
                db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise StoreDamaged(
                    f"the store could not be written: {error}; nothing was changed, "
                    "try again when there is room and the folder may be written"
                ) from error
            raise

    def _open_schema(self) -> bytes:
        """The store's random name, after its schema and its key were checked."""
        try:
            tables = self._db.execute("SELECT name FROM sqlite_master WHERE name = 'meta'")
            found = bool(tables.fetchall())
            known = dict(self._db.execute("SELECT name, value FROM meta")) if found else {}
            rooted = False
            self._name = bytes(known.get("name") or self._random_bytes(16))
            if "check" in known:
                rooted = self._check_and_migrate(int(known.get("schema", SCHEMA)), known["check"])
            self._db.executescript(_TABLES)
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(f"store.sqlite is not a store ({error}); {HINT}") from error
        if "check" not in known:
            with self._transaction():
                check = self._seal("meta", "", _ROOTED)
                rows = {"schema": SCHEMA, "name": self._name, "check": check}
                self._db.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
                self._write_root()
        elif rooted and self._accept_changed:
            self._accept(known.get("root"))
        elif rooted:
            self._check_root(known.get("root"))
        else:  # of version 0.1: what it holds now is what is watched from now on
            self._sum = self._sum_of_all()
            with self._transaction():
                check = self._seal("meta", "", _ROOTED)
                self._db.execute("UPDATE meta SET value = ? WHERE name = 'check'", (check,))
                self._write_root()
        return self._name

    def _check_and_migrate(self, schema: int, check: bytes) -> bool:
        """Has it a root? Nothing is changed before schema and key are found good."""
        migrations.check_schema(schema, SCHEMA, migrations.STEPS)
        try:
            rooted = self._open("meta", "", check) == _ROOTED
        except StoreDamaged as error:
            raise StoreLocked(
                "the key does not open this store; give the key that it was made with, "
                "or delete the store's folder to start afresh"
            ) from error
        migrations.migrate(self._db, schema, SCHEMA, migrations.STEPS)
        return rooted

    def _seal(self, table: str, key: object, raw: bytes) -> bytes:
        nonce = self._random_bytes(12)
        return nonce + self._cipher.encrypt(nonce, raw, self._context(table, key))

    def _open(self, table: str, key: object, sealed: bytes) -> bytes:
        """The record; its place is part of the seal, so that records cannot be swapped."""
        try:
            return self._cipher.decrypt(sealed[:12], sealed[12:], self._context(table, key))
        except (InvalidTag, ValueError) as error:
            raise StoreDamaged(f"a record of the store was changed; {HINT}") from error

    def _context(self, table: str, key: object) -> bytes:
        return self._name + f"|{_SEAL}|{table}|{key}".encode()

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _decoded(raw: bytes, kind: type[S]) -> S:
    try:
        return msgspec.msgpack.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        raise StoreDamaged(f"a record of another version ({error}); {HINT}") from error
