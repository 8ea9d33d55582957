"""What a batch of requests does to devices and to a round. Pure: every store asks here.

A store reads the rows that a batch is about, with a lock, asks one of these functions, and writes
what it says in the same transaction. So the law is in one place, for memory and SQL alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from fedrap_coordinator.domain.records import DeviceRecord
from fedrap_coordinator.domain.rounds import Phase
from fedrap_core.participation import why_not
from fedrap_core.plan import Privacy
from fedrap_core.wire import problems
from fedrap_core.wire.problems import Problem


@dataclass(frozen=True)
class SlotRequest:
    """A device asks for a place. Without a nonce its request was counted before."""

    device: bytes
    nonce: int | None = None


@dataclass(frozen=True)
class Submission:
    """A device sends an update. Without a body it can only be one that is there already."""

    device: bytes
    nonce: int | None
    digest: bytes
    body: bytes | None


@dataclass(frozen=True)
class RoundCounts:
    """A round as a transaction left it; no phase: there never was such a round."""

    phase: Phase | None
    assigned: int = 0
    accepted: int = 0


class SlotDecision(StrEnum):
    """What became of a `SlotRequest`."""

    NEW = "new"  # it has a place now, and was charged
    HAD = "had"  # it had one already
    FULL = "full"
    CLOSED = "closed"  # the round does not collect
    REPLAYED = "replayed"
    UNKNOWN = "unknown"  # no such device
    REVOKED = "revoked"
    EXPIRED = "expired"
    SPENT = "spent"  # as often as it may
    TOO_SOON = "too-soon"
    TOO_NEW = "too-new"


class SubmissionResult(StrEnum):
    """What became of an update."""

    STORED = "stored"
    DUPLICATE = "duplicate"  # the same bytes were stored before
    CONFLICT = "conflict"  # other bytes of this device are already in the round
    UNASSIGNED = "unassigned"  # no place in that round
    CLOSED = "closed"  # the round does not collect, or has all it takes
    REPLAYED = "replayed"
    UNKNOWN = "unknown"
    REVOKED = "revoked"
    EXPIRED = "expired"


@dataclass(frozen=True)
class SlotResult:
    """The answer to a `SlotRequest`, and the device as it is now."""

    given: SlotDecision
    device: DeviceRecord | None


@dataclass(frozen=True)
class Rule:
    """Who may have a place: the step, how many places there are, b and K."""

    step: int
    places: int
    privacy: Privacy


@dataclass
class SlotBatch:
    """Answers in order of the asks, and what to write."""

    answers: list[SlotResult]
    devices: dict[bytes, DeviceRecord]  # changed
    assigned: list[bytes]  # new places


@dataclass
class SubmissionBatch:
    """Answers in order of what was sent, and what to write."""

    answers: list[SubmissionResult]
    devices: dict[bytes, DeviceRecord]  # changed
    stored: list[Submission]


_WHY = {
    problems.BUDGET_SPENT: SlotDecision.SPENT,
    problems.TOO_SOON: SlotDecision.TOO_SOON,
    problems.TOO_NEW: SlotDecision.TOO_NEW,
}


def assign_slots(
    asks: Iterable[SlotRequest],
    tally: RoundCounts,
    devices: Mapping[bytes, DeviceRecord],
    had: Iterable[bytes],
    rule: Rule,
    now: float,
) -> SlotBatch:
    """One after the other: each sees what those before it were given."""
    batch, places, room = SlotBatch([], {}, []), set(had), rule.places - tally.assigned
    for ask in asks:
        known = batch.devices.get(ask.device) or devices.get(ask.device)
        known, refused = _proven(known, ask.nonce, now, batch.devices)
        if refused is not None or known is None:
            given = SlotDecision(refused or SlotDecision.UNKNOWN)
        elif tally.phase is not Phase.COLLECTING:
            given = SlotDecision.CLOSED
        elif ask.device in places:
            given = SlotDecision.HAD
        else:
            given = _given(known, rule, room, now)
            if given is SlotDecision.NEW:
                again = known.last_step == rule.step  # an abandoned round's step, charged before
                times = known.participations + (not again)
                known = replace(known, participations=times, last_step=rule.step)
                batch.devices[ask.device] = known
                batch.assigned.append(ask.device)
                places.add(ask.device)
                room -= 1
        batch.answers.append(SlotResult(given, known))
    return batch


def _given(known: DeviceRecord, rule: Rule, room: int, now: float) -> SlotDecision:
    problem = why_not(known.last_step, known.participations, rule.step, rule.privacy)
    if problem is None and known.last_step != rule.step:
        problem = why_too_new(known.first_step, known.not_before, known.free_at, rule.step, now)
    if problem is not None:
        return _WHY[problem]
    return SlotDecision.NEW if room > 0 else SlotDecision.FULL


def add_updates(
    sent: Sequence[Submission],
    tally: RoundCounts,
    devices: Mapping[bytes, DeviceRecord],
    places: frozenset[bytes],
    digests: Mapping[bytes, bytes],
    most: int,
    now: float,
) -> SubmissionBatch:
    """One after the other; `most` updates are all that the round takes."""
    batch, known_digests = SubmissionBatch([], {}, []), dict(digests)
    room = most - tally.accepted if tally.phase is Phase.COLLECTING else 0
    for one in sent:
        known = batch.devices.get(one.device) or devices.get(one.device)
        _, refused = _proven(known, one.nonce, now, batch.devices)
        before = known_digests.get(one.device)
        if refused is not None:
            answer = SubmissionResult(refused)
        elif before is not None:
            same = before == one.digest
            answer = SubmissionResult.DUPLICATE if same else SubmissionResult.CONFLICT
            if not same and tally.phase is not Phase.COLLECTING:
                answer = SubmissionResult.CLOSED
        elif one.body is None or tally.phase is not Phase.COLLECTING:
            answer = SubmissionResult.CLOSED
        elif one.device not in places:
            answer = SubmissionResult.UNASSIGNED
        elif room <= 0:
            answer = SubmissionResult.CLOSED
        else:
            answer, room = SubmissionResult.STORED, room - 1
            known_digests[one.device] = one.digest
            batch.stored.append(one)
        batch.answers.append(answer)
    return batch


def _proven(
    known: DeviceRecord | None,
    nonce: int | None,
    now: float,
    changed: dict[bytes, DeviceRecord],
) -> tuple[DeviceRecord | None, str | None]:
    """The device with its nonce raised, and why its request does not count, if so."""
    if known is None:
        return None, "unknown"
    if nonce is not None:
        if nonce <= known.last_nonce:
            return known, "replayed"
        known = replace(known, last_nonce=nonce)
        changed[known.id] = known
    if known.revoked_at is not None:
        return known, "revoked"
    if known.valid_until <= now:
        return known, "expired"
    return known, None


def why_too_new(
    first_step: int, not_before: float, free_at: float, step: int, now: float
) -> Problem | None:
    """None when a new key has waited long enough for a first place in `step`.

    Enrolling again, also after `forget`, gives a new key; its waiting keeps the separation.
    """
    waited = now >= not_before and (step >= first_step or now >= free_at)
    return None if waited else problems.TOO_NEW
