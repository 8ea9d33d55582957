"""What a batch of requests does to devices and to a round. Pure: every store decides here.

A store reads the rows that a batch is about, with a lock, calls one of these functions, and writes
what it says in the same transaction. So memory and SQL decide alike. A refusal is a `Problem` of
the wire from here on: nobody translates it on its way to the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from fedrap_coordinator.domain.charges import counted, dearest, idle, with_charge, with_cost
from fedrap_coordinator.domain.records import DeviceRecord
from fedrap_coordinator.domain.rounds import Phase, Round, RoundCounts, RoundLimits
from fedrap_core.participation import why_not
from fedrap_core.plan import Privacy
from fedrap_core.privacy.accounting import step_cost
from fedrap_core.wire import problems
from fedrap_core.wire.problems import Problem


class SlotRequest(msgspec.Struct, frozen=True):
    """A device asks for a slot. Without a nonce its request was counted before."""

    device: bytes
    nonce: int | None = None


class SlotResult(msgspec.Struct, frozen=True):
    """A slot, new or had already; or the problem that keeps the device from one."""

    device: DeviceRecord | None  # as it is now; None when there is no such device
    problem: Problem | None = None
    is_new: bool = False  # it was charged for this slot just now


@dataclass(frozen=True, eq=False)
class SlotRule:
    """Who may have a slot: the step, how many slots there are, b and K. One object for a round."""

    step: int
    slots: int
    privacy: Privacy
    new_keys: bool = False  # new keys need not wait for steps: see `needs_new_keys`


class Submission(msgspec.Struct, frozen=True):
    """A device sends an update. Without a body it can only be one that is there already."""

    device: bytes
    nonce: int | None
    digest: bytes
    body: bytes | None


class SubmissionResult(msgspec.Struct, frozen=True):
    """An update that is in the round, or the problem that keeps it out."""

    problem: Problem | None = None
    is_duplicate: bool = False  # the same bytes were stored before


STORED = SubmissionResult()
DUPLICATE = SubmissionResult(is_duplicate=True)


@dataclass
class SlotBatch:
    """Results in order of the requests, and what to write."""

    counts: RoundCounts  # of the round, after this batch
    results: list[SlotResult]
    devices: dict[bytes, DeviceRecord]  # changed
    assigned: list[bytes]  # new slots


@dataclass
class SubmissionBatch:
    """Results in order of the submissions, and what to write."""

    counts: RoundCounts  # of the round, after this batch
    results: list[SubmissionResult]
    devices: dict[bytes, DeviceRecord]  # changed
    stored: list[Submission]


def assign_slots(
    requests: Iterable[SlotRequest],
    counts: RoundCounts,
    devices: Mapping[bytes, DeviceRecord],
    assigned: Iterable[bytes],
    rule: SlotRule,
    now: float,
) -> SlotBatch:
    """One after the other: each sees what those before it were given."""
    batch, have_slots = SlotBatch(counts, [], {}, []), set(assigned)
    for request in requests:
        known = batch.devices.get(request.device) or devices.get(request.device)
        known, problem = authenticated(known, request.nonce, now, batch.devices)
        if problem is not None or known is None:
            result = SlotResult(known, problem)
        elif batch.counts.phase is not Phase.COLLECTING:
            result = SlotResult(known, problems.NO_ROUND)
        elif request.device in have_slots:
            result = SlotResult(known)
        elif (problem := _why_no_slot(known, rule, batch.counts, now)) is not None:
            result = SlotResult(known, problem)
        else:
            known = _charged(known, rule, now)
            batch.counts = batch.counts.with_assigned()
            batch.devices[request.device] = known
            batch.assigned.append(request.device)
            have_slots.add(request.device)
            result = SlotResult(known, is_new=True)
        batch.results.append(result)
    return batch


def _why_no_slot(
    known: DeviceRecord, rule: SlotRule, counts: RoundCounts, now: float
) -> Problem | None:
    privacy, times = rule.privacy, counted(known, now, rule.privacy)
    problem = why_not(known.last_step, times, rule.step, privacy, idle(known, now))
    if problem is None and known.last_step != rule.step:
        first_step = 0 if rule.new_keys else known.first_step
        problem = why_too_new(first_step, known.not_before, known.free_at, rule.step, now)
    if problem is None and not counts.has_slot(rule.slots):
        problem = problems.NO_ROUND
    return problem


def _charged(known: DeviceRecord, rule: SlotRule, now: float) -> DeviceRecord:
    """The step of an abandoned round that is tried again is charged once, by the dearer rule."""
    cost = step_cost(rule.privacy.charged_noise)
    if known.last_step == rule.step:
        more = cost - known.last_cost if cost > known.last_cost else 0.0
        spent, last = known.spent + more, known.last_cost + more
        charges = with_cost(known.charges, last)
        most = dearest(charges, now, rule.privacy)
        return replace(known, spent=spent, last_cost=last, charges=charges, dearest=most)
    charges = with_charge(known.charges, now, cost)
    return replace(
        known,
        participations=known.participations + 1,
        last_step=rule.step,
        spent=known.spent + cost,
        last_cost=cost,
        charges=charges,
        dearest=dearest(charges, now, rule.privacy),
    )


def add_updates(
    submissions: Sequence[Submission],
    counts: RoundCounts,
    devices: Mapping[bytes, DeviceRecord],
    assigned: frozenset[bytes],
    digests: Mapping[bytes, bytes],
    max_updates: int,
    now: float,
) -> SubmissionBatch:
    """One after the other; `max_updates` are all that the round takes."""
    batch, known_digests = SubmissionBatch(counts, [], {}, []), dict(digests)
    for one in submissions:
        known = batch.devices.get(one.device) or devices.get(one.device)
        _, problem = authenticated(known, one.nonce, now, batch.devices)
        before = known_digests.get(one.device)
        if problem is None and before == one.digest:
            batch.results.append(DUPLICATE)
            continue
        if problem is None:
            problem = _why_not_stored(one, before, batch.counts, assigned, max_updates)
        if problem is None:
            batch.counts = batch.counts.with_accepted()
            known_digests[one.device] = one.digest
            batch.stored.append(one)
        batch.results.append(SubmissionResult(problem))
    return batch


def _why_not_stored(
    one: Submission,
    before: bytes | None,
    counts: RoundCounts,
    assigned: frozenset[bytes],
    max_updates: int,
) -> Problem | None:
    if counts.phase is None:
        return problems.NOT_FOUND
    if counts.phase is Phase.SHUTDOWN:  # it only sleeps: the same bytes are worth sending again
        return problems.UNAVAILABLE
    if counts.phase is not Phase.COLLECTING:
        return problems.ROUND_CLOSED
    if before is not None:
        return problems.CONFLICTING_UPDATE
    if one.body is None:  # who received it could not check it against the round
        return problems.UNAVAILABLE
    if one.device not in assigned:
        return problems.NOT_ASSIGNED
    return None if counts.takes_update(max_updates) else problems.ROUND_CLOSED


def authenticated(
    known: DeviceRecord | None,
    nonce: int | None,
    now: float,
    changed: dict[bytes, DeviceRecord],
) -> tuple[DeviceRecord | None, Problem | None]:
    """The device with its nonce raised, and why its request does not count, if so."""
    if known is None:
        return None, problems.NOT_ENROLLED
    if nonce is not None:
        if nonce <= known.last_nonce:
            return known, problems.REPLAYED
        known = replace(known, last_nonce=nonce)
        changed[known.id] = known
    if known.revoked_at is not None:
        return known, problems.REVOKED
    if known.valid_until <= now:
        return known, problems.CERTIFICATE_EXPIRED
    return known, None


def needs_new_keys(round_: Round, ready: int, limits: RoundLimits, now: float) -> bool:
    """Can this round not be made without devices whose keys wait for steps?

    So it is where those who have a slot and those who could have one (`ready`) are too few, as
    after the first release of a small population; and where they had long enough and stayed away.
    """
    patience = max(limits.min_seconds, limits.max_seconds / 4)
    late = now - round_.opened_at >= patience
    return late or round_.assigned + ready < limits.min_updates


def why_too_new(
    first_step: int, not_before: float, free_at: float, step: int, now: float
) -> Problem | None:
    """None when a new key has waited long enough for a first slot in `step`.

    Enrolling again, also after `forget`, gives a new key; its waiting keeps the separation.
    """
    waited = now >= not_before and (step >= first_step or now >= free_at)
    return None if waited else problems.TOO_NEW
