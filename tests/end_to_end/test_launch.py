"""What `init` writes never stands still: populations that arrive in any order see release after
release, on a clock that jumps from one question to the next.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
import pytest

from fedrap_coordinator.domain.decisions import needs_new_keys
from fedrap_coordinator.domain.rounds import Round, RoundLimits
from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.http.device_api import COORDINATOR, REGISTRY
from fedrap_coordinator.identity.authentication import SignedRequest
from fedrap_coordinator.privacy.recipe import SPREAD_DAYS, Expected, derive
from fedrap_coordinator.settings import DAY, Settings
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.protocol import Store
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import Enrol, OfferRequest
from fedrap_core.wire.signing import sign, signed_bytes
from testkit.harness import LiveServer, serve
from testkit.load_client import CheapDevice, one_row

ITEMS = 30
MINUTE = 60.0
BASE = 1_700_000_000.0
AGAIN = 6 * 3600.0  # when a device asks again that took part, where it need not rest


@dataclass
class Clock:
    """Jumps where it is told to."""

    seconds: float = BASE

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Walk:
    """Devices that ask when they were told to, one after the other."""

    served: LiveServer
    clock: Clock
    settings: Settings
    joined: int = 0
    refused: int = 0
    made_at: list[float] = field(default_factory=list)  # of each release of a round

    async def run(self, arrivals: Sequence[float], steps: int, most_days: float) -> None:
        """Until there are so many releases, or so many days went by.

        An arrival is a time after the start, or below zero: so long after the first release.
        """
        coordinator = self.served.app[COORDINATOR]
        turns = [(BASE + at, number) for number, at in enumerate(arrivals) if at >= 0]
        late = [(-at, number) for number, at in enumerate(arrivals) if at < 0]
        devices: dict[int, CheapDevice] = {}
        heapq.heapify(turns)
        while turns and len(self.made_at) < steps and turns[0][0] < BASE + most_days * DAY:
            at, number = heapq.heappop(turns)
            self.clock.seconds = max(self.clock.seconds, at)
            await coordinator.advance()
            if number not in devices:
                devices[number] = await self._enrolled(number)
            wait = await self._turn(devices[number])
            heapq.heappush(turns, (self.clock.seconds + wait, number))
            model = coordinator.model
            assert model is not None
            if model.stored.step > len(self.made_at):
                self.made_at.append(self.clock.seconds)
                for after, other in late:
                    heapq.heappush(turns, (self.clock.seconds + after, other))
                late = []

    async def _enrolled(self, number: int) -> CheapDevice:
        device, coordinator = CheapDevice(number % ITEMS), self.served.app[COORDINATOR]
        message = Enrol(token=await self.served.token(), public_key=device.point)
        device.id = (await self.served.app[REGISTRY].enrol(message, coordinator.task)).device
        return device

    async def _turn(self, device: CheapDevice) -> float:
        """Ask for a slot and use it; seconds until this device asks again."""
        coordinator = self.served.app[COORDINATOR]
        assert coordinator.model is not None
        version = coordinator.model.stored.version
        try:
            asked = _signed(device, "/v1/offers", encode(OfferRequest(release=version)))
            signed = await coordinator.offer(asked)
            offer = device.offer_in(encode(signed))
            body = device.sealed(offer, one_row(device.number, self.settings.method.dim))
            path = f"/v1/rounds/{offer.round.hex()}/updates"
            await coordinator.accept(_signed(device, path, body), offer.round)
        except Refusal as refusal:
            self.refused += 1
            return DAY if refusal.retry_after is None else max(1.0, refusal.retry_after)
        await coordinator.advance()
        self.joined += 1
        return max(AGAIN, self.settings.privacy.rest)  # by its own ledger


def _signed(device: CheapDevice, path: str, body: bytes) -> SignedRequest:
    device.nonce += 1
    signature = sign(device.key, signed_bytes("POST", path, body, device.id, device.nonce))
    return SignedRequest(device.id, device.nonce, signature, "POST", path, body)


ORDERS: dict[str, Callable[[int], list[float]]] = {
    "all at once": lambda devices: [0.0] * devices,
    "one a minute": lambda devices: [MINUTE * number for number in range(devices)],
    "half after the first release": lambda devices: [
        0.0 if number < math.ceil(devices / 2) else -MINUTE * number for number in range(devices)
    ],
}


def as_init_writes_it(devices: int, epsilon: float | None, spread: float) -> Settings:
    settings = derive(Expected(devices, ITEMS, epsilon, spread_days=spread), anyway=True).settings
    # Here they ask one after the other: no request has to wait for others of its batch.
    ingest = msgspec.structs.replace(settings.ingest, delay_seconds=0.0)
    return msgspec.structs.replace(settings, ingest=ingest)


async def walk(
    store: Store,
    devices: int,
    epsilon: float | None,
    order: str,
    steps: int,
    spread: float = SPREAD_DAYS,
) -> Walk:
    settings, clock = as_init_writes_it(devices, epsilon, spread), Clock()
    items = [f"item-{row}" for row in range(ITEMS)]
    async with serve(settings, store, clock=clock, items=items, monotonic=clock) as served:
        made = Walk(served, clock, settings)
        await made.run(ORDERS[order](devices), steps, most_days=10.0 + 2 * spread)
    return made


def longest_gap(made_at: Sequence[float]) -> float:
    times = [BASE, *made_at]
    return max(after - before for before, after in pairwise(times))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("devices", "epsilon", "spread"),
    [(5, None, 30.0), (23, None, 0.0), (40, 8.0, 30.0), (40, 8.0, 0.0)],
)
async def test_releases_go_on_whoever_arrives_when(
    devices: int, epsilon: float | None, spread: float, order: str
) -> None:
    made = await walk(MemoryStore(), devices, epsilon, order, 5, spread)
    assert len(made.made_at) == 5
    assert longest_gap(made.made_at) <= 2 * made.settings.round.max_seconds
    if spread:  # each was told a date on which it found a slot, new keys that were let in, too
        assert made.refused <= 1.5 * made.joined


async def test_k_lasts_as_long_as_the_operator_said_and_devices_get_one_date() -> None:
    made = await walk(MemoryStore(), 60, None, "all at once", steps=12)
    limits, rule = made.settings.round, made.settings.privacy
    assert len(made.made_at) == 12
    assert longest_gap(made.made_at) <= 1.5 * limits.min_seconds  # every few hours have a cohort
    days = (made.made_at[-1] - BASE) / DAY
    assert days >= 0.8 * rule.rest * rule.cap * 12 / limits.total / DAY
    assert made.refused <= 1.5 * made.joined


@pytest.mark.parametrize("order", ["one a minute", "half after the first release"])
async def test_releases_go_on_in_every_database(database: str, order: str) -> None:
    made = await walk(SqlStore(database), 5, None, order, steps=4)
    assert len(made.made_at) == 4


@pytest.mark.long
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("devices", "epsilon"), [(2, None), (100, None), (300, 8.0), (1000, None), (10_000, 8.0)]
)
async def test_releases_go_on_in_every_size(
    devices: int, epsilon: float | None, order: str
) -> None:
    made = await walk(MemoryStore(), devices, epsilon, order, steps=5)
    assert len(made.made_at) == 5


@pytest.mark.parametrize(
    ("assigned", "ready", "age", "expected"),
    [
        (0, 3, 0.0, False),
        (0, 2, 0.0, True),
        (2, 1, 0.0, False),  # who has a slot may still send
        (0, 50, 249.0, False),
        (0, 50, 250.0, True),  # they had a quarter of max_seconds, and did not come
    ],
)
def test_new_keys_are_let_in_where_a_round_cannot_be_made_without(
    assigned: int, ready: int, age: float, expected: bool
) -> None:
    limits = RoundLimits(min_updates=3, max_updates=3, min_seconds=10.0, max_seconds=1000.0)
    round_ = Round(b"r" * 16, 2, 1, BASE, assigned=assigned)
    assert needs_new_keys(round_, ready, limits, BASE + age) is expected
