"""How much of the history a device keeps, and for how long. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_DAY = 86_400.0
_PART = 64  # a full history gives up this part of itself at once, so that most taps cost nothing


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
        if self.max_interactions < 1:
            raise ValueError("a history keeps at least one interaction")
        if self.max_age_days is not None and not self.max_age_days > 0:
            raise ValueError("an age in days lies above 0")

    def oldest_allowed(self, now: float) -> float:
        """Interactions before this time have to go."""
        return -math.inf if self.max_age_days is None else now - self.max_age_days * _DAY

    def due(self, count: int, oldest: float, now: float) -> bool:
        """Does anything have to go? Cheap enough to ask at each tap."""
        return count > self.max_interactions or oldest < self.oldest_allowed(now)

    def kept(self, history: Sequence[Timed], now: float) -> list[int]:
        """The places in `history`, which is in the order of recording, of all that may stay."""
        since = self.oldest_allowed(now)
        young = [place for place, one in enumerate(history) if one.at >= since]
        if len(young) <= self.max_interactions:
            return young
        return young[len(young) - self.max_interactions + self.max_interactions // _PART :]
