"""What happens to open devices when the process forks or ends, and blocking calls of async verbs.

Before a fork no device is in the middle of a write and SQLite has nothing open. In the child the
store still belongs to the parent: the child's next call takes it if the parent has closed it (as
when a program turns itself into a daemon), and raises StoreBusy as long as it has not.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from fedrap.errors import InsideEventLoop

CLOSE_SECONDS = 2.0
T = TypeVar("T")


class Watched(Protocol):
    """An open device."""

    def before_fork(self) -> bool:
        """Come to rest; what it gives is handed to `after_fork_in_parent`."""
        ...

    def after_fork_in_parent(self, held: bool) -> None:
        """Go on."""
        ...

    def after_fork_in_child(self) -> None:
        """Let go of what is the parent's."""
        ...

    def close_within(self, seconds: float) -> None:
        """Give everything back, within that time."""
        ...


_open: dict[int, weakref.ref[Watched]] = {}
_resting: dict[int, list[tuple[Watched, bool]]] = {}  # by the thread that forks


def watch(device: Watched) -> None:
    """Tell this device of forks and of the end of the process, for as long as it lives."""
    number = id(device)
    _open[number] = weakref.ref(device, lambda _: _open.pop(number, None))


def unwatch(device: Watched) -> None:
    """It was closed."""
    _open.pop(id(device), None)


def run_blocking(name: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The blocking form of an async verb.

    Raises:
        InsideEventLoop: there is a loop in this thread, which a blocking call would stop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    raise InsideEventLoop(
        f"{name}() would block the event loop that runs here: use `await {name}_async()`"
    )


def _devices() -> list[Watched]:
    """In one order for all threads, so that two forks at once cannot lock each other out."""
    found = (reference() for _, reference in sorted(_open.copy().items()))
    return [device for device in found if device is not None]


def _before_fork() -> None:
    _resting[threading.get_ident()] = [(device, device.before_fork()) for device in _devices()]


def _after_fork_in_parent() -> None:
    for device, held in _resting.pop(threading.get_ident(), []):
        device.after_fork_in_parent(held)


def _after_fork_in_child() -> None:
    _resting.clear()
    for device in _devices():
        device.after_fork_in_child()


def _close_all() -> None:
    end = time.monotonic() + CLOSE_SECONDS
    for device in _devices():
        device.close_within(max(0.0, end - time.monotonic()))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
atexit.register(_close_all)
