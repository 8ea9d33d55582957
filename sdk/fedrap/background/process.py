"""What of an open device lives in the process: its background thread, forks, and the end.

An app stops a device, closes it, forks or simply ends; whichever comes, the store is given back in
bounded time, and a round that was cut short resumes where it was. Before a fork no device is in the
middle of a write and SQLite has nothing open. In the child the store still belongs to the parent:
the child's next call takes it if the parent has closed it (as when a program turns itself into a
daemon), and raises StoreBusy as long as it has not.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import math
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from fedrap.background.conditions import Conditions
from fedrap.background.scheduler import Background, Pace
from fedrap.errors import InsideEventLoop
from fedrap.results import RoundReport
from fedrap.rounds import eligibility
from fedrap.rounds.session import OnError, RoundSession, ignore
from fedrap.storage.device_state import DeviceState
from fedrap_core.errors import FedRapError

log = logging.getLogger(__name__)
CLOSE_SECONDS = 2.0
REFRESH_SECONDS = 4 * 3600.0  # between two looks for a release, where this device does not train
_NOT_SYNCED = frozenset(  # words of a round that ended before it looked for a release
    {
        eligibility.NO_CONSENT,
        eligibility.NO_TOKEN,
        eligibility.TOKEN_FAILED,
        eligibility.NOTHING_TO_SHARE,
        eligibility.LEDGER_LOST,
        eligibility.TOLD_TO_WAIT,
    }
)
T = TypeVar("T")


class Watched(Protocol):
    """An open device, as forks and the end of the process see it."""

    def before_fork(self) -> bool:
        """Come to rest; what it gives is handed to `after_fork_in_parent`."""
        ...

    def after_fork_in_parent(self, taken: bool) -> None:
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
    for device, taken in _resting.pop(threading.get_ident(), []):
        device.after_fork_in_parent(taken)


def _after_fork_in_child() -> None:
    _resting.clear()
    for device in _devices():
        device.after_fork_in_child()


def _close_all(monotonic: Callable[[], float] = time.monotonic) -> None:
    end = monotonic() + CLOSE_SECONDS
    for device in _devices():
        device.close_within(max(0.0, end - monotonic()))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
atexit.register(_close_all)


class DeviceProcess:
    """Owns the thread of one device. `on_error` is called with what its rounds swallow."""

    def __init__(
        self,
        state: DeviceState,
        session: RoundSession,
        on_error: OnError | None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self._state = state
        self._session = session
        self._on_error = on_error
        self._monotonic = monotonic
        self._uniform = uniform
        self._turn = threading.Lock()  # around starting and stopping
        self._background: Background | None = None
        self._conditions = Conditions()
        self._wait = 0.0  # seconds for a slot
        self._pace = Pace()
        self._refresh_at = -math.inf
        watch(self)

    def start(self, conditions: Conditions, pace: Pace) -> None:
        """Run rounds from now on; nothing when they run already."""
        with self._turn:
            self._state.check_usable()
            if not self.running:
                self._conditions, self._wait, self._pace = conditions, pace.wait, pace
                self._background = Background(self._round, pace, self.swallow, self._uniform)
                self._background.start()

    def stop(self, seconds: float = CLOSE_SECONDS) -> None:
        """Run no more; returns within that time."""
        with self._turn:
            background, self._background = self._background, None
        if background is not None:
            background.stop(seconds)

    def wake(self) -> None:
        """Something has changed that rounds may have waited for."""
        self._session.ask_again()
        background = self._background
        if background is not None:
            background.wake()

    @property
    def running(self) -> bool:
        """Do rounds run in the background?"""
        background = self._background
        return background is not None and background.alive

    def blocked_by(self) -> str | None:
        """Why a round would not run now; conditions count for rounds in the background only.

        Or why the last one did not, where the coordinator was not found to be what it should be, or
        refused this device for good.
        """
        device = self._state.snapshot()
        blocked = self._session.why_blocked(device)
        if blocked is None and self.running:
            blocked = self._conditions.blocked_by(ignore)
        return blocked or self._session.distrusted or self._session.refused(device)

    def close_within(self, seconds: float) -> None:
        """Stop, and give the store back."""
        end = self._monotonic() + seconds
        self.stop(seconds * 0.75)
        self._state.close(max(0.1, end - self._monotonic()))
        unwatch(self)

    def before_fork(self) -> bool:
        """Come to rest."""
        return self._state.before_fork()

    def after_fork_in_parent(self, taken: bool) -> None:
        """Go on."""
        self._state.after_fork_in_parent(taken)

    def after_fork_in_child(self) -> None:
        """No thread was inherited, and the store is the parent's."""
        self._turn = threading.Lock()
        self._background = None
        self._session.after_fork_in_child()
        self._state.after_fork_in_child()

    async def _round(self) -> RoundReport:
        report = await self._one_round()
        if self._conditions.blocked_by(self.swallow) is None:
            await self._session.answer_questions(self.swallow, REFRESH_SECONDS)
        return report

    async def _one_round(self) -> RoundReport:
        report = await self._session.run_round(
            self.swallow,
            self._wait,
            lambda: self._conditions.blocked_by(self.swallow),
            self._pace.refused,
        )
        if eligibility.stands(report.blocked_by):  # asked again in days; releases come all the same
            await self._refresh()
            left = report.retry_after or self._pace.refused
            return replace(report, retry_after=min(left, REFRESH_SECONDS))
        if report.blocked_by in _NOT_SYNCED:
            await self._refresh()
        if report.blocked_by == eligibility.TOLD_TO_WAIT and report.retry_after is not None:
            left = min(report.retry_after, REFRESH_SECONDS)  # releases come meanwhile
            return replace(report, retry_after=left)
        return report

    async def _refresh(self) -> None:
        """Who does not train is to have new releases too, as far as conditions and consent go."""
        now = self._monotonic()
        if now < self._refresh_at or self._conditions.blocked_by(self.swallow) is not None:
            return
        self._refresh_at = now + REFRESH_SECONDS * (0.5 + self._uniform())
        try:
            await self._session.sync()
        except FedRapError as error:
            self.swallow(error)

    def swallow(self, error: Exception) -> None:
        """Tell the app of an error that becomes a mere report."""
        log.warning("a round failed: %s", type(error).__name__)
        if self._on_error is not None:
            try:
                self._on_error(error)
            except Exception:
                log.exception("on_error itself failed")
