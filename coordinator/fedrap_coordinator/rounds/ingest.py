"""From signed bytes to a durable row: verify, unseal, decode off the event loop, then in batches.

Keys of devices, CPU work and writes are batched each: under load a batch of fifty costs one hop
to a thread, or one commit. A request is answered when its row is on the disk.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_coordinator.domain.decisions import (
    SlotRequest,
    SlotResult,
    SlotRule,
    Submission,
    SubmissionResult,
)
from fedrap_coordinator.domain.rounds import RoundCounts
from fedrap_coordinator.errors import Refusal, refusal_of
from fedrap_coordinator.identity.authentication import SignedRequest, verify_request
from fedrap_coordinator.rounds.aggregation import Aggregator, check_envelope, read_update
from fedrap_coordinator.rounds.batching import Batcher
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Clock
from fedrap_coordinator.store.protocol import Store
from fedrap_core.errors import FedRapError
from fedrap_core.model import CommonItems
from fedrap_core.plan import Plan
from fedrap_core.wire import problems
from fedrap_core.wire.authority import sign_message
from fedrap_core.wire.keys import public_from_point
from fedrap_core.wire.messages import Accepted, Offer, Signed

KEPT_KEYS = 20_000  # of devices that asked lately, ready for use; about 1 kB each
_ALL = b""  # the key of batches that are about no round

Job: TypeAlias = Callable[[], object]


@dataclass(frozen=True)
class RoundContext:
    """What an update is held against: its round's offer, C and plan; the offer as it is sent."""

    offer: Offer
    signed: Signed
    common: CommonItems
    plan: Plan


@dataclass(frozen=True)
class CheckedUpdate:
    """A signature was good; why the update cannot be counted all the same, if so."""

    digest: bytes
    receipt: Signed  # for when it is kept
    fault: Refusal | None


class Ingest:
    """The way in for requests of devices in rounds. `clock` gives seconds of wall time."""

    def __init__(
        self,
        store: Store,
        aggregator: Aggregator,
        settings: Settings,
        authority: ec.EllipticCurvePrivateKey,
        clock: Clock,
    ) -> None:
        self._store = store
        self._authority = authority
        self._aggregator = aggregator
        self._max_body_bytes = settings.serve.max_body_bytes
        self._clock = clock
        self._keys: OrderedDict[bytes, ec.EllipticCurvePublicKey] = OrderedDict()
        # One thread: two of them would fight over the interpreter, and the event loop would lose.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fedrap-cpu")
        limits = settings.ingest
        size, delay, most = limits.batch, limits.delay_seconds, limits.max_requests
        self._look_ups: Batcher[bytes, bytes, bytes | None]
        self._look_ups = Batcher(lambda _, devices: store.device_keys(devices), size, 0.0, most)
        self._jobs = Batcher(self._work, size, 0.0, most)
        self._slots: Batcher[tuple[bytes, SlotRule], SlotRequest, tuple[SlotResult, RoundCounts]]
        self._slots = Batcher(self._assign, size, delay, most)
        self._updates: Batcher[tuple[bytes, int], Submission, tuple[SubmissionResult, RoundCounts]]
        self._updates = Batcher(self._add, size, delay, most)

    async def close(self) -> None:
        """Finish what came in."""
        for batcher in (self._look_ups, self._jobs, self._slots, self._updates):
            await batcher.close()
        self._thread.shutdown()

    async def check_known(self, device: bytes) -> None:
        """Returns when there is a device of that id; raises Refusal."""
        if self._recent_key(device) is None:
            await self._key(device)

    async def authenticate(self, signed: SignedRequest) -> None:
        """Returns when that device signed this. Its nonce is counted where the request is.

        Raises:
            Refusal, SignatureInvalid: the device is not known, or did not.
        """
        key = self._recent_key(signed.device) or await self._key(signed.device)
        answer = await self._jobs.put(_ALL, lambda: verify_request(key, signed))
        if isinstance(answer, Exception):
            raise answer

    async def check(
        self,
        signed: SignedRequest,
        round_id: bytes,
        context: RoundContext | None,
        limit_rate: Callable[[bytes], None],
    ) -> CheckedUpdate:
        """Like `authenticate`; and, where its round is open, can the update be counted?

        `limit_rate` is asked when the signature was found good, before anything is opened. The
        receipt is signed here too: a hop to the thread of its own would cost more.
        """
        key = self._recent_key(signed.device) or await self._key(signed.device)

        def job() -> CheckedUpdate:
            verify_request(key, signed)
            limit_rate(signed.device)
            fault = None if context is None else self._fault(signed, context)
            accepted = Accepted(round=round_id, digest=signed.digest)
            return CheckedUpdate(signed.digest, sign_message(self._authority, accepted), fault)

        answer = await self._jobs.put(_ALL, job)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, CheckedUpdate)
        return answer

    def assign_slot(
        self, round_id: bytes, request: SlotRequest, rule: SlotRule
    ) -> Awaitable[tuple[SlotResult, RoundCounts]]:
        """A slot, charged and kept, or why not."""
        return self._slots.put((round_id, rule), request)

    def add_update(
        self, round_id: bytes, submission: Submission, max_updates: int
    ) -> Awaitable[tuple[SubmissionResult, RoundCounts]]:
        """An update that is on the disk, or why not."""
        return self._updates.put((round_id, max_updates), submission)

    def _recent_key(self, device: bytes) -> ec.EllipticCurvePublicKey | None:
        """A device keeps its key for life, so a known one is good; the batch sees who left."""
        known = self._keys.get(device)
        if known is not None:
            self._keys.move_to_end(device)
        return known

    async def _key(self, device: bytes) -> ec.EllipticCurvePublicKey:
        point = await self._look_ups.put(_ALL, device)
        if point is None:
            raise Refusal(problems.NOT_ENROLLED)
        known = public_from_point(point)
        self._keys[device] = known
        if len(self._keys) > KEPT_KEYS:
            self._keys.popitem(last=False)
        return known

    def _fault(self, signed: SignedRequest, context: RoundContext) -> Refusal | None:
        """Why this update cannot be counted in that round; None when it can.

        A problem and its words, never what was raised: that would keep all it had read alive.
        """
        try:
            update = read_update(signed.body, self._max_body_bytes)
            check_envelope(update, context.offer, signed.device)
            self._aggregator.check(update, context.common, context.plan)
        except FedRapError as error:
            refusal = refusal_of(error, lambda: 0.0)
            if refusal is None:
                raise
            return Refusal(refusal.problem, refusal.detail, refusal.retry_after)
        return None

    def _work(self, _: bytes, jobs: Sequence[Job]) -> Awaitable[Sequence[object]]:
        return asyncio.get_running_loop().run_in_executor(self._thread, _run, jobs)

    async def _assign(
        self, key: tuple[bytes, SlotRule], requests: Sequence[SlotRequest]
    ) -> Sequence[tuple[SlotResult, RoundCounts]]:
        results, counts = await self._store.assign_slots(key[0], requests, key[1], self._clock())
        return [(result, counts) for result in results]

    async def _add(
        self, key: tuple[bytes, int], submissions: Sequence[Submission]
    ) -> Sequence[tuple[SubmissionResult, RoundCounts]]:
        results, counts = await self._store.add_updates(key[0], submissions, key[1], self._clock())
        return [(result, counts) for result in results]


def _run(jobs: Sequence[Job]) -> list[object]:
    """Every job's answer, or what it raised."""
    answers: list[object] = []
    for job in jobs:
        try:
            answers.append(job())
        except Exception as error:
            answers.append(error.with_traceback(None))  # its frames hold the body
    return answers
