"""How many slots a round has now: one for each wanted update, and one for each that will not come.

Where K is spread over days, slots come evenly over `min_seconds`: so a cohort is made of devices of
every hour, and not of those who were first.

A device that has a slot is charged, whether or not its update is counted. So slots are not given in
advance for those who might not answer, but one by one for those who did not: who has had one for
`answer_seconds` without an answer is taken to be gone. `over_selection` bounds how many that can
be. Pure.
"""

from __future__ import annotations

import math
from collections import deque

from fedrap_coordinator.domain.rounds import Round, RoundLimits

_REMEMBERED = 512  # moments of one round; with more of them every second one is forgotten


def paced_slots(limits: RoundLimits, age: float) -> int:
    """How many of a round's slots have come by `age`, in seconds, where they come evenly."""
    if age >= limits.min_seconds:
        return limits.max_updates
    return max(1, math.ceil(limits.max_updates * age / limits.min_seconds))


def until_slot(round_: Round, limits: RoundLimits, age: float) -> float:
    """Seconds until the next slot comes; 0 where all have come, or one is there."""
    comes = limits.min_seconds * round_.assigned / limits.max_updates
    return max(0.0, min(comes, limits.min_seconds) - age)


class SlotPacing:
    """Remembers how many slots the open round had when."""

    def __init__(self) -> None:
        self._round = b""
        self._seen: deque[tuple[float, int]] = deque()  # moment, slots given by then

    def see(self, round_: Round | None, now: float) -> None:
        """The round as it is at this moment, of a clock that never goes back."""
        if round_ is None:
            return
        if round_.id != self._round:
            self._round, self._seen = round_.id, deque()
        if not self._seen or round_.assigned > self._seen[-1][1]:
            self._seen.append((now, round_.assigned))
        if len(self._seen) > _REMEMBERED:
            kept = list(self._seen)
            self._seen = deque([*kept[:-1:2], kept[-1]])

    def slots(
        self, round_: Round | None, limits: RoundLimits, now: float, age: float | None = None
    ) -> int:
        """How many devices may have a slot by now, those who have one counted.

        `age` of the round, where its slots come evenly.
        """
        come = limits.max_updates if age is None else paced_slots(limits, age)
        if round_ is None or round_.id != self._round:
            return come
        due = [given for moment, given in self._seen if moment <= now - limits.answer_seconds]
        gone = max(0, max(due, default=0) - round_.accepted)
        return min(limits.slots, come + gone)
