"""A copy of the log of releases beside the key that signs it.

The log itself is in the database, written in the transaction of its release. A backup that comes
back has lost its end, and devices would refuse every release that does not follow from the one they
hold. So the signed entries are kept here too, once their releases are stored: `releases recover`
puts them back, and a version that was published is not published a second time with other numbers.

A line for each entry, as base64; what a crash left of the last line is dropped.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path

from fedrap_coordinator.errors import ConfigError
from fedrap_core.errors import BrokenModel, SignatureInvalid
from fedrap_core.wire.authority import entry_digest, read_entry

_TAIL = 4096  # bytes that hold the last line


class PublishedBefore(BrokenModel):
    """This version was published with other numbers; devices that hold it would refuse these."""


class LogCopy:
    """Copies by task: in files of `folder`, or in memory where there is none."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._memory: dict[bytes, bytes] = {}

    def head(self, task: bytes) -> bytes:
        """The last entry that was published; empty when none was."""
        lines = self._read(task, _TAIL).splitlines()
        return self._entry(task, lines[-1]) if lines else b""

    def after(self, task: bytes, version: int) -> list[bytes]:
        """The entries of later versions, the oldest first."""
        entries = [self._entry(task, line) for line in self._read(task).splitlines()]
        return [one for one in entries if read_entry(one).version > version]

    def check(self, task: bytes, signed: bytes) -> None:
        """May this entry be published?

        Raises:
            PublishedBefore: there is another one of its version, or of a later one.
        """
        head = self.head(task)
        if not head:
            return
        last, entry = read_entry(head), read_entry(signed)
        same = entry.version == last.version and entry_digest(head) == entry_digest(signed)
        if entry.version <= last.version and not same:
            raise PublishedBefore(
                f"release {last.version} was published before: this database is older than its "
                f"keys; run `fedrap-coordinator releases recover {last.version} {last.step}`"
            )

    def keep(self, task: bytes, entries: Sequence[bytes]) -> None:
        """Add what is later than the last one; it is on disk when this returns."""
        head = self.head(task)
        last = read_entry(head).version if head else -1
        fresh = [one for one in entries if read_entry(one).version > last]
        if fresh:
            self._append(task, b"".join(base64.b64encode(one) + b"\n" for one in fresh))

    def _entry(self, task: bytes, line: bytes) -> bytes:
        try:
            signed = base64.b64decode(line, validate=True)
            read_entry(signed)
        except (ValueError, SignatureInvalid) as error:
            raise ConfigError(
                f"{self._path(task)} is damaged; restore it from its backup"
            ) from error
        return signed

    def _path(self, task: bytes) -> Path:
        return (self._folder or Path()) / f"releases-{task.hex()}.log"

    def _read(self, task: bytes, last: int | None = None) -> bytes:
        """Whole lines; of the end only, where so many bytes are enough."""
        raw = self._memory.get(task, b"")
        if self._folder is not None:
            try:
                with self._path(task).open("rb") as file:
                    size = file.seek(0, os.SEEK_END)
                    file.seek(0 if last is None else max(0, size - last))
                    raw = file.read()
            except FileNotFoundError:
                return b""
            if last is not None and size > last:
                raw = raw[raw.find(b"\n") + 1 :]
        return raw[: raw.rfind(b"\n") + 1]

    def _append(self, task: bytes, lines: bytes) -> None:
        if self._folder is None:
            self._memory[task] = self._memory.get(task, b"") + lines
            return
        handle = os.open(self._path(task), os.O_RDWR | os.O_CREAT, 0o600)
        with open(handle, "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            end = file.read()
            file.seek(size - len(end) + end.rfind(b"\n") + 1)  # over what a crash left
            file.truncate()
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
