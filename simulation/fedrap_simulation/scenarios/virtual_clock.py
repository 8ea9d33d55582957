"""A clock that jumps: an event loop on which sleeping takes no time and nothing runs in threads.

Work that would go to a thread runs at once, so the order of everything follows from the program
alone: a run repeats for a seed. Code under it is the same asyncio code that serves real people.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(Exception):
    """Everything waits and nothing is due: on this clock it would wait for ever."""


class _Jumping(selectors.DefaultSelector):
    """A selector that lets time pass instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise Deadlock("every task waits and no timer is set")
        self.now += max(0.0, float(timeout))
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` is seconds since the start, and moves only when nothing else can."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)
        # What is due so soon is due now. asyncio's nanosecond is lost in the clock's last digit
        # from day 194 on: the loop would wait for ever for what is due at this very moment.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Seconds of this clock."""
        return self._jumping.now

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Here and now, whatever pool it was meant for."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            done.set_exception(error)
        return done


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, on a clock that jumps.

    Raises:
        Deadlock: everything waits and nothing is due.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
