"""How often somebody may ask: a bucket of tokens each, in memory that does not grow. Pure.

A bucket that is full again is forgotten, so only those who asked lately are remembered; when there
are too many even of these, the one that was used longest ago goes first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Annotated

import msgspec

Rate = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
MOST_BUCKETS = 100_000


class Pace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many requests at once, and then so many a minute."""

    burst: Rate
    per_minute: Rate


class Buckets:
    """A bucket for each name; `now` is in seconds and only ever grows."""

    def __init__(self, pace: Pace, most: int = MOST_BUCKETS) -> None:
        self._burst = pace.burst
        self._rate = pace.per_minute / 60.0
        self._most = most
        self._lock = threading.Lock()  # the event loop asks, and the thread that verifies
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def take(self, name: Hashable, now: float) -> float:
        """0.0, and a token is gone; or the seconds until there is one, and none is gone."""
        with self._lock:
            return self._take(name, now)

    def _take(self, name: Hashable, now: float) -> float:
        left, at = self._left.get(name, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - at) * self._rate)
        if left < 1.0:
            return (1.0 - left) / self._rate
        self._left[name] = (left - 1.0, now)
        self._left.move_to_end(name)
        self._forget(now)
        return 0.0

    def _forget(self, now: float) -> None:
        """Drop the oldest while it is full again, or while there are too many."""
        while self._left:
            name, (left, at) = next(iter(self._left.items()))
            full = left + (now - at) * self._rate >= self._burst
            if not full and len(self._left) <= self._most:
                return
            del self._left[name]
