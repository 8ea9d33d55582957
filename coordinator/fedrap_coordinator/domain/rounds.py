"""The state machine of rounds: frozen values and one table of transitions. No I/O and no clock.

    COLLECTING ──► SUMMING ──► RELEASED
        │  ▲           └─────► ABANDONED     the sum gave no usable C
        │  └──── SHUTDOWN                    a round sleeps while the coordinator is down
        └──────────────────► ABANDONED       too few updates in max_seconds

A round collects for at least `min_seconds` and accepts at most `max_updates`, which end it at
once; after `min_seconds` it ends as soon as it has `min_updates`; without them it is abandoned
after `max_seconds`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec.structs import replace

from fedrap_core.plan import Count


class Phase(StrEnum):
    """Where a round is."""

    COLLECTING = "collecting"
    SUMMING = "summing"
    RELEASED = "released"
    ABANDONED = "abandoned"
    SHUTDOWN = "shutdown"


TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.COLLECTING: frozenset({Phase.SUMMING, Phase.ABANDONED, Phase.SHUTDOWN}),
    Phase.SUMMING: frozenset({Phase.RELEASED, Phase.ABANDONED}),
    Phase.SHUTDOWN: frozenset({Phase.COLLECTING}),
    Phase.RELEASED: frozenset(),
    Phase.ABANDONED: frozenset(),
}

OVER = frozenset({Phase.RELEASED, Phase.ABANDONED})


class RoundLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many updates and how many seconds a round takes."""

    min_updates: Count = 2
    max_updates: Count = 100
    min_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 60.0
    max_seconds: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 600.0
    over_selection: Annotated[float, msgspec.Meta(ge=1, le=10)] = 2.0  # slots per update, at most
    answer_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = (
        300.0  # then a slot is given anew
    )
    total: Count = 100  # T, rounds of the whole task

    @property
    def slots(self) -> int:
        """How many devices are asked for an update at the most; see over_selection.py."""
        return max(self.max_updates, round(self.max_updates * self.over_selection))

    def with_at_least(self, updates: int) -> RoundLimits:
        """The same, but for a minimum that is not below `updates`."""
        least = max(self.min_updates, updates)
        most = max(self.max_updates, least)
        return replace(self, min_updates=least, max_updates=most)

    def __post_init__(self) -> None:
        if self.max_updates < self.min_updates:
            raise ValueError("max_updates must be at least min_updates")
        if self.max_seconds < self.min_seconds:
            raise ValueError("max_seconds must be at least min_seconds")


class IllegalTransition(Exception):
    """A bug: the table does not allow that change of phase."""


class RoundCounts(msgspec.Struct, frozen=True):
    """A round's phase and counts as one transaction sees them; room in a round is decided here."""

    phase: Phase | None  # None: there never was such a round
    assigned: int = 0
    accepted: int = 0

    def has_slot(self, slots: int) -> bool:
        """May another device get one? There are more than needed, for some will not answer."""
        return self.phase is Phase.COLLECTING and self.assigned < slots

    def takes_update(self, max_updates: int) -> bool:
        """Is there room for another update?"""
        return self.phase is Phase.COLLECTING and self.accepted < max_updates

    def with_assigned(self) -> RoundCounts:
        """One more device has a slot."""
        return replace(self, assigned=self.assigned + 1)

    def with_accepted(self) -> RoundCounts:
        """One more update is stored."""
        return replace(self, accepted=self.accepted + 1)


class Round(msgspec.Struct, frozen=True):
    """One round as a value; every change gives a new one."""

    id: bytes
    step: int  # the release that this round makes is of this step
    release: int  # the version that devices train against
    opened_at: float
    phase: Phase = Phase.COLLECTING
    assigned: int = 0
    accepted: int = 0
    seal_id: bytes = b""  # the sealing key that its offers name, for all of its life
    helper: bytes = b""  # what they say of a second server, as bytes; empty: there is none

    def to(self, phase: Phase) -> Round:
        """The same round in another phase, where the table allows it."""
        if phase not in TRANSITIONS[self.phase]:
            raise IllegalTransition(f"{self.phase} -> {phase}")
        return replace(self, phase=phase)

    def tick(self, limits: RoundLimits, now: float) -> Round:
        """Where this round should be at `now`."""
        if self.phase is not Phase.COLLECTING:
            return self
        if self.accepted >= limits.max_updates:
            return self.to(Phase.SUMMING)
        age = now - self.opened_at
        if age >= limits.min_seconds and self.accepted >= limits.min_updates:
            return self.to(Phase.SUMMING)
        if age >= limits.max_seconds:
            return self.to(Phase.ABANDONED)
        return self
