"""What is wrong with a store, and what can be done about it, without any of it being lost.

`examine` changes nothing. `repair` keeps the database as it was beside the new one, copies what can
still be read, sets aside what cannot, and seals the root anew. Where records were removed or
replaced the ledger is not to be trusted any more: history and recommendations are back, but the
device joins no more rounds, because what it spent is not known.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedrap.errors import StoreDamaged
from fedrap.storage.database import DeviceStore
from fedrap.storage.device_state import DeviceState
from fedrap.storage.files import DAMAGED, DATABASE, LOCK, take_lock
from fedrap.storage.store_key import KeyProvider

_TABLES = {"meta": "name", "event": "seq", "block": "name", "outbox": "round", "aside": "rowid"}


@dataclass(frozen=True)
class Diagnosis:
    """What a store has, and what stands in the way of opening it."""

    opens: bool
    interactions: int | None  # None where the store does not open
    findings: tuple[str, ...]  # what is wrong, in words; none for a healthy store
    ledger_lost: bool = False


def examine(folder: Path, key: KeyProvider, clock: Callable[[], float]) -> Diagnosis:
    """Look at a store without changing it: on a copy.

    Raises:
        StoreBusy: another process has it open.
        StoreLocked: the key does not open it; nothing but that key helps.
        FileNotFoundError: there is no store.
    """
    with _copied(folder) as copy:
        try:
            return _look(copy, key, clock)
        except StoreDamaged as error:
            return Diagnosis(False, None, (str(error),))


def repair(folder: Path, key: KeyProvider, clock: Callable[[], float]) -> Diagnosis:
    """Make a store that opens, of what can be read; the old database stays as `store.damaged`.

    Raises:
        StoreBusy, StoreLocked, FileNotFoundError: as `examine`.
        StoreDamaged: so little is left of it that there is nothing to repair.
    """
    with _copied(folder) as copy:
        try:
            before = _look(copy, key, clock)
            if before.opens and not before.findings:
                return before
        except StoreDamaged:
            pass
    with _copied(folder) as copy:
        _salvage(copy / DATABASE)
        DeviceStore(copy, key, accept_changed=True).close()
        after = _look(copy, key, clock)  # opens the mended one, and sets aside what it must
        kept = folder / DAMAGED
        shutil.copyfile(folder / DATABASE, kept)
        os.chmod(kept, 0o600)
        for name in (f"{DATABASE}-wal", f"{DATABASE}-shm"):  # they belong to the old one
            (folder / name).unlink(missing_ok=True)
        os.replace(copy / DATABASE, folder / DATABASE)
    return after


def _look(folder: Path, key: KeyProvider, clock: Callable[[], float]) -> Diagnosis:
    store = DeviceStore(folder, key)
    try:
        known = DeviceState(store, clock).contents()
        return Diagnosis(True, len(known.interactions), tuple(known.set_aside), known.ledger_lost)
    finally:
        store.close()


@contextmanager
def _copied(folder: Path) -> Iterator[Path]:
    """A folder with a copy of the store, as long as nobody else has it; the lock is held."""
    if not (folder / DATABASE).exists():
        raise FileNotFoundError(f"there is no store in {folder}")
    lock = take_lock(folder / LOCK)
    copy = folder / "doctor.part"
    try:
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir(mode=0o700)
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-journal"):
            if (folder / name).exists():
                shutil.copyfile(folder / name, copy / name)
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)
        os.close(lock)


def _salvage(path: Path) -> None:
    """A new database of all rows that SQLite still finds, in place of the old one."""
    fresh = path.with_suffix(".fresh")
    fresh.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(fresh)) as new:
            for name, made in old.execute("SELECT name, sql FROM sqlite_master WHERE type='table'"):
                if name in _TABLES:
                    new.execute(made)
                    for row in _rows(old, name, _TABLES[name]):
                        marks = ", ".join("?" * len(row))
                        new.execute(f"INSERT OR IGNORE INTO {name} VALUES ({marks})", row)
            new.commit()
            if not new.execute("SELECT 1 FROM meta WHERE name = 'check'").fetchone():
                raise StoreDamaged("the head of the store is gone; restore it from a backup")
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(f"nothing can be read any more ({error}); delete the store") from error
    for name in (f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)
    os.replace(fresh, path)


def _rows(db: sqlite3.Connection, table: str, column: str) -> Iterator[tuple[object, ...]]:
    """From both ends, each as far as it can be read."""
    for order in ("ASC", "DESC"):
        try:
            yield from db.execute(f"SELECT * FROM {table} ORDER BY {column} {order}")
            return
        except sqlite3.DatabaseError:
            continue
