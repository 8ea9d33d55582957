"""Where the store's key comes from: the system's keyring, a file of its owner, or the app.

`DefaultKey` decides once, when a store is made, and the folder remembers it: `store.keyid` names
an entry of the keyring, `store.key` is the key itself. A store never gets a second key.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedrap.errors import StoreLocked
from fedrap.storage.files import DATABASE, KEY_FILE, KEY_ID, PROFILE, WRAPPED

log = logging.getLogger(__name__)
KEY_BYTES = 32
KeyProvider = Callable[[], bytes]
RandomBytes = Callable[[int], bytes]
_SERVICE = "fedrap"


@runtime_checkable
class ErasableKey(Protocol):
    """A provider whose key is kept outside the store's folder, and which can delete it."""

    def erase(self) -> None:
        """Delete the key for good."""
        ...


def key_file(path: Path, random_bytes: RandomBytes = os.urandom) -> KeyProvider:
    """A provider that keeps 32 random bytes in a file with mode 0600, made on first use."""

    def provide() -> bytes:
        if not path.exists():
            _write_private(path, random_bytes(KEY_BYTES))
        return path.read_bytes()

    return provide


class KeyringKey:
    """A provider that keeps the key in the system's keyring, under a random name in `path`."""

    def __init__(self, path: Path, keyring: Any, random_bytes: RandomBytes = os.urandom) -> None:
        self._path = path
        self._keyring = keyring
        self._random_bytes = random_bytes

    def __call__(self) -> bytes:
        if not self._path.exists():
            name, key = self._random_bytes(16).hex(), self._random_bytes(KEY_BYTES)
            self._keyring.set_password(_SERVICE, name, key.hex())
            _write_private(self._path, name.encode("ascii"))
        text = self._keyring.get_password(_SERVICE, self._name())
        if text is None:
            raise StoreLocked(
                "the keyring has no key for this store; restore it, or delete the store's folder"
            )
        return bytes.fromhex(text)

    def erase(self) -> None:
        """Delete the entry."""
        if self._path.exists():
            self._keyring.delete_password(_SERVICE, self._name())

    def _name(self) -> str:
        return self._path.read_text("ascii")


class KeptForProfiles:
    """The app's key for the store without a profile: it stays as long as it opens profiles."""

    def __init__(self, folder: Path, app: KeyProvider) -> None:
        self._folder = folder
        self._app = app

    def __call__(self) -> bytes:
        return self._app()

    def erase(self) -> None:
        """Delete it, where it can be and opens nothing else."""
        key: object = self._app
        if isinstance(key, ErasableKey) and not any(self._folder.glob(f"{PROFILE}*")):
            key.erase()


class WrappedKey:
    """A provider for one profile of several: random bytes, sealed with the key of the app.

    Erasing the profile deletes them. The app's own key stays, for it opens other profiles too.
    """

    def __init__(self, folder: Path, app: KeyProvider, random_bytes: RandomBytes) -> None:
        self._path = folder / WRAPPED
        self._app = app
        self._random_bytes = random_bytes

    def __call__(self) -> bytes:
        cipher, context = AESGCM(checked_key(self._app)), self._path.parent.name.encode()
        if not self._path.exists():
            key, nonce = self._random_bytes(KEY_BYTES), self._random_bytes(12)
            _write_private(self._path, nonce + cipher.encrypt(nonce, key, context))
        sealed = self._path.read_bytes()
        try:
            return cipher.decrypt(sealed[:12], sealed[12:], context)
        except (InvalidTag, ValueError) as error:
            raise StoreLocked(
                "the app's key does not open this profile; give the key that it was made with, "
                "or delete the profile's folder to start afresh"
            ) from error


class DefaultKey:
    """The provider of an app that names none: the keyring where it works, else a file."""

    def __init__(self, folder: Path, random_bytes: RandomBytes = os.urandom) -> None:
        self._folder = folder
        self._random_bytes = random_bytes
        self._ring: KeyringKey | None = None

    def __call__(self) -> bytes:
        named, kept = self._folder / KEY_ID, self._folder / KEY_FILE
        database = self._folder / DATABASE
        if named.exists():
            return self._from_keyring(named)
        if not kept.exists():
            if database.exists() and database.stat().st_size:
                raise StoreLocked(
                    f"{KEY_FILE} is gone, and nothing else opens this store; "
                    "restore it, or delete the store's folder"
                )
            if keyring_works(self._random_bytes):
                return self._from_keyring(named)
        log.warning("no keyring in use: the store's key is a file beside it, %s", kept)
        return key_file(kept, self._random_bytes)()

    def _from_keyring(self, named: Path) -> bytes:
        try:
            self._ring = KeyringKey(named, importlib.import_module("keyring"), self._random_bytes)
            return self._ring()
        except StoreLocked:
            raise
        except Exception as error:  # backends raise what they like: locked, no desktop, no bus
            raise StoreLocked(
                f"the key of this store is in a keyring that does not answer: {error!r}"
            ) from error

    def erase(self) -> None:
        """Delete the entry of the keyring, if that is where the key is; files go with the store."""
        if self._ring is not None:
            self._ring.erase()


def keyring_works(random_bytes: RandomBytes = os.urandom) -> bool:
    """Is the `keyring` library installed, and does it keep what it is given?"""
    try:
        keyring = importlib.import_module("keyring")
        if keyring.get_keyring().priority < 1:  # its own word for "not recommended"
            return False
        probe, word = f"probe-{random_bytes(8).hex()}", random_bytes(8).hex()
        keyring.set_password(_SERVICE, probe, word)
        try:
            return bool(keyring.get_password(_SERVICE, probe) == word)
        finally:
            keyring.delete_password(_SERVICE, probe)
    except Exception:  # not installed, or any trouble of a backend
        return False


def checked_key(provider: KeyProvider) -> bytes:
    """The provider's key.

    Raises:
        StoreLocked: it is not 32 bytes long.
    """
    key = provider()
    if len(key) != KEY_BYTES:
        raise StoreLocked(f"a store key has {KEY_BYTES} bytes, this one has {len(key)}")
    return key


def _write_private(path: Path, raw: bytes) -> None:
    """A file with mode 0600 that is there whole or not at all."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
