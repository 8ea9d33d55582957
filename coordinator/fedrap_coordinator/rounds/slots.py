"""Slots in rounds: who gets one, who is told to come back and when, and who waits for one.

A device that says it is willing to wait is answered when something has changed that may help it:
a round opened, a release came out. So a round costs what its work costs, and nobody polls.
"""

from __future__ import annotations

import asyncio
import logging
import math

from fedrap_coordinator.domain import retry_hints
from fedrap_coordinator.domain.charges import idle, until_renewed
from fedrap_coordinator.domain.decisions import (
    SlotRequest,
    SlotResult,
    SlotRule,
    needs_new_keys,
)
from fedrap_coordinator.domain.over_selection import until_slot
from fedrap_coordinator.domain.rate_limits import Buckets
from fedrap_coordinator.domain.rounds import Phase, Round
from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.identity.authentication import SignedRequest
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.driver import RoundDriver
from fedrap_coordinator.rounds.ingest import Ingest, RoundContext
from fedrap_coordinator.rounds.releases import Model
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Sources
from fedrap_core.errors import FedRapError
from fedrap_core.participation import until_rested
from fedrap_core.plan import DAY, OFF, Off
from fedrap_core.wire import problems
from fedrap_core.wire.authority import sign_message
from fedrap_core.wire.codec import decode, decode_value, encode_value
from fedrap_core.wire.messages import HelperKey, Offer, OfferRequest, Signed

SMALL = 4096  # bytes of an offer request
_NOWHERE = b""  # no round: only the nonce is counted
_WORTH_WAITING = (problems.NO_ROUND, problems.TOO_SOON, problems.TOO_NEW)
_LOOK_SECONDS = 10.0  # between two looks at how many devices could take part: it reads all of them
_COUNT_SECONDS = 60.0  # the same, at least, for those who are told when to come back
log = logging.getLogger(__name__)


