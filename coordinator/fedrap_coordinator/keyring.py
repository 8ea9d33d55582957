"""The coordinator's secrets: sealing keys, the noise key of releases, the task's authority.

They live in a folder of their own, never in the database: who steals the database holds only
sealed bodies. Losing the noise key loses the task; leaking it voids epsilon. `RoundKeys` says which
sealing key a round names, and when keys are destroyed; its file work runs in threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_coordinator.domain import sealing_keys
from fedrap_coordinator.domain.fault_points import Reached, pass_by
from fedrap_coordinator.domain.sealing_keys import KeyState, SealKey
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.key_files import (
    KeyFiles,
    KeysInFolder,
    KeysInMemory,
    StepMark,
    replace_file,
)
from fedrap_coordinator.log_copy import LogCopy
from fedrap_coordinator.sources import SYSTEM, Sources
from fedrap_core.errors import BrokenModel, FedRapError, MalformedMessage
from fedrap_core.privacy.mechanisms import NOISE_KEY_BYTES
from fedrap_core.wire.keys import (
    new_private_key,
    private_from_bytes,
    private_to_bytes,
    public_point,
)
from fedrap_core.wire.seal import seal_id

PrivateKey = ec.EllipticCurvePrivateKey


class SealKeyGone(FedRapError):
    """The private half of a sealing key was destroyed or lost."""


class StepUsedBefore(BrokenModel):
    """The noise of this step was published over another sum; the same noise must not be again."""


class Keyring:
    """The keys in force. Its repr shows nothing, so that none can reach a log."""

    def __init__(
        self,
        seal: PrivateKey | None,
        noise: bytes,
        authority: PrivateKey | None = None,
        files: KeyFiles | None = None,
        sources: Sources = SYSTEM,
        log: LogCopy | None = None,
    ) -> None:
        """With `seal`, a ring of that active key; without, the ring that `files` hold.

        `log` is the copy of what the authority signed of releases.
        """
        made_at = sources.clock()
        self.noise = noise
        self.authority = authority or new_private_key()
        self._log = log or LogCopy()
        self._files: KeyFiles = files or KeysInMemory()
        self._private: dict[bytes, PrivateKey] = {}
        with self._files.alone():
            self._keys = self._files.load()
            if not self._keys:
                active = self._keep(seal or new_private_key(), made_at)
                following = self._keep(new_private_key(), made_at)
                self._keys = sealing_keys.first_keys(active, following)
                self._files.save(self._keys)
        self.private(self.seal_id)  # a ring without its active key is of no use

    def __repr__(self) -> str:
        return "Keyring(...)"

    def last_step(self, task: bytes) -> int:
        """The last step of a task that was made with this noise key; 0 before the first."""
        mark = self._files.load_steps().get(task.hex())
        return 0 if mark is None else mark.step

    def claim_step(self, task: bytes, step: int, updates: bytes) -> None:
        """Write down, before it is published, from which updates a step is made.

        The noise of a step is drawn once for all time, so that a crash cannot draw it twice.
        Whoever puts an old database back would publish it again, over another sum, and the
        difference of the two would have no noise at all.

        Raises:
            StepUsedBefore: it was made from other updates, or lies behind the last one.
        """
        with self._files.alone():
            steps = self._files.load_steps()
            mark, mine = steps.get(task.hex()), StepMark(step, updates.hex())
            if mark == mine:
                return
            if mark is not None and step <= mark.step:
                raise StepUsedBefore(
                    f"step {step} was made before: this database is older than its keys; run "
                    f"`fedrap-coordinator releases recover` with step {mark.step} or more"
                )
            self._files.save_steps({**steps, task.hex(): mine})

    def last_entry(self, task: bytes) -> bytes:
        """The entry of the last release of a task that was published; empty before the first."""
        return self._log.head(task)

    def entries_after(self, task: bytes, version: int) -> list[bytes]:
        """Entries of the log that were published, of later versions."""
        return self._log.after(task, version)

    def check_entry(self, task: bytes, signed: bytes) -> None:
        """May this entry be published? Raises PublishedBefore where it contradicts another."""
        self._log.check(task, signed)

    def keep_entries(self, task: bytes, entries: Sequence[bytes]) -> None:
        """Remember what was published; known ones are passed over."""
        with self._files.alone():
            self._log.keep(task, entries)

    @property
    def seal(self) -> PrivateKey:
        """The active sealing key."""
        return self.private(self.seal_id)

    @property
    def seal_id(self) -> bytes:
        """Its name."""
        return sealing_keys.active_key(self._keys).id

    @property
    def keys(self) -> list[SealKey]:
        """All sealing keys that ever were, oldest first."""
        return list(self._keys)

    def private(self, key_id: bytes) -> PrivateKey:
        """The private half of a sealing key.

        Raises:
            SealKeyGone: it was destroyed, or its file is lost or damaged.
        """
        known = self._private.get(key_id)
        if known is None:
            raw = self._files.read(key_id)
            if raw is None:
                raise SealKeyGone(f"sealing key {key_id.hex()} is gone")
            try:
                known = private_from_bytes(raw)
            except MalformedMessage as error:
                raise SealKeyGone(f"sealing key {key_id.hex()} is damaged: {error}") from error
            if seal_id(known.public_key()) != key_id:
                raise SealKeyGone(f"the file of sealing key {key_id.hex()} holds another key")
            self._private[key_id] = known
        return known

    def point(self, key_id: bytes) -> bytes:
        """The public half of a sealing key whose private half is still there."""
        return public_point(self.private(key_id).public_key())

    def for_a_round(self, now: float, rotate_seconds: float = 0.0) -> SealKey:
        """The key that a round opened now names; turns the ring first when that is due."""
        with self._files.alone():
            self._keys = self._files.load()  # somebody may have turned it from outside
            if sealing_keys.is_due(self._keys, now, rotate_seconds):
                self._turn(now)
        return sealing_keys.active_key(self._keys)

    def refresh(self) -> None:
        """See what another process did to the ring; what it destroyed is not kept here either."""
        with self._files.alone():
            self._keys = self._files.load()
        for key in self._keys:
            if key.state is sealing_keys.KeyState.DESTROYED:
                self._private.pop(key.id, None)

    def rotate(self, now: float) -> SealKey:
        """Turn the ring; the key that is active from now on."""
        with self._files.alone():
            self._keys = self._files.load()
            self._turn(now)
        return sealing_keys.active_key(self._keys)

    def destroy_unused(self, named: Collection[bytes], now: float) -> int:
        """Destroy the retired keys that no open round names; how many there were."""
        with self._files.alone():
            self._keys = self._files.load()
            gone = sealing_keys.unused(self._keys, named)
            if gone:
                self._keys = sealing_keys.without(self._keys, gone, now)
                self._files.save(self._keys)  # first: a crash after this line finishes at start
                for key_id in gone:
                    self._files.destroy(key_id)
                    self._private.pop(key_id, None)
        return len(gone)

    def _turn(self, now: float) -> None:
        fresh = self._keep(new_private_key(), now)
        turned = sealing_keys.rotated(self._keys, fresh, now)
        self.private(sealing_keys.active_key(turned).id)  # never turn to a key that is lost
        self._files.save(turned)
        self._keys = turned

    def _keep(self, private: PrivateKey, now: float) -> SealKey:
        public = private.public_key()
        key = SealKey(seal_id(public), public_point(public), KeyState.NEXT, now, now)
        self._files.write(key.id, private_to_bytes(private))
        self._private[key.id] = private
        return key


def fresh_keyring(sources: Sources = SYSTEM) -> Keyring:
    """Keys that live as long as the process."""
    return Keyring(new_private_key(), sources.token_bytes(NOISE_KEY_BYTES), sources=sources)


def open_keyring(folder: Path, sources: Sources = SYSTEM) -> Keyring:
    """The keys of a folder, made on first use readable by the owner alone.

    Raises:
        ConfigError: a key file is damaged or cannot be read or written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_half(folder)
        noise = _read_or_write(folder / "noise.key", sources.token_bytes(NOISE_KEY_BYTES))
        authority = _read_or_write(folder / "authority.key", private_to_bytes(new_private_key()))
        if len(noise) != NOISE_KEY_BYTES:
            raise MalformedMessage(f"noise.key must have {NOISE_KEY_BYTES} bytes")
        keyring = Keyring(
            _before_rotation(folder), noise, private_from_bytes(authority), KeysInFolder(folder),
            sources, LogCopy(folder),
        )  # fmt: skip
        (folder / "seal.key").unlink(missing_ok=True)
        return keyring
    except OSError as error:
        raise ConfigError(f"keys folder {folder}: {error.strerror}") from error
    except (MalformedMessage, SealKeyGone) as error:
        raise ConfigError(f"keys folder {folder}: {error}; restore it from its backup") from error


