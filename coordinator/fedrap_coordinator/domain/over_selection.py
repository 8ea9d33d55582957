"""How many slots a round has now: one for each wanted update, and one for each that will not come.

A device that has a slot is charged, whether or not its update is counted. So slots are not given in
advance for those who might not answer, but one by one for those who did not: who has had one for
`answer_seconds` without an answer is taken to be gone. `over_selection` bounds how many that can
be. Pure.
"""

from __future__ import annotations

from collections import deque

from fedrap_coordinator.domain.rounds import Round, RoundLimits

_REMEMBERED = 512  # moments of one round; with more of them every second one is forgotten


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

    def slots(self, round_: Round | None, limits: RoundLimits, now: float) -> int:
        """How many devices may have a slot by now, those who have one counted."""
        if round_ is None or round_.id != self._round:
            return limits.max_updates
        due = [given for moment, given in self._seen if moment <= now - limits.answer_seconds]
        gone = max(0, max(due, default=0) - round_.accepted)
        return min(limits.slots, limits.max_updates + gone)
