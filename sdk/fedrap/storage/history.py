"""A device's history: the interactions in the order of their times, and how long they are kept.

`InteractionLog` holds them in memory with their numbers in the store; `Retention` says how many may
stay, and for how long. Neither touches the store.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fedrap import arguments
from fedrap.results import Interaction

_DAY = 86_400.0
_PART = 64  # a full history gives up this part of itself at once, so that most records cost nothing


class Timed(Protocol):
    """Whatever has a time."""

    @property
    def at(self) -> float:
        """Seconds since 1970."""
        ...


@dataclass(frozen=True)
class Retention:
    """A history has at most `max_interactions`, none of them older than `max_age_days`.

    What goes is gone from the store, with the rows of D that only it needed. A history that is
    full gives up its oldest 64th part, so from 64 on it holds a little less than the maximum.
    """

    max_interactions: int = 10_000
    max_age_days: float | None = None

    def __post_init__(self) -> None:
        if arguments.count("max_interactions", self.max_interactions) < 1:
            raise arguments.wrong("max_interactions", "a history keeps at least one interaction")
        age, rule = self.max_age_days, "an age in days lies above 0"
        if age is not None and arguments.number("max_age_days", age, 0.0, math.inf, rule) <= 0:
            raise arguments.wrong("max_age_days", rule)

    def oldest_allowed(self, now: float) -> float:
        """Interactions before this time have to go."""
        return -math.inf if self.max_age_days is None else now - self.max_age_days * _DAY

    def due(self, count: int, oldest: float, now: float) -> bool:
        """Does anything have to go? Cheap enough to ask at each record."""
        return count > self.max_interactions or oldest < self.oldest_allowed(now)

    def kept(self, history: Sequence[Timed], now: float) -> list[int]:
        """The indices of all that may stay; `history` is in the order of recording."""
        since = self.oldest_allowed(now)
        young = [index for index, one in enumerate(history) if one.at >= since]
        if len(young) <= self.max_interactions:
            return young
        return young[len(young) - self.max_interactions + self.max_interactions // _PART :]


class InteractionLog:
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

    @property
    def newest_number(self) -> int:
        """The largest number in the store; -1 when there is none."""
        return max((number for number, _ in self._numbered), default=-1)

    def numbered(self) -> list[tuple[int, Interaction]]:
        """Oldest first, each with its number in the store."""
        return list(self._numbered)

    def numbers(self) -> list[int]:
        """Their numbers in the store."""
        return [number for number, _ in self._numbered]

    def without(self, what: str | Interaction) -> tuple[InteractionLog, list[int]]:
        """Those that stay when one interaction goes, or all with an item; numbers of the others."""
        gone = {n for n, one in self._numbered if what in (one, one.item)}
        kept = [(number, one) for number, one in self._numbered if number not in gone]
        return InteractionLog(kept), sorted(gone)

    def due(self, retention: Retention, now: float) -> bool:
        """Is there anything that is not allowed any more?"""
        oldest = self.interactions[0].at if self.interactions else math.inf
        return retention.due(len(self), oldest, now)

    def allowed(self, retention: Retention, now: float) -> tuple[InteractionLog, list[int]]:
        """Those that may stay, and the numbers of the others."""
        kept = [self._numbered[index] for index in retention.kept(self.interactions, now)]
        staying = {number for number, _ in kept}
        return InteractionLog(kept), [
            number for number, _ in self._numbered if number not in staying
        ]


def _time(numbered: tuple[int, Interaction]) -> float:
    return numbered[1].at
