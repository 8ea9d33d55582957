"""How long rounds take, and how old the open one is by a clock that does not jump back."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise

from fedrap_coordinator.pacing import REMEMBERED, expected_seconds
from fedrap_coordinator.rounds import OVER, Round, RoundLimits
from fedrap_coordinator.store.protocol import RoundRow


class Tempo:
    """Remembers the last rounds. `clock` gives seconds of wall time."""

    def __init__(self, limits: RoundLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
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
        self._seen = (time.monotonic(), max(0.0, self._clock() - round_.opened_at))

    def end(self, round_: Round) -> None:
        """It was released by this process."""
        self._durations.append(max(0.0, self.now(round_) - round_.opened_at))

    def now(self, round_: Round) -> float:
        """Wall time, but never less than has passed since the open round was first seen.

        A clock that is set back would otherwise keep a round open for as long.
        """
        since, age = self._seen
        return max(self._clock(), round_.opened_at + age + time.monotonic() - since)
