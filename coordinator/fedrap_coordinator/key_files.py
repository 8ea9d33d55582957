"""Where sealing keys rest: in memory, or in a folder of files that only their owner reads.

In a folder each private key has a file of its own, and `seal.json` says which state each is in.
Order makes it crash-safe: a private key is on disk before the list names it, and the list says
"destroyed" before its file goes; what a crash left over is cleared away at the next start.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from fedrap_coordinator.domain.sealing_keys import KeyState, SealKey, violation
from fedrap_coordinator.errors import ConfigError

try:
    import fcntl
except ImportError:  # no such lock here: rotate with the coordinator stopped
    fcntl = None  # type: ignore[assignment]

LIST = "seal.json"
STEPS = "steps.json"


@dataclass(frozen=True)
class StepMark:
    """The last step that was made with a noise key, and from which updates."""

    step: int
    updates: str  # hex digest of the frozen set


class KeyFiles(Protocol):
    """Keeps the list of sealing keys, and their private halves as bytes."""

    def load(self) -> list[SealKey]:
        """The list; empty when there never was one."""
        ...

    def save(self, keys: Sequence[SealKey]) -> None:
        """Keep the list, whole or not at all."""
        ...

    def write(self, key_id: bytes, raw: bytes) -> None:
        """Keep a private key."""
        ...

    def read(self, key_id: bytes) -> bytes | None:
        """A private key; None when there is no such file."""
        ...

    def destroy(self, key_id: bytes) -> None:
        """Make a private key unreadable; nothing happens when it is gone."""
        ...

    def load_steps(self) -> dict[str, StepMark]:
        """The last step of each task that was made with the noise key."""
        ...

    def save_steps(self, steps: Mapping[str, StepMark]) -> None:
        """Keep them, whole or not at all."""
        ...

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Nobody else changes the list meanwhile."""
        ...


@dataclass
class KeysInMemory:
    """They end with the process."""

    _keys: list[SealKey] = field(default_factory=list)
    _private: dict[bytes, bytes] = field(default_factory=dict, repr=False)
    _steps: dict[str, StepMark] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def load(self) -> list[SealKey]:
        return list(self._keys)

    def save(self, keys: Sequence[SealKey]) -> None:
        self._keys = list(keys)

    def write(self, key_id: bytes, raw: bytes) -> None:
        self._private[key_id] = raw

    def read(self, key_id: bytes) -> bytes | None:
        return self._private.get(key_id)

    def destroy(self, key_id: bytes) -> None:
        self._private.pop(key_id, None)

    def load_steps(self) -> dict[str, StepMark]:
        return dict(self._steps)

    def save_steps(self, steps: Mapping[str, StepMark]) -> None:
        self._steps = dict(steps)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with self._lock:
            yield


@dataclass(frozen=True)
class KeysInFolder:
    """A folder of mode 0700, files of mode 0600."""

    folder: Path

    def load(self) -> list[SealKey]:
        """Also clears away what a crash left over.

        Raises:
            ConfigError: the list is damaged.
        """
        path = self.folder / LIST
        if not path.exists():
            if any(self.folder.glob("seal-*.key")):  # the list is always there first
                raise ConfigError(f"{path} is missing; restore it from its backup")
            self.save([])
        try:
            rows = json.loads(path.read_text(encoding="utf-8"))["keys"]
            keys = [
                SealKey(
                    bytes.fromhex(row["id"]), bytes.fromhex(row["point"]), KeyState(row["state"]),
                    float(row["made_at"]), float(row["since"]),
                )
                for row in rows
            ]  # fmt: skip
            wrong = violation(keys) if keys else None
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} is damaged; restore it from its backup") from error
        if wrong:
            raise ConfigError(f"{path}: {wrong}; restore it from its backup")
        alive = {self._path(key.id).name for key in keys if key.state is not KeyState.DESTROYED}
        for left in [*self.folder.glob("seal-*"), *self.folder.glob("*.part")]:
            if left.name not in alive:
                _wipe(left)
        return keys

    def save(self, keys: Sequence[SealKey]) -> None:
        rows = [
            {
                "id": key.id.hex(), "point": key.point.hex(), "state": key.state.value,
                "made_at": key.made_at, "since": key.since,
            }
            for key in keys
        ]  # fmt: skip
        text = json.dumps({"keys": rows}, indent=1) + "\n"
        replace_file(self.folder / LIST, text.encode("utf-8"))

    def write(self, key_id: bytes, raw: bytes) -> None:
        replace_file(self._path(key_id), raw.hex().encode("ascii") + b"\n")

    def read(self, key_id: bytes) -> bytes | None:
        try:
            return bytes.fromhex(self._path(key_id).read_text(encoding="ascii").strip())
        except FileNotFoundError:
            return None
        except ValueError:
            return b""

    def destroy(self, key_id: bytes) -> None:
        _wipe(self._path(key_id))

    def load_steps(self) -> dict[str, StepMark]:
        """Beside the noise key, not in the database: a backup that comes back has an older one.

        Raises:
            ConfigError: the file is damaged.
        """
        path = self.folder / STEPS
        if not path.exists():
            return {}
        try:
            found = json.loads(path.read_text(encoding="utf-8"))["tasks"]
            return {
                str(task): StepMark(int(row["step"]), str(row["updates"]))
                for task, row in found.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path} is damaged; restore it from its backup") from error

    def save_steps(self, steps: Mapping[str, StepMark]) -> None:
        rows = {task: {"step": one.step, "updates": one.updates} for task, one in steps.items()}
        text = json.dumps({"tasks": rows}, indent=1) + "\n"
        replace_file(self.folder / STEPS, text.encode("utf-8"))

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with open(os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600), "wb") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _path(self, key_id: bytes) -> Path:
        return self.folder / f"seal-{key_id.hex()}.key"


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, on disk when this returns, for the owner alone."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    _sync(path.parent)


def _wipe(path: Path) -> None:
    """Zeros first: where a disk writes in place, nothing is left to undelete."""
    try:
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
    except FileNotFoundError:
        return
    _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
