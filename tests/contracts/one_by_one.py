"""The batches of a store with one entry each, as tests like to ask."""

from __future__ import annotations

from fedrap_coordinator.domain.decisions import (
    Rule,
    SlotDecision,
    SlotRequest,
    Submission,
    SubmissionResult,
)
from fedrap_coordinator.store.protocol import Store
from fedrap_core.plan import Privacy

MANY = 1_000_000


async def assign(
    store: Store,
    round_id: bytes,
    device: bytes,
    step: int,
    separation: int,
    cap: int,
    now: float = 0.0,
) -> bool | None:
    """True: a new place. None: it had one. False: it gets none."""
    rule = Rule(step, MANY, Privacy(separation=separation, cap=cap))
    places, _ = await store.assign_slots(round_id, [SlotRequest(device)], rule, now)
    return {SlotDecision.NEW: True, SlotDecision.HAD: None}.get(places[0].given, False)


async def add_update(
    store: Store, round_id: bytes, device: bytes, digest: bytes, body: bytes, now: float
) -> SubmissionResult:
    """What became of it; the device has a place in the round, if need be by this."""
    if await store.device(device) is None:
        await store.add_tokens([device * 2], 0.0)
        await store.enrol(device * 2, device, b"key", 0.0)
    if not await store.is_assigned(round_id, device):
        rule = Rule(1, MANY, Privacy(separation=1, cap=MANY))
        await store.assign_slots(round_id, [SlotRequest(device)], rule, now)
    added, _ = await store.add_updates(
        round_id, [Submission(device, None, digest, body)], MANY, now
    )
    return added[0]
