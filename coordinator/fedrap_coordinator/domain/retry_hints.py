"""When a refused device should come back: when it could help, and not all at once. Pure.

A round is expected to last as long as the last ones did, and never longer than `max_seconds`.
`RoundTiming` remembers how long they took, and how old the open one is by a clock that never jumps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median

from fedrap_coordinator.domain.records import DeviceRecord, RoundRow
from fedrap_coordinator.domain.rounds import OVER, Phase, Round, RoundLimits

REMEMBERED = 9  # rounds that the expectation is made from
_LONGER = 0.25  # of its age: how much longer a late round is expected to last
_SPREAD = 0.25  # of the waiting time, at the least: devices stopped by the same thing come apart


def expected_seconds(durations: Sequence[float], limits: RoundLimits) -> float:
    """How long a round will take: the median of the last ones, or `min_seconds` before any."""
    if not durations:
        return limits.min_seconds
    return min(max(0.0, median(durations)), limits.max_seconds)


def until_next_round(
    round_: Round | None, expected: float, limits: RoundLimits, now: float
) -> float:
    """Seconds until the open round is over, as far as one can tell.

    A round that is older than expected is taken to last a quarter longer than it did by now, so
    that a long night costs a device a few questions and not one every minute. `max_seconds` ends
    every round.
    """
    if round_ is None or round_.phase is not Phase.COLLECTING:
        return 0.0
    age = max(0.0, now - round_.opened_at)  # a clock that jumped back makes nobody wait longer
    return max(0.0, min(max(expected - age, _LONGER * age), limits.max_seconds - age))


def steps_to_rest(known: DeviceRecord, separation: int, step: int) -> int:
    """Steps that must be released before this device may join again."""
    return 0 if known.last_step is None else max(0, known.last_step + separation - step)


def until_old_enough(known: DeviceRecord, step: int, expected: float, now: float) -> float:
    """Seconds until a new key has waited long enough."""
    steps = max(0, known.first_step - step) * expected
    return max(known.not_before - now, min(steps, max(0.0, known.free_at - now)), 0.0)


def waiting_time(ready: int, limits: RoundLimits, rest: float) -> float:
    """Seconds over which devices are told to come that found no slot, where slots come evenly.

    As many come back in that time as there are slots in it, if `ready` devices could take part; and
    nobody waits for longer than a device rests.
    """
    return min(rest, limits.min_seconds * ready / limits.max_updates)


def come_back(seconds: float, least: float, uniform: float) -> float:
    """When to come back: not before `seconds` nor `least`, spread by `uniform` in [0, 1)."""
    return max(seconds, least) + max(least, _SPREAD * seconds) * uniform


class RoundTiming:
    """Remembers the last rounds. `clock` is wall time, `monotonic` never goes back; seconds."""

    def __init__(
        self,
        limits: RoundLimits,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._monotonic = monotonic
        self._durations: deque[float] = deque(maxlen=REMEMBERED)
        self._seen = (0.0, 0.0)  # by the monotonic clock, and how old the round was then

    @property
    def expected(self) -> float:
        """How long a round takes, in seconds."""
        return expected_seconds(self._durations, self._limits)

    def remember(self, rows: Sequence[RoundRow]) -> None:
        """Rounds of the history, the newest first."""
        opened = [row.opened_at for row in reversed(rows) if row.phase in OVER]
        self._durations.extend(b - a for a, b in pairwise(opened) if b > a)

    def begin(self, before: Round | None, round_: Round) -> None:
        """This round is the open one now; another process may have ended the one before."""
        if before is not None and round_.step == before.step + 1:
            self._durations.append(max(0.0, round_.opened_at - before.opened_at))
        self._seen = (self._monotonic(), max(0.0, self._clock() - round_.opened_at))

    def end(self, round_: Round) -> None:
        """It was released by this process."""
        self._durations.append(max(0.0, self.now(round_) - round_.opened_at))

    def now(self, round_: Round) -> float:
        """Wall time, but never less than has passed since the open round was first seen.

        A clock that is set back would otherwise keep a round open for as long.
        """
        since, age = self._seen
        return max(self._clock(), round_.opened_at + age + self._monotonic() - since)
