"""From signed bytes to a durable row: verify, unseal, decode off the event loop, then in batches.

Keys of devices, CPU work and writes are batched each: under load a batch of fifty costs one hop
to a thread, or one commit. A request is answered when its row is on the disk.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_coordinator.domain.decisions import (
    RoundCounts,
    Rule,
    SlotRequest,
    SlotResult,
    Submission,
    SubmissionResult,
)
from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.identity.authentication import Signed
from fedrap_coordinator.rounds.aggregation import Aggregator, check_envelope, read_update
from fedrap_coordinator.rounds.batching import Batcher
from fedrap_coordinator.settings import IngestLimits
from fedrap_coordinator.store.protocol import Store
from fedrap_core.errors import FedRapError
from fedrap_core.model import CommonItems
from fedrap_core.wire import problems
from fedrap_core.wire.keys import public_from_point
from fedrap_core.wire.messages import Offer
from fedrap_core.wire.signing import signed_bytes, verify

KEPT_KEYS = 20_000  # of devices that asked lately, ready for use; about 1 kB each
_ALL = b""  # the key of batches that are about no round

Job: TypeAlias = Callable[[], object]


@dataclass(frozen=True)
class RoundContext:
    """What an update is held against: its round's offer and C."""

    offer: Offer
    common: CommonItems


@dataclass(frozen=True)
class Checked:
    """A signature was good; why the update cannot be counted all the same, if so."""

    digest: bytes
    fault: FedRapError | None


class Ingest:
    """The way in for requests of devices in rounds. `clock` gives seconds of wall time."""

    def __init__(
        self,
        store: Store,
        aggregator: Aggregator,
        limits: IngestLimits,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._aggregator = aggregator
        self._clock = clock
        self._keys: OrderedDict[bytes, ec.EllipticCurvePublicKey] = OrderedDict()
        # One thread: two of them would fight over the interpreter, and the event loop would lose.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fedrap-cpu")
        size, delay, most = limits.batch, limits.delay_seconds, limits.max_requests
        self._look_ups = Batcher(self._look_up, size, 0.0, most)
        self._jobs = Batcher(self._work, 16, 0.0, most)
        self._places: Batcher[tuple[bytes, Rule], SlotRequest, tuple[SlotResult, RoundCounts]]
        self._places = Batcher(self._give, size, delay, most)
        self._updates: Batcher[tuple[bytes, int], Submission, tuple[SubmissionResult, RoundCounts]]
        self._updates = Batcher(self._keep, size, delay, most)

    async def close(self) -> None:
        """Finish what came in."""
        for batcher in (self._look_ups, self._jobs, self._places, self._updates):
            await batcher.close()
        self._thread.shutdown()

    async def prove(self, signed: Signed) -> None:
        """Returns when that device signed this. Its nonce is counted where the request is.

        Raises:
            Refusal, SignatureInvalid: the device is not known, or did not.
        """
        key = await self._key(signed.device)
        await self._do(lambda: _verify(key, signed))

    async def check(self, signed: Signed, opening: RoundContext | None) -> Checked:
        """Like `prove`; and, where its round is open, can the update be counted?"""
        key, aggregator = await self._key(signed.device), self._aggregator

        def job() -> Checked:
            _verify(key, signed)
            fault = None if opening is None else _fault(signed, opening, aggregator)
            return Checked(hashlib.sha256(signed.body).digest(), fault)

        done = await self._do(job)
        assert isinstance(done, Checked)
        return done

    async def place(
        self, round_id: bytes, ask: SlotRequest, rule: Rule
    ) -> tuple[SlotResult, RoundCounts]:
        """A place, charged and kept, or why not."""
        return await self._places.put((round_id, rule), ask)

    async def update(
        self, round_id: bytes, sent: Submission, most: int
    ) -> tuple[SubmissionResult, RoundCounts]:
        """An update that is on the disk, or why not."""
        return await self._updates.put((round_id, most), sent)

    async def _key(self, device: bytes) -> ec.EllipticCurvePublicKey:
        """A device keeps its key for life, so a known one is good; the batch sees who left."""
        known = self._keys.get(device)
        if known is not None:
            self._keys.move_to_end(device)
            return known
        point = await self._look_ups.put(_ALL, device)
        if point is None:
            raise Refusal(problems.NOT_ENROLLED)
        known = public_from_point(point)
        self._keys[device] = known
        if len(self._keys) > KEPT_KEYS:
            self._keys.popitem(last=False)
        return known

    async def _do(self, job: Job) -> object:
        answer = await self._jobs.put(_ALL, job)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _look_up(self, _: bytes, devices: Sequence[bytes]) -> Sequence[bytes | None]:
        return await self._store.device_keys(devices)

    async def _work(self, _: bytes, jobs: Sequence[Job]) -> Sequence[object]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, _run, jobs)

    async def _give(
        self, key: tuple[bytes, Rule], asks: Sequence[SlotRequest]
    ) -> Sequence[tuple[SlotResult, RoundCounts]]:
        places, tally = await self._store.assign_slots(key[0], asks, key[1], self._clock())
        return [(place, tally) for place in places]

    async def _keep(
        self, key: tuple[bytes, int], sent: Sequence[Submission]
    ) -> Sequence[tuple[SubmissionResult, RoundCounts]]:
        added, tally = await self._store.add_updates(key[0], sent, key[1], self._clock())
        return [(one, tally) for one in added]


def _run(jobs: Sequence[Job]) -> list[object]:
    """Every job's answer, or what it raised."""
    answers: list[object] = []
    for job in jobs:
        try:
            answers.append(job())
        except Exception as error:
            answers.append(error)
    return answers


def _verify(key: ec.EllipticCurvePublicKey, signed: Signed) -> None:
    message = signed_bytes(signed.method, signed.path, signed.body, signed.device, signed.nonce)
    verify(key, message, signed.signature)


def _fault(signed: Signed, opening: RoundContext, aggregator: Aggregator) -> FedRapError | None:
    """Why this update cannot be counted in that round; None when it can."""
    try:
        update = read_update(signed.body, aggregator.max_body_bytes)
        check_envelope(update, opening.offer, signed.device)
        aggregator.check(update, opening.common)
    except FedRapError as error:
        return error
    return None
