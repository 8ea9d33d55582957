"""The coordinator's secrets: the sealing key that opens updates, and the noise key of releases.

They live in a folder of their own, never in the database: who steals the database holds only
sealed bodies. Losing the noise key loses the task; leaking it voids epsilon.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_coordinator.errors import ConfigError
from fedrap_core.errors import MalformedMessage
from fedrap_core.privacy import NOISE_KEY_BYTES
from fedrap_core.wire.keys import (
    new_private_key,
    private_from_bytes,
    private_to_bytes,
    public_point,
)
from fedrap_core.wire.seal import seal_id


@dataclass(frozen=True, eq=False, repr=False)
class Keyring:
    """The keys in force. Has no repr, so that none can reach a log."""

    seal: ec.EllipticCurvePrivateKey
    noise: bytes

    @property
    def seal_id(self) -> bytes:
        """The name of the sealing key."""
        return seal_id(self.seal.public_key())

    @property
    def seal_point(self) -> bytes:
        """The public sealing key that offers carry."""
        return public_point(self.seal.public_key())


def fresh_keyring() -> Keyring:
    """Keys that live as long as the process."""
    return Keyring(new_private_key(), os.urandom(NOISE_KEY_BYTES))


def open_keyring(folder: Path) -> Keyring:
    """The keys of a folder, made on first use with rights for the owner alone.

    Raises:
        ConfigError: a key file is damaged or cannot be read or written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_half(folder)
        noise = _read_or_write(folder / "noise.key", os.urandom(NOISE_KEY_BYTES))
        seal = _read_or_write(folder / "seal.key", private_to_bytes(new_private_key()))
    except OSError as error:
        raise ConfigError(f"keys folder {folder}: {error.strerror}") from error
    try:
        if len(noise) != NOISE_KEY_BYTES:
            raise MalformedMessage(f"noise.key must have {NOISE_KEY_BYTES} bytes")
        return Keyring(private_from_bytes(seal), noise)
    except MalformedMessage as error:
        raise ConfigError(f"keys folder {folder}: {error}; restore it from its backup") from error


def _refuse_half(folder: Path) -> None:
    """Keys are made together; when one is gone, a new one in its place would break promises."""
    if (folder / "seal.key").exists() and not (folder / "noise.key").exists():
        # noise.key is made first, so this is no crash in the middle of making them.
        raise ConfigError(f"keys folder {folder}: noise.key is missing; restore it from its backup")


def _read_or_write(path: Path, fresh: bytes) -> bytes:
    """The key in a file; a crash while it is first written leaves no half-written key behind."""
    if not path.exists():
        part = path.with_suffix(".part")
        part.unlink(missing_ok=True)
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(fresh.hex().encode("ascii") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    try:
        return bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        return b""
