"""A history that moves to another device: an export that can be read back, sealed if asked.

The file is the zip of `export`. With a passphrase it is one AES-256-GCM record around that zip,
with a key from scrypt (RFC 7914); whoever has the file and not the passphrase has nothing.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from fedrap import arguments
from fedrap.errors import BrokenExport
from fedrap.results import Interaction
from fedrap.rounds.ledger import Entry

MAGIC = b"fedrap sealed export 1\n"
MOST_BYTES = 64_000_000  # of a file, and of what is in it
_SALT, _NONCE = 16, 12
# A zip that is none, is torn, wants a password, or holds something else than an export.
_BROKEN = (
    zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, KeyError, TypeError,
    AttributeError, OverflowError, OSError,
)  # fmt: skip
_COST = 2**15  # 32 MB and some 0.1 s for each try


@dataclass(frozen=True)
class Moved:
    """What an export brings to another device. Consent stays behind: every device asks."""

    interactions: list[Interaction]
    hidden: list[str]
    entries: list[Entry]  # the ledger: what was spent was spent by the same person


def seal(raw: bytes, passphrase: str, random_bytes: Callable[[int], bytes] = os.urandom) -> bytes:
    """An export that only the passphrase opens."""
    salt, nonce = random_bytes(_SALT), random_bytes(_NONCE)
    sealed = AESGCM(_key(passphrase, salt)).encrypt(nonce, raw, MAGIC)
    return MAGIC + salt + nonce + sealed


def read_export(path: Path, passphrase: str | None) -> Moved:
    """What a file of `export` holds, checked whole before anything is kept.

    Raises:
        BrokenExport: it is none, needs another passphrase, or holds something impossible.
        OSError: it cannot be read.
    """
    if path.stat().st_size > MOST_BYTES:
        raise BrokenExport(f"an export has at most {MOST_BYTES} bytes")
    raw = path.read_bytes()
    if raw.startswith(MAGIC):
        raw = _opened(raw, passphrase)
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            return Moved(
                [_interaction(one) for one in _document(archive, "interactions.json")],
                [arguments.item("item", one) for one in _document(archive, "hidden.json")],
                [_entry(one) for one in _document(archive, "ledger.json")],
            )
    except _BROKEN as error:
        raise BrokenExport(f"this is no export ({error}); nothing was taken over") from error


def _opened(raw: bytes, passphrase: str | None) -> bytes:
    if passphrase is None:
        raise BrokenExport("this export is sealed: give the passphrase that it was made with")
    start = len(MAGIC)
    salt, nonce = raw[start : start + _SALT], raw[start + _SALT : start + _SALT + _NONCE]
    try:
        cipher = AESGCM(_key(passphrase, salt))
        return cipher.decrypt(nonce, raw[start + _SALT + _NONCE :], MAGIC)
    except (InvalidTag, ValueError) as error:
        raise BrokenExport("the passphrase does not open this export, or it is damaged") from error


def _key(passphrase: str, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, n=_COST, r=8, p=1).derive(passphrase.encode("utf-8"))


def _document(archive: zipfile.ZipFile, name: str) -> list[Any]:
    if name not in archive.namelist():
        return []  # of a version that had no such file
    if archive.getinfo(name).file_size > MOST_BYTES:
        raise ValueError(f"{name} is too large")
    found = json.loads(archive.read(name))
    if not isinstance(found, list):
        raise ValueError(f"{name} is no list")
    return found


def _interaction(one: dict[str, Any]) -> Interaction:
    return arguments.interaction(
        Interaction(one["item"], one["kind"], one["weight"], _seconds(one))
    )


def _entry(one: dict[str, Any]) -> Entry:
    noise = one["noise"]
    return Entry(
        arguments.count("step", one["step"]),
        bytes.fromhex(one["round"]),
        arguments.number("noise", noise, 0.0, math.inf, "a number from 0 up is expected"),
        arguments.number("delta", one["delta"], 0.0, 1.0, arguments.SHARE),
        _seconds(one),
        question=one.get("question") is True,
    )


def _seconds(one: dict[str, Any]) -> float:
    """Since 1970. Version 0.1 wrote a date alone."""
    at: str | float = one.get("seconds", one["at"])
    return datetime.fromisoformat(at).timestamp() if isinstance(at, str) else at
