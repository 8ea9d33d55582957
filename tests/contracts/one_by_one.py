"""The batches of a store with one entry each, as tests like to ask."""

from __future__ import annotations

from fedrap_coordinator.domain.decisions import Added, Ask, Given, Rule, Sent
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
    places, _ = await store.give_places(round_id, [Ask(device)], rule, now)
    return {Given.NEW: True, Given.HAD: None}.get(places[0].given, False)


async def add_update(
    store: Store, round_id: bytes, device: bytes, digest: bytes, body: bytes, now: float
) -> Added:
    """What became of it; the device has a place in the round, if need be by this."""
    if await store.device(device) is None:
        await store.add_tokens([device * 2], 0.0)
        await store.enrol(device * 2, device, b"key", 0.0)
    if not await store.is_assigned(round_id, device):
        rule = Rule(1, MANY, Privacy(separation=1, cap=MANY))
        await store.give_places(round_id, [Ask(device)], rule, now)
    added, _ = await store.add_updates(round_id, [Sent(device, None, digest, body)], MANY, now)
    return added[0]
