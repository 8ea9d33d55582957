"""The lock around a device's state: whoever enters is told when the state cannot be used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType


class Gate:
    """A re-entrant lock that runs `check` on entering; what it raises, the caller gets."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._check = check

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._check()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def acquire(self, seconds: float) -> bool:
        """Take the lock without the check; False when others hold it for that long."""
        return self._lock.acquire(timeout=max(0.0, seconds))

    def release(self) -> None:
        """Give it back after `acquire`."""
        self._lock.release()
