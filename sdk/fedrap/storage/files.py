"""The files of a store: the lock that says who holds it, the database, and their end."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from fedrap.errors import StoreBusy, StoreDamaged

try:
    import fcntl
except ImportError:  # Windows has no flock; SQLite's own lock has to do
    fcntl = None  # type: ignore[assignment]

HAS_FLOCK = fcntl is not None
LOCK, DATABASE, KEY_FILE, KEY_ID = "lock", "store.sqlite", "store.key", "store.keyid"
PROFILE = "profile-"  # what the folders of profiles begin with
WRAPPED = "store.wrapped"  # the key of a profile, under the app's own
WITHDRAWN = "withdrawn"  # an empty file: somebody took the consent back while another process ran
DAMAGED = "store.damaged"  # a database as it was before it was repaired
HINT = "restore it from a backup, or delete it to start afresh; `fedrap doctor` says more"
# The key goes first: from then on whatever a crash leaves behind is unreadable.
_ERASED = (
    KEY_FILE, WRAPPED, "store.part", KEY_ID,
    DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", f"{DATABASE}-journal", DAMAGED, WITHDRAWN,
)  # fmt: skip
_SECRET = (KEY_FILE, WRAPPED, "store.part")


def take_lock(path: Path) -> int:
    """The descriptor of the lock file: one process at a time; the file says which.

    Raises:
        StoreBusy: another one has it.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.read(descriptor, 100).decode("ascii", "replace").strip()
                os.close(descriptor)
                raise StoreBusy(f"the store is open in process {holder or 'unknown'}") from error
        if _is_at(path, descriptor):
            break
        os.close(descriptor)  # it was erased while we waited; the lock of a ghost guards nothing
    os.truncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def leave_withdrawal(folder: Path) -> None:
    """Leave word that the consent is taken back, for the process that has the store; durable.

    Raises:
        FileNotFoundError: there is no store here.
    """
    descriptor = os.open(folder / WITHDRAWN, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def connect(path: Path) -> sqlite3.Connection:
    """The database, made when there is none.

    Raises:
        StoreDamaged: the file is something else, or what is left of it.
    """
    size = path.stat().st_size if path.exists() else 0
    if 0 < size < 512:  # SQLite would take such a stump for a new, empty file
        raise StoreDamaged(f"store.sqlite was cut to {size} bytes; {HINT}")
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
    except sqlite3.DatabaseError as error:
        db.close()
        raise StoreDamaged(f"store.sqlite is not a store ({error}); {HINT}") from error
    return db


def delete_files(folder: Path, erase_key: Callable[[], None] | None) -> tuple[str, ...]:
    """Delete the store's files, its key first and its lock last; returns what there was.

    Files of others stay, and so does a folder that has some.

    Raises:
        StoreDamaged: something could not be deleted; it is named, and the rest is gone.
    """
    gone, left = [], []
    if erase_key is not None:
        try:
            erase_key()
            gone.append("key")
        except Exception as error:  # a keyring may raise anything; the files must go all the same
            left.append(f"the key ({type(error).__name__})")
    for name in (*_ERASED, LOCK):
        path = folder / name
        try:
            if name in _SECRET and path.exists():
                _overwrite(path)
            path.unlink()
            gone.append(name)
        except FileNotFoundError:
            continue
        except OSError as error:
            left.append(f"{path} ({error.strerror})")
    if left:
        raise StoreDamaged(f"could not be deleted: {', '.join(left)}; delete it by hand")
    if not any(folder.iterdir()):
        folder.rmdir()
    return tuple(gone)


def _overwrite(path: Path) -> None:
    """So that the key is not in a block that the file system merely gave back."""
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
        file.flush()
        os.fsync(file.fileno())