def _before_rotation(folder: Path) -> PrivateKey | None:
    """The one sealing key of a folder that was made before keys were rotated."""
    path = folder / "seal.key"
    if not path.exists():
        return None
    return private_from_bytes(_read_or_write(path, b""))


def _refuse_half(folder: Path) -> None:
    """Keys are made together; when one is gone, a new one instead would void the guarantee."""
    others = any((folder / name).exists() for name in ("seal.key", "seal.json"))
    if others and not (folder / "noise.key").exists():
        # noise.key is made first, so this is no crash in the middle of making them.
        raise ConfigError(f"keys folder {folder}: noise.key is missing; restore it from its backup")


def _read_or_write(path: Path, fresh: bytes) -> bytes:
    """The key in a file; a crash while it is first written leaves no half-written key behind."""
    if not path.exists():
        replace_file(path, fresh.hex().encode("ascii") + b"\n")
    try:
        return bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        return b""


log = logging.getLogger(__name__)


class RoundKeys:
    """The coordinator's use of its keyring."""

    def __init__(
        self,
        keyring: Keyring,
        rotate_hours: float,
        clock: Callable[[], float],
        reached: Reached = pass_by,
    ) -> None:
        self._keyring = keyring
        self._reached = reached
        self._seconds = rotate_hours * 3600
        self._clock = clock

    async def for_a_round(self) -> bytes:
        """The name of the key for a round that is opened now; rotated by age first."""
        key = await asyncio.to_thread(self._keyring.for_a_round, self._clock(), self._seconds)
        self._reached("key chosen")
        return key.id

    async def refresh(self) -> None:
        """Forget the keys that another process has destroyed."""
        await asyncio.to_thread(self._keyring.refresh)

    def has(self, seal_id: bytes) -> bool:
        """Can updates sealed to this key be opened?"""
        try:
            self._keyring.private(seal_id)
        except SealKeyGone:
            log.exception("a sealing key is gone")
            return False
        return True

    @property
    def has_retired(self) -> bool:
        """Is there a key that may have to be destroyed?"""
        return any(key.state is KeyState.RETIRED for key in self._keyring.keys)

    async def tidy(self, named: set[bytes]) -> None:
        """Destroy what nothing open names, once the store says that the others are over."""
        gone = await asyncio.to_thread(self._keyring.destroy_unused, named, self._clock())
        self._reached("keys destroyed")
        if gone:
            log.info("sealing keys destroyed", extra={"count": gone})
