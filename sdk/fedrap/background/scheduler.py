"""Rounds in the background: a pure decision of when to try again, and a thin thread around it.

The thread is a daemon, is made by `start()`, and is not there in a forked child.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from fedrap import arguments
from fedrap.errors import StoreClosed
from fedrap.results import RoundReport
from fedrap.rounds import eligibility

log = logging.getLogger(__name__)
_LONGEST_EXPONENT = 30
_LEAST = 1.0  # seconds, even for a coordinator that says "at once"
_WAITING = frozenset(  # for something on this device; nobody was asked
    {
        eligibility.NO_CONSENT,
        eligibility.OFFLINE,
        eligibility.NO_SERVER,
        eligibility.NO_TOKEN,
        eligibility.NOTHING_TO_SHARE,
        eligibility.LEDGER_LOST,
        eligibility.ALREADY_RUNNING,
        eligibility.NOT_CHARGING,
        eligibility.METERED,
        eligibility.NOT_IDLE,
        eligibility.LOW_BATTERY,
    }
)
_TROUBLE = frozenset(
    {
        eligibility.UNREACHABLE,
        eligibility.BROKEN_RELEASE,
        eligibility.ANOTHER_AUTHORITY,
        eligibility.NOT_SIGNED,
        eligibility.FORKED_RELEASE,
        eligibility.FAILED,
        eligibility.TOKEN_FAILED,
        "internal",
    }
)


@dataclass(frozen=True)
class Pace:
    """How often a device tries, in seconds."""

    period: float = 900.0  # between two rounds when all is well
    look: float = 60.0  # between two looks at the conditions
    backoff: float = 30.0  # after the first failure; doubles with each
    longest: float = 86_400.0  # whatever a coordinator or the backoff says
    first: float = 10.0  # at the most, before the first try
    wait: float = 20.0  # for a slot, where there is none at once
    refused: float = 172_800.0  # after an answer that stands until somebody does something

    def __post_init__(self) -> None:
        for name in ("period", "look", "backoff", "longest", "refused"):
            if arguments.seconds(name, getattr(self, name)) <= 0:
                raise arguments.wrong(name, "a time of a pace lies above 0")
        for name in ("first", "wait"):
            arguments.seconds(name, getattr(self, name))


def is_trouble(report: RoundReport) -> bool:
    """Does this count as a failure in a row?"""
    return report.blocked_by in _TROUBLE


def next_delay(report: RoundReport, failures: int, pace: Pace, uniform: float) -> float:
    """Seconds until the next try.

    The coordinator's own wish comes first; trouble doubles the delay; `uniform` in [0, 1) spreads
    devices that were stopped by the same thing. What the coordinator refused for good it is not
    asked again before its day, however often a round is tried: see `RoundSession`.
    """
    if report.retry_after is not None:
        return min(max(_LEAST, report.retry_after) * (1 + 0.1 * uniform), pace.longest)
    if is_trouble(report):
        doubled = pace.backoff * 2.0 ** min(max(0, failures - 1), _LONGEST_EXPONENT)
        return min(doubled, pace.longest) * (0.5 + 0.5 * uniform)
    if report.blocked_by in _WAITING:
        return min(pace.look, pace.longest)
    return min(pace.period * (0.9 + 0.2 * uniform), pace.longest)


class Background:
    """Runs `attempt` again and again in a thread of its own, until `stop`."""

    def __init__(
        self,
        attempt: Callable[[], Coroutine[Any, Any, RoundReport]],
        pace: Pace,
        on_error: Callable[[Exception], None],
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self._attempt = attempt
        self._pace = pace
        self._on_error = on_error
        self._uniform = uniform
        self._turn = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[RoundReport]] | None = None
        self._thread = threading.Thread(target=self._work, name="fedrap-rounds", daemon=True)

    def start(self) -> None:
        """Once."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Is the thread there, and not told to stop?"""
        return self._thread.is_alive() and not self._stopping

    def wake(self) -> None:
        """Try now: something has changed."""
        self._wake.set()

    def stop(self, seconds: float) -> bool:
        """End it, also in the middle of a round, which resumes where it was when it is run again.

        False when it is not over within that time; it then ends by itself.
        """
        with self._turn:
            self._stopping = True
            running = self._task
        self._wake.set()
        if running is not None:
            with contextlib.suppress(RuntimeError):  # that loop is over already
                running[0].call_soon_threadsafe(running[1].cancel)
        if self._thread is not threading.current_thread():
            self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def _work(self) -> None:
        failures, delay = 0, self._uniform() * self._pace.first
        while True:
            self._wake.wait(delay)
            self._wake.clear()
            if self._stopping:
                return
            try:
                report = asyncio.run(self._one())
            except (StoreClosed, asyncio.CancelledError):
                return
            except Exception as error:  # nobody else would see it
                self._on_error(error)
                report = RoundReport(False, eligibility.FAILED)
            failures = failures + 1 if is_trouble(report) else 0
            delay = next_delay(report, failures, self._pace, self._uniform())
            log.debug("background: joined %s, %s", report.joined, report.blocked_by)

    async def _one(self) -> RoundReport:
        task = asyncio.current_task()
        assert task is not None
        with self._turn:
            if self._stopping:
                raise asyncio.CancelledError
            self._task = (asyncio.get_running_loop(), task)
        try:
            return await self._attempt()
        finally:
            with self._turn:
                self._task = None
