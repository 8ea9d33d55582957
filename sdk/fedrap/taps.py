"""The interactions of a device in memory: by their time, with their numbers in the store."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedrap.retention import Retention
from fedrap.store import Interaction


class Taps:
    """Oldest first, whatever the order in which they were recorded."""

    def __init__(self, numbered: Sequence[tuple[int, Interaction]]) -> None:
        self._numbered = sorted(numbered, key=_time)
        self.interactions = [one for _, one in self._numbered]

    def __len__(self) -> int:
        return len(self.interactions)

    @property
    def newest_at(self) -> float:
        """When the newest was; long ago when there is none."""
        return self.interactions[-1].at if self.interactions else -math.inf

    def add(self, numbers: Sequence[int], interactions: Sequence[Interaction]) -> bool:
        """Add some; False when one of them belongs between others."""
        times = [self.newest_at, *(one.at for one in interactions)]
        self._numbered += zip(numbers, interactions, strict=True)
        self.interactions += interactions
        if times == sorted(times):
            return True
        self._numbered.sort(key=_time)
        self.interactions = [one for _, one in self._numbered]
        return False

    def due(self, retention: Retention, now: float) -> bool:
        """Is there anything that is not allowed any more?"""
        oldest = self.interactions[0].at if self.interactions else math.inf
        return retention.due(len(self), oldest, now)

    def allowed(self, retention: Retention, now: float) -> tuple[Taps, list[int]]:
        """Those that may stay, and the numbers of the others."""
        kept = [self._numbered[place] for place in retention.kept(self.interactions, now)]
        staying = {number for number, _ in kept}
        return Taps(kept), [number for number, _ in self._numbered if number not in staying]


def _time(numbered: tuple[int, Interaction]) -> float:
    return numbered[1].at
