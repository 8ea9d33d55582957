"""Places in rounds: who gets one, who is told to come back and when, and who waits for one.

A device that says it is willing to wait is answered when something has changed that may help it:
a round opened, a release came out. So a round costs what its work costs, and nobody polls.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from fedrap_coordinator.domain import retry_hints
from fedrap_coordinator.domain.decisions import Rule, SlotDecision, SlotRequest, SlotResult
from fedrap_coordinator.domain.rounds import Phase, Round
from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.identity.authentication import Signed
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.driver import RoundDriver
from fedrap_coordinator.rounds.ingest import Ingest, RoundContext
from fedrap_coordinator.rounds.releases import Model
from fedrap_coordinator.settings import Settings
from fedrap_core.errors import FedRapError
from fedrap_core.wire import problems
from fedrap_core.wire.codec import decode, encode_value
from fedrap_core.wire.messages import Offer, OfferRequest

SMALL = 4096  # bytes of an offer request
_NOWHERE = b""  # no round: only the nonce is counted
_WORTH_WAITING = (problems.NO_ROUND, problems.TOO_SOON, problems.TOO_NEW)
_FINAL = {
    SlotDecision.REPLAYED: problems.REPLAYED,
    SlotDecision.UNKNOWN: problems.NOT_ENROLLED,
    SlotDecision.REVOKED: problems.REVOKED,
    SlotDecision.SPENT: problems.BUDGET_SPENT,
}


class Slots:
    """Gives places in the open round. `clock` gives seconds of wall time."""

    def __init__(
        self,
        stepper: RoundDriver,
        ingest: Ingest,
        keyring: Keyring,
        settings: Settings,
        clock: Callable[[], float],
    ) -> None:
        self._stepper = stepper
        self._ingest = ingest
        self._keyring = keyring
        self._settings = settings
        self._clock = clock
        self._waiting = 0
        self._made: RoundContext | None = None  # of the open round; made once

    @property
    def waiting(self) -> int:
        """How many devices wait for a place."""
        return self._waiting

    def opening(self, round_id: bytes) -> RoundContext | None:
        """What updates of that round are held against, while it is the open one."""
        round_, model = self._stepper.round, self._stepper.model
        if round_ is None or model is None or round_.id != round_id:
            return None
        if round_.phase is not Phase.COLLECTING or round_.release != model.stored.version:
            return None
        if self._made is None or self._made.offer.round != round_id:
            self._made = RoundContext(self._offer(round_, model), model.common)
        return self._made

    async def offer(self, signed: Signed) -> Offer:
        """A place, at once or within the time that the device is willing to wait.

        Raises:
            Refusal: not now, or never.
            MalformedMessage: not an offer request; it was counted all the same.
        """
        ask = SlotRequest(signed.device, signed.nonce)
        try:
            request = decode(OfferRequest, signed.body, SMALL)
        except FedRapError:
            place, _ = await self._ingest.place(_NOWHERE, ask, self._rule())
            self._check(place)
            raise
        loop, serve = asyncio.get_running_loop(), self._settings.serve
        until = loop.time() + min(request.wait, serve.max_wait_seconds)
        while True:
            changed = self._stepper.changed
            try:
                return await self._place(ask, request.release)
            except Refusal as refusal:
                left = until - loop.time()
                if refusal.problem not in _WORTH_WAITING or left <= 0:
                    raise
                if self._waiting >= serve.max_waiting or not await self._wait(changed, left):
                    raise
            ask = SlotRequest(signed.device)  # its nonce is counted

    async def _wait(self, changed: asyncio.Event, seconds: float) -> bool:
        """Has something changed within that time?"""
        self._waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
            return True
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1

    def _rule(self) -> Rule:
        """Of the open round."""
        round_, privacy = self._stepper.round, self._stepper.plan.privacy
        return Rule(0 if round_ is None else round_.step, self._stepper.limits.places, privacy)

    async def _place(self, ask: SlotRequest, release: int) -> Offer:
        if self._stepper.is_due():  # no places in a round whose time is over
            await self._stepper.catch_up()
        for last in (False, True):
            round_ = self._stepper.round
            opening = None if round_ is None else self.opening(round_.id)
            fits = opening is not None and opening.offer.release == release
            where = round_.id if round_ is not None and fits else _NOWHERE
            place, tally = await self._ingest.place(where, ask, self._rule())
            self._stepper.see(where, tally)
            self._check(place)
            if opening is not None and not fits:
                current = opening.offer.release
                raise Refusal(
                    problems.STALE_MODEL,
                    f"this round trains release {current}; fetch it and ask again",
                    retry_after=0,
                )
            if opening is not None and place.given in (SlotDecision.NEW, SlotDecision.HAD):
                return self._timed(opening.offer)
            if place.given is SlotDecision.CLOSED and not last:
                await self._stepper.catch_up()  # this process did not know
                ask = SlotRequest(ask.device)
                continue
            break
        if self._stepper.is_over and self._stepper.round is None:
            raise Refusal(problems.TASK_OVER)
        raise self._later(place)

    def _check(self, place: SlotResult) -> None:
        """Refuse what no round changes."""
        if place.given is SlotDecision.EXPIRED:
            raise Refusal(problems.CERTIFICATE_EXPIRED, retry_after=0)
        if place.given in _FINAL:
            raise Refusal(_FINAL[place.given])

    def _later(self, place: SlotResult) -> Refusal:
        """Why not now, and when it could help to ask again."""
        stepper, limits, now = self._stepper, self._stepper.limits, self._clock()
        expected, step = stepper.expected, 0 if stepper.round is None else stepper.round.step
        seconds = retry_hints.until_next_round(stepper.round, expected, limits, now)
        problem, known = problems.NO_ROUND, place.device
        if place.given is SlotDecision.TOO_SOON and known is not None:
            problem = problems.TOO_SOON
            rest = retry_hints.until_rested(known, stepper.plan.privacy.separation, step)
            seconds += max(0, rest - 1) * expected
        elif place.given is SlotDecision.TOO_NEW and known is not None:
            problem = problems.TOO_NEW
            seconds = retry_hints.until_old_enough(known, step, expected, now)
        least = self._settings.serve.retry_seconds
        return Refusal(problem, retry_after=retry_hints.come_back(seconds, least, random.random()))

    def _offer(self, round_: Round, model: Model) -> Offer:
        return Offer(
            task=self._stepper.task,
            round=round_.id,
            step=round_.step,
            plan=encode_value(self._stepper.plan),
            release=round_.release,
            model=model.message.model,
            seal_key=self._keyring.point(round_.seal_id),
            seal_id=round_.seal_id,
            closes_in=self._settings.round.max_seconds,
        )

    def _timed(self, offer: Offer) -> Offer:
        """The same offer, with the seconds that are left now."""
        round_ = self._stepper.round
        age = 0.0 if round_ is None else max(0.0, self._clock() - round_.opened_at)
        left = max(0.0, self._settings.round.max_seconds - age)
        return msgspec.structs.replace(offer, closes_in=left)