class Slots:
    """Gives slots in the open round."""

    def __init__(
        self,
        driver: RoundDriver,
        ingest: Ingest,
        keyring: Keyring,
        settings: Settings,
        sources: Sources,
    ) -> None:
        self._driver = driver
        self._ingest = ingest
        self._keyring = keyring
        self._settings = settings
        self._sources = sources
        self._buckets = Buckets(settings.limits.device)
        self._last_rule: SlotRule | None = None
        self._new_keys = b""  # the round that new keys may join at once
        self._next_look = 0.0  # at how many devices could take part; by the monotonic clock
        self._ready, self._count_at = 0, -math.inf  # devices that could take part, as last counted
        self._waiting = 0
        self._context: RoundContext | None = None  # of the open round; made once

    def reload(self, settings: Settings) -> None:
        """Other paces and waits from now on."""
        self._settings = settings
        self._buckets = Buckets(settings.limits.device)

    def context(self, round_id: bytes) -> RoundContext | None:
        """What updates of that round are held against, while it is the open one."""
        round_, model = self._driver.round, self._driver.learns_from
        if round_ is None or model is None or round_.id != round_id:
            return None
        if round_.phase is not Phase.COLLECTING or round_.release != model.stored.version:
            return None
        known = self._context
        same = known is not None and known.offer.round == round_id
        if known is None or not same or known.offer.beside != self._beside:
            offer = self._offer(round_, model)  # the same for all, so it is signed once
            signed = sign_message(self._keyring.authority, offer)
            self._context = RoundContext(offer, signed, model.common, self._driver.plan)
        return self._context

    @property
    def _beside(self) -> int | Off:
        """The release that devices hold, where rounds learn its successor."""
        driver = self._driver
        if driver.successor is None or driver.model is None:
            return OFF
        return driver.model.stored.version

    def limit_rate(self, device: bytes) -> None:
        """Count a request of a device that has proven who it is.

        Raises:
            Refusal: it asks too often.
        """
        wait = self._buckets.take(device, self._sources.monotonic())
        if wait:
            raise Refusal(problems.SLOW_DOWN, retry_after=wait)

    async def offer(self, signed: SignedRequest) -> Signed:
        """A signed offer of a slot, at once or within the time that the device is willing to wait.

        Raises:
            Refusal, SignatureInvalid: not now, or never.
            MalformedMessage: not an offer request; it was counted all the same.
        """
        await self._ingest.authenticate(signed)
        self.limit_rate(signed.device)
        request = SlotRequest(signed.device, signed.nonce)
        try:
            wanted = decode(OfferRequest, signed.body, SMALL)
        except FedRapError:
            result, _ = await self._ingest.assign_slot(_NOWHERE, request, self._rule())
            _refuse_for_good(result)
            raise
        loop, serve = asyncio.get_running_loop(), self._settings.serve
        until = loop.time() + min(wanted.wait, serve.max_wait_seconds)
        while True:
            changed = self._driver.changed
            try:
                return await self._assign(request, wanted.release)
            except Refusal as refusal:
                left = until - loop.time()
                if refusal.problem not in _WORTH_WAITING or left <= 0:
                    raise
                if self._driver.paced_age is not None and (refusal.retry_after or 0.0) > left:
                    raise  # it has its date; slots that come meanwhile are for those who come then
                if self._waiting >= serve.max_waiting or not await self._wait(changed, left):
                    raise
            request = SlotRequest(signed.device)  # its nonce is counted

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

    def _rule(self) -> SlotRule:
        """Of the open round; the same object for as long as it is the same rule."""
        driver, rule = self._driver, self._last_rule
        step, privacy = 0 if driver.round is None else driver.round.step, driver.plan.privacy
        slots = driver.slots
        new_keys = driver.round is not None and driver.round.id == self._new_keys
        wanted = (step, slots, new_keys)
        same = rule is not None and (rule.step, rule.slots, rule.new_keys) == wanted
        if rule is None or not same or rule.privacy is not privacy:
            rule = self._last_rule = SlotRule(step, slots, privacy, new_keys)
        return rule

    async def _lets_new_keys_in(self) -> bool:
        """Does the open round need devices whose keys still wait? Once it does, it goes on to."""
        driver, now = self._driver, self._sources.monotonic()
        round_ = driver.round
        if round_ is None or round_.id == self._new_keys or now < self._next_look:
            return False
        self._next_look = now + _LOOK_SECONDS
        time = driver.now(round_)
        states = await driver.device_states(round_.step, time)
        if not needs_new_keys(round_, states.ready, driver.limits, time):
            return False
        log.warning("new keys need not wait: too few other devices", extra={"step": round_.step})
        self._new_keys, self._next_look = round_.id, 0.0
        self._count_at = -math.inf
        return True

    async def _assign(self, request: SlotRequest, release: int) -> Signed:
        driver = self._driver
        if driver.is_due():  # no slots in a round whose time is over
            await driver.catch_up()
        for last in (False, True):
            context = None if driver.round is None else self.context(driver.round.id)
            held = None if context is None else _held(context.offer)
            fits = held == release
            round_id = context.offer.round if context is not None and fits else _NOWHERE
            result, counts = await self._ingest.assign_slot(round_id, request, self._rule())
            driver.see(round_id, counts)
            if result.problem is problems.TOO_NEW and await self._lets_new_keys_in():
                again = SlotRequest(request.device)  # its nonce is counted
                result, counts = await self._ingest.assign_slot(round_id, again, self._rule())
                driver.see(round_id, counts)
            self._refuse_spent(result)
            _refuse_for_good(result)
            if context is not None and not fits:
                raise Refusal(
                    problems.STALE_MODEL,
                    f"this round is for devices with release {held}; fetch it and ask again",
                    retry_after=0,
                )
            if context is not None and result.problem is None:
                return context.signed
            if counts.phase is Phase.COLLECTING or last:
                break
            await driver.catch_up()  # this process did not know that the round is over
            request = SlotRequest(request.device)
        if driver.is_over and driver.round is None:
            raise Refusal(problems.TASK_OVER)
        await self._count_ready(result)
        raise self._later(result)

    def _refuse_spent(self, result: SlotResult) -> None:
        """Who has spent K in this window is told the one date on which it may take part again."""
        known, now = result.device, self._sources.clock()
        if result.problem is not problems.BUDGET_SPENT or known is None:
            return
        left = until_renewed(known, now, self._driver.plan.privacy)
        if left is not None:
            days = math.ceil(left / DAY)
            raise Refusal(
                problems.BUDGET_SPENT,
                f"this device has taken part as often as it may; again in {days} days",
                retry_after=left + self._settings.serve.retry_seconds * self._sources.uniform(),
            )

    async def _count_ready(self, result: SlotResult) -> None:
        """How many devices could take part, for those who found no slot where slots come evenly."""
        driver, now = self._driver, self._sources.monotonic()
        found_none = result.problem is problems.NO_ROUND and driver.paced_age is not None
        if found_none and driver.round is not None and now >= self._count_at:
            each = driver.limits.min_seconds / driver.limits.max_updates  # a slot comes so often
            self._count_at = now + max(_COUNT_SECONDS, each)
            states = await driver.device_states(driver.round.step, driver.now(driver.round))
            let_in = driver.round.id == self._new_keys  # then keys that wait could take part, too
            self._ready = states.ready + (states.waiting if let_in else 0)

    def _later(self, result: SlotResult) -> Refusal:
        """When it could help to ask again."""
        driver, known, now = self._driver, result.device, self._sources.clock()
        expected, step = driver.expected, 0 if driver.round is None else driver.round.step
        seconds = retry_hints.until_next_round(driver.round, expected, driver.limits, now)
        problem, rule = result.problem or problems.NO_ROUND, driver.plan.privacy
        least, uniform = self._settings.serve.retry_seconds, self._sources.uniform()
        if problem is problems.TOO_SOON and known is not None:
            rest = retry_hints.steps_to_rest(known, rule.separation, step)
            seconds = seconds + (rest - 1) * expected if rest > 0 else 0.0
            left = until_rested(idle(known, now), rule)
            if left > seconds:  # a date that is known: nobody rests longer than that
                return Refusal(problem, retry_after=left + least * uniform)
        elif problem is problems.TOO_NEW and known is not None:
            seconds = retry_hints.until_old_enough(known, step, expected, now)
        elif driver.paced_age is not None and driver.round is not None:
            coming = until_slot(driver.round, driver.limits, driver.paced_age)
            seconds = coming if coming > 0 else seconds
            wide = retry_hints.waiting_time(self._ready, driver.limits, rule.rest)
            return Refusal(problem, retry_after=seconds + max(least, wide) * uniform)
        return Refusal(problem, retry_after=retry_hints.come_back(seconds, least, uniform))

    def _offer(self, round_: Round, model: Model) -> Offer:
        return Offer(
            task=self._driver.task,
            round=round_.id,
            step=round_.step,
            plan=encode_value(self._driver.plan),
            release=round_.release,
            model=model.message.model,
            seal_key=self._keyring.point(round_.seal_id),
            seal_id=round_.seal_id,
            helper=decode_value(HelperKey, round_.helper) if round_.helper else OFF,
            beside=self._beside,
        )


def _held(offer: Offer) -> int:
    """The release that a device must hold to follow an offer."""
    return offer.release if offer.beside is OFF else offer.beside


def _refuse_for_good(result: SlotResult) -> None:
    """Refuse what waiting for another round does not change."""
    if result.problem is problems.CERTIFICATE_EXPIRED:
        raise Refusal(result.problem, retry_after=0)
    if result.problem is not None and result.problem not in _WORTH_WAITING:
        raise Refusal(result.problem)
