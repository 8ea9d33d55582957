"""Where the store's key comes from: by default a file beside it that only its owner may read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fedrap.errors import StoreLocked

KEY_BYTES = 32
KeyProvider = Callable[[], bytes]


def key_file(path: Path) -> KeyProvider:
    """A provider that keeps 32 random bytes in a file with mode 0600, made on first use."""

    def provide() -> bytes:
        if not path.exists():
            part = path.with_suffix(".part")
            part.unlink(missing_ok=True)
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(os.urandom(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
        return path.read_bytes()

    return provide


def checked_key(provider: KeyProvider) -> bytes:
    """The provider's key.

    Raises:
        StoreLocked: it is not 32 bytes long.
    """
    key = provider()
    if len(key) != KEY_BYTES:
        raise StoreLocked(f"a store key has {KEY_BYTES} bytes, this one has {len(key)}")
    return key
