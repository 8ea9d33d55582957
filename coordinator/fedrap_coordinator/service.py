"""The coordinator: what devices ask of it, and the order in which its parts answer.

CPU work (verify, unseal, sum) runs in threads.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from fedrap_coordinator.admission import check_envelope, read_update
from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.participation import why_not, why_too_new
from fedrap_coordinator.releases import Model, Served
from fedrap_coordinator.rounds import Phase, Round
from fedrap_coordinator.serving import Serving
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.statement import privacy_document
from fedrap_coordinator.stepping import Stepper
from fedrap_coordinator.store.protocol import Added, Store
from fedrap_core.items import is_item_id
from fedrap_core.plan import Plan
from fedrap_core.wire import problems
from fedrap_core.wire.codec import encode_value
from fedrap_core.wire.messages import (
    Accepted,
    Catalogue,
    Offer,
    OfferRequest,
)


class Coordinator:
    """One task: its devices, its rounds, its releases. `clock` gives seconds of wall time."""

    def __init__(
        self, store: Store, keyring: Keyring, settings: Settings, clock: Callable[[], float]
    ) -> None:
        self.store = store
        self.keyring = keyring
        self._settings = settings
        self._clock = clock
        self._stepper = Stepper(store, keyring, settings, clock)
        self._serving = Serving(store, settings, self._stepper)

    @property
    def task(self) -> bytes:
        """The id of the task; known after `start`."""
        return self._stepper.task

    @property
    def round(self) -> Round | None:
        """The open round, as a value."""
        return self._stepper.round

    @property
    def model(self) -> Model | None:
        """The latest release."""
        return self._stepper.model

    @property
    def plan(self) -> Plan:
        """The plan of the open round, or of the next."""
        return self._stepper.plan

    @property
    def is_over(self) -> bool:
        """All rounds of the task were made."""
        return self._stepper.is_over

    @property
    def queue(self) -> tuple[int, int]:
        """Requests that wait for the batch writer, and the bytes of their bodies."""
        return 0, 0

    async def start(self) -> None:
        """Take up where the store left off: the latest release, and the round that was open.

        Raises:
            StoreUnavailable, ConfigError: nothing was changed, and the store was given back.
        """
        try:
            await self.store.open()
            await self._stepper.start()
        except BaseException:
            await self.store.close()
            raise

    async def stop(self) -> None:
        """Put the open round to sleep and give the store back."""
        async with self._stepper.turn:
            await self._stepper.sleep()
            await self.store.close()

    async def offer(self, device: bytes, request: OfferRequest) -> Offer:
        """A place in the open round for a device that may take part; asking twice costs once."""
        async with self._stepper.turn:
            await self._stepper.advance()
            round_, model = self._stepper.round, self._stepper.model
            if round_ is None and self._stepper.is_over:
                raise Refusal(problems.TASK_OVER)
            if round_ is None or model is None or round_.phase is not Phase.COLLECTING:
                raise self._later(problems.NO_ROUND)
            if request.release != round_.release:
                raise Refusal(
                    problems.STALE_MODEL,
                    f"this round trains release {round_.release}; fetch it and ask again",
                    retry_after=0,
                )
            if not await self.store.is_assigned(round_.id, device):
                await self._give_place(round_, device)
            return self._offer(round_, model)

    async def accept(self, device: bytes, round_id: bytes, body: bytes) -> Accepted:
        """Verify, unseal, decode, admit, store: what is answered with Accepted is never lost."""
        digest = hashlib.sha256(body).digest()
        receipt = Accepted(round=round_id, digest=digest)
        if await self.store.update_digest(round_id, device) == digest:
            return receipt
        try:
            await self._admit(device, round_id, digest, body)
        except Refusal as refusal:
            # The same bytes may have come in twice at once, and the first have ended the round.
            late = refusal.problem is problems.ROUND_CLOSED
            if not late or await self.store.update_digest(round_id, device) != digest:
                raise
        return receipt

    async def advance(self) -> None:
        """Let time pass: end, abandon or open rounds as the law says."""
        async with self._stepper.turn:
            await self._stepper.advance()

    async def release(self, version: int | None) -> Served:
        """A version of C, or the latest, ready to serve."""
        return await self._serving.release(version)

    async def release_since(self, have: int) -> Served:
        """The latest release for a device that holds version `have`: a delta where that pays."""
        return await self._serving.release_since(have)

    async def catalogue(self, start: int) -> Catalogue:
        """The items from row `start` on."""
        return await self._serving.catalogue(start)

    def privacy(self) -> dict[str, Any]:
        """What is promised under the plan in force; spec 5.7."""
        stepper = self._stepper
        released = 0 if stepper.model is None else stepper.model.stored.step
        return privacy_document(stepper.plan, self._settings.round, stepper.task, released)

    async def add_items(self, items: Sequence[str]) -> int:
        """New items get rows at once, and numbers in C with the next release.

        Raises:
            ConfigError: an id is empty, longer than 200 characters or has a line break.
        """
        for place, item in enumerate(items, 1):
            if not is_item_id(item):
                raise ConfigError(f"item {place}: an id has 1 to 200 characters and no line break")
        count = await self.store.add_items(items)
        await self.advance()
        return count

    async def _give_place(self, round_: Round, device: bytes) -> None:
        if not round_.has_room(self._settings.round):
            raise self._later(problems.NO_ROUND)
        rule, now = self._stepper.plan.privacy, self._clock()
        if await self.store.assign(round_.id, device, round_.step, rule.separation, rule.cap, now):
            self._stepper.count(round_.with_assigned())
            return
        known = await self.store.device(device)
        if known is None:
            raise Refusal(problems.NOT_ENROLLED)
        problem = why_not(known.last_step, known.participations, round_.step, rule)
        if problem is problems.BUDGET_SPENT:
            raise Refusal(problem)  # time does not cure it
        new = why_too_new(known.first_step, known.not_before, known.free_at, round_.step, now)
        raise self._later(problem or new or problems.TOO_SOON)

    def _offer(self, round_: Round, model: Model) -> Offer:
        age = self._clock() - round_.opened_at
        return Offer(
            task=self.task,
            round=round_.id,
            step=round_.step,
            plan=encode_value(self._stepper.plan),
            release=round_.release,
            model=model.message.model,
            seal_key=self.keyring.point(round_.seal_id),
            seal_id=round_.seal_id,
            closes_in=max(0.0, self._settings.round.max_seconds - age),
        )

    async def _open_offer(self, round_id: bytes) -> tuple[Offer, Model]:
        """The open round's offer; refuses with the reason when `round_id` is not that round."""
        round_, model = self._stepper.round, self._stepper.model
        if round_ is not None and model is not None and round_.id == round_id:
            if round_.phase is Phase.COLLECTING:
                return self._offer(round_, model), model
        elif await self.store.round_phase(round_id) is None:
            raise Refusal(problems.NOT_FOUND, "there never was such a round")
        raise self._later(problems.ROUND_CLOSED)

    async def _admit(self, device: bytes, round_id: bytes, digest: bytes, body: bytes) -> None:
        update = read_update(body, self._settings.serve.max_body_bytes)
        offer, model = await self._open_offer(round_id)
        check_envelope(update, offer, device)
        if not await self.store.is_assigned(round_id, device):
            raise Refusal(problems.NOT_ASSIGNED)
        await asyncio.to_thread(self._stepper.aggregator.check, update, model.common)
        async with self._stepper.turn:
            await self._keep(device, round_id, digest, body)
            await self._stepper.advance()

    async def _keep(self, device: bytes, round_id: bytes, digest: bytes, body: bytes) -> None:
        round_ = self._stepper.round
        if round_ is None or round_.id != round_id or round_.phase is not Phase.COLLECTING:
            raise self._later(problems.ROUND_CLOSED)
        added = await self.store.add_update(round_id, device, digest, body, self._clock())
        if added is Added.CONFLICT:
            raise Refusal(problems.CONFLICTING_UPDATE)
        if added is Added.STORED:
            self._stepper.count(round_.with_accepted())

    def _later(self, problem: problems.Problem) -> Refusal:
        """A refusal that says when to come back, spread so that devices do not all come at once."""
        wait = self._settings.serve.retry_seconds
        spread = int.from_bytes(os.urandom(2), "big") / 65536
        return Refusal(problem, retry_after=wait * (1 + spread))
