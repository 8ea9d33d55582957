"""The helper's secrets: identity, noise key, and one sealing key for each open round.

They live in a folder of their own, never in the database. A round's key is destroyed when the round
is closed or over, so that nobody can open its reports ever after.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_aggregator.errors import ConfigError
from fedrap_core.errors import MalformedMessage
from fedrap_core.privacy.mechanisms import NOISE_KEY_BYTES
from fedrap_core.wire.keys import (
    new_private_key,
    private_from_bytes,
    private_to_bytes,
    public_point,
)

PrivateKey = ec.EllipticCurvePrivateKey


class Keys(Protocol):
    """What rounds need of keys."""

    identity: PrivateKey
    noise: bytes

    def round_key(self, round_id: bytes, *, make: bool) -> PrivateKey | None:
        """The sealing key of a round, made where asked; None where there is none."""
        ...

    def destroy_all_but(self, rounds: Collection[bytes]) -> int:
        """Destroy the keys of every other round; how many there were."""
        ...


class KeyFolder:
    """Keys in files that their owner alone can read. Its repr shows nothing."""

    def __init__(
        self, folder: Path, token_bytes: Callable[[int], bytes] = os.urandom, *, make: bool = False
    ) -> None:
        """The keys of a folder; with `make` those that are missing are made.

        Raises:
            ConfigError: a key is missing or damaged.
        """
        self._folder = folder
        try:
            if make:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _write_once(folder / "noise.key", token_bytes(NOISE_KEY_BYTES))
                _write_once(folder / "identity.key", private_to_bytes(new_private_key()))
            self.noise = _read(folder / "noise.key")
            self.identity = private_from_bytes(_read(folder / "identity.key"))
        except OSError as error:
            raise ConfigError(
                f"{error.filename}: {error.strerror}; `fedrap-aggregator init` makes keys"
            ) from error
        except MalformedMessage as error:
            raise ConfigError(f"{folder}/identity.key: {error}; restore it") from error
        if len(self.noise) != NOISE_KEY_BYTES:
            raise ConfigError(f"{folder}/noise.key is damaged; a new one needs a new task")

    def __repr__(self) -> str:
        return "KeyFolder(...)"

    @property
    def pin(self) -> str:
        """What apps pin: the identity's point, as hex."""
        return public_point(self.identity.public_key()).hex()

    def round_key(self, round_id: bytes, *, make: bool) -> PrivateKey | None:
        """See `Keys`."""
        path = self._folder / f"round-{round_id.hex()}.key"
        if make:
            _write_once(path, private_to_bytes(new_private_key()))
        return private_from_bytes(_read(path)) if path.exists() else None

    def destroy_all_but(self, rounds: Collection[bytes]) -> int:
        """See `Keys`."""
        kept = {f"round-{round_id.hex()}.key" for round_id in rounds}
        gone = [path for path in self._folder.glob("round-*.key") if path.name not in kept]
        for path in gone:
            size = path.stat().st_size
            with path.open("r+b") as file:  # best effort: what a disk keeps is its own affair
                file.write(bytes(size))
                file.flush()
                os.fsync(file.fileno())
            path.unlink()
        return len(gone)


def _write_once(path: Path, raw: bytes) -> None:
    """A key file, whole or not at all; one that is there stays."""
    if path.exists():
        return
    half = path.with_suffix(".new")
    descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(raw.hex().encode("ascii") + b"\n")
        file.flush()
        os.fsync(file.fileno())
    half.rename(path)


def _read(path: Path) -> bytes:
    try:
        return bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        return b""
