"""What of an open device lives in the process: rounds in the background, and its end.

An app stops it, closes it, forks or simply ends; whichever comes, the store is given back in
bounded time, and a round that was cut short resumes where it was.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from fedrap import lifecycle
from fedrap.background import Background, Pace
from fedrap.conditions import Conditions
from fedrap.joining import Joiner, ignore
from fedrap.results import RoundReport
from fedrap.state import DeviceState

log = logging.getLogger(__name__)
OnError = Callable[[Exception], None]


class Runtime:
    """Owns the thread of one device. `on_error` hears what its rounds swallow."""

    def __init__(self, state: DeviceState, joiner: Joiner, on_error: OnError | None) -> None:
        self._state = state
        self._joiner = joiner
        self._on_error = on_error
        self._turn = threading.Lock()  # around starting and stopping
        self._background: Background | None = None
        self._conditions = Conditions()
        self._wait = 0.0  # seconds for a place
        lifecycle.watch(self)

    def start(self, conditions: Conditions, pace: Pace) -> None:
        """Run rounds from now on; nothing when they run already."""
        with self._turn:
            self._state.now_usable()
            if not self.running:
                self._conditions, self._wait = conditions, pace.wait
                self._background = Background(self._round, pace, self._hear)
                self._background.start()

    def stop(self, seconds: float = lifecycle.CLOSE_SECONDS) -> None:
        """Run no more; returns within that time."""
        with self._turn:
            background, self._background = self._background, None
        if background is not None:
            background.stop(seconds)

    def wake(self) -> None:
        """Something has changed that rounds may have waited for."""
        background = self._background
        if background is not None:
            background.wake()

    @property
    def running(self) -> bool:
        """Do rounds run in the background?"""
        background = self._background
        return background is not None and background.alive

    def blocked_by(self) -> str | None:
        """Why a round would not run now; conditions count for rounds in the background only."""
        blocked = self._joiner.blocked_by()
        if blocked is None and self.running:
            return self._conditions.blocked_by(ignore)
        return blocked

    def close_within(self, seconds: float) -> None:
        """Stop, and give the store back."""
        end = time.monotonic() + seconds
        self.stop(seconds * 0.75)
        self._state.close(max(0.1, end - time.monotonic()))
        lifecycle.unwatch(self)

    def before_fork(self) -> bool:
        """Come to rest."""
        return self._state.before_fork()

    def after_fork_in_parent(self, held: bool) -> None:
        """Go on."""
        self._state.after_fork_in_parent(held)

    def after_fork_in_child(self) -> None:
        """No thread was inherited, and the store is the parent's."""
        self._turn = threading.Lock()
        self._background = None
        self._joiner.after_fork_in_child()
        self._state.after_fork_in_child()

    async def _round(self) -> RoundReport:
        if self._joiner.blocked_by() is None:
            unmet = self._conditions.blocked_by(self._hear)
            if unmet is not None:
                return RoundReport(False, unmet)
        return await self._joiner.run_round(self._hear, self._wait)

    def _hear(self, error: Exception) -> None:
        log.warning("a round in the background failed: %s", type(error).__name__)
        if self._on_error is not None:
            try:
                self._on_error(error)
            except Exception:
                log.exception("on_error itself failed")
