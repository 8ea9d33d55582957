"""The batches of a store with one entry each, as tests like to ask, and looks into any store."""

from __future__ import annotations

from fedrap_coordinator.domain.decisions import SlotRequest, SlotRule, Submission, SubmissionResult
from fedrap_coordinator.domain.rounds import Phase
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
    """True: a new slot. None: it had one. False: it gets none."""
    rule = SlotRule(step, MANY, Privacy(separation=separation, cap=cap))
    results, _ = await store.assign_slots(round_id, [SlotRequest(device)], rule, now)
    if results[0].problem is not None:
        return False
    return True if results[0].is_new else None


async def add_update(
    store: Store, round_id: bytes, device: bytes, digest: bytes, body: bytes, now: float
) -> SubmissionResult:
    """What became of it; the device has a slot in the round, if need be by this."""
    if await store.device(device) is None:
        await store.add_tokens([device * 2], 0.0)
        await store.enrol(device * 2, device, b"key", 0.0)
    if not await is_assigned(store, round_id, device):
        rule = SlotRule(1, MANY, Privacy(separation=1, cap=MANY))
        await store.assign_slots(round_id, [SlotRequest(device)], rule, now)
    results, _ = await store.add_updates(
        round_id, [Submission(device, None, digest, body)], MANY, now
    )
    return results[0]


async def is_assigned(store: Store, round_id: bytes, device: bytes) -> bool:
    """Does the device have a slot in that round?"""
    return any([device in [one.device for one in some] async for some in store.charges(round_id)])


async def round_phase(store: Store, round_id: bytes) -> Phase | None:
    """The phase of any round ever opened; None when there was none."""
    return next((row.phase for row in await store.rounds(MANY) if row.id == round_id), None)
