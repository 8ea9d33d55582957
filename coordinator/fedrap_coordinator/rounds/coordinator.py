"""The coordinator: what devices ask of it, and the order in which its parts answer."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from fedrap_coordinator.domain import retry_hints
from fedrap_coordinator.domain.decisions import RoundCounts, Submission, SubmissionResult
from fedrap_coordinator.domain.fault_points import Reached, pass_by
from fedrap_coordinator.domain.rate_limits import Buckets
from fedrap_coordinator.domain.rounds import Phase, Round, RoundLimits
from fedrap_coordinator.errors import ConfigError, Refusal, StoreGone
from fedrap_coordinator.identity.authentication import Signed
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.privacy.statement import privacy_document
from fedrap_coordinator.rounds.downloads import Downloads
from fedrap_coordinator.rounds.driver import RoundDriver
from fedrap_coordinator.rounds.ingest import Ingest, RoundContext
from fedrap_coordinator.rounds.releases import EncodedRelease, Model
from fedrap_coordinator.rounds.slots import Slots
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.protocol import Store
from fedrap_core.items import is_item_id
from fedrap_core.plan import Plan
from fedrap_core.wire import problems
from fedrap_core.wire.messages import Accepted, Catalogue, Offer

log = logging.getLogger(__name__)
TICK_SECONDS = 0.5  # rounds end by the clock too, not only when an update comes

_REFUSED = {
    SubmissionResult.REPLAYED: problems.REPLAYED,
    SubmissionResult.UNKNOWN: problems.NOT_ENROLLED,
    SubmissionResult.REVOKED: problems.REVOKED,
    SubmissionResult.CONFLICT: problems.CONFLICTING_UPDATE,
    SubmissionResult.UNASSIGNED: problems.NOT_ASSIGNED,
}


class Coordinator:
    """One task: its devices, its rounds, its releases. `clock` gives seconds of wall time."""

    def __init__(
        self,
        store: Store,
        keyring: Keyring,
        settings: Settings,
        clock: Callable[[], float],
        reached: Reached = pass_by,
    ) -> None:
        self.store = store
        self.keyring = keyring
        self._settings = settings
        self._clock = clock
        self._stepper = RoundDriver(store, keyring, settings, clock, reached)
        self._serving = Downloads(store, settings, self._stepper)
        self._ingest = Ingest(store, self._stepper.aggregator, settings.ingest, clock)
        self._offers = Slots(self._stepper, self._ingest, keyring, settings, clock)
        self._buckets = Buckets(settings.limits.device)
        self._serves = False

    @property
    def task(self) -> bytes:
        """The id of the task; known after `start`."""
        return self._stepper.task

    @property
    def round(self) -> Round | None:
        """The open round, as a value."""
        return self._stepper.round

    @property
    def is_ready(self) -> bool:
        """Does the database serve, as far as was last seen?"""
        return self._serves

    @property
    def model(self) -> Model | None:
        """The latest release."""
        return self._stepper.model

    @property
    def plan(self) -> Plan:
        """The plan of the open round, or of the next."""
        return self._stepper.plan

    @property
    def limits(self) -> RoundLimits:
        """Of the open round."""
        return self._stepper.limits

    @property
    def is_over(self) -> bool:
        """All rounds of the task were made."""
        return self._stepper.is_over

    async def start(self) -> None:
        """Take up where the store left off: the latest release, and the round that was open.

        Raises:
            StoreUnavailable, ConfigError: nothing was changed, and the store was given back.
        """
        try:
            await self.store.open()
            await self._stepper.start()
            self._serves = True
        except BaseException:
            await self.store.close()
            raise

    async def run(self, tick: float = TICK_SECONDS) -> None:
        """Step whenever that is due, until cancelled; a database that is away is tried again."""
        while True:
            try:
                async with asyncio.timeout(tick):
                    await self._stepper.due.wait()
            except TimeoutError:
                pass
            self._stepper.due.clear()
            try:
                await self.advance()
            except StoreGone as error:
                if self._serves:
                    log.error("the database is away; trying again", extra={"said": str(error)})
                self._serves = False
                await asyncio.sleep(TICK_SECONDS)
            except Exception:
                log.exception("the round could not go on; trying again")
                await asyncio.sleep(TICK_SECONDS)

    async def stop(self) -> None:
        """Finish what came in, put the open round to sleep and give the store back."""
        await self._ingest.close()
        try:
            await self._stepper.sleep()
        except StoreGone:
            log.exception("the round could not be put to sleep; it goes on at the next start")
        await self.store.close()

    async def advance(self) -> None:
        """Let time pass: end, abandon or open rounds as the law says."""
        await self._stepper.advance()
        self._serves = True

    async def offer(self, signed: Signed) -> Offer:
        """A place in the open round for a device that may take part; asking twice costs once.

        Where there is none now, a device that is willing to wait is answered when there is.
        """
        await self._ingest.prove(signed)
        self._slow_down(signed.device)
        return await self._offers.offer(signed)

    async def accept(self, signed: Signed, round_id: bytes) -> Accepted:
        """Verify, unseal, decode, admit, store: what is answered with Accepted is never lost."""
        opening = self._offers.opening(round_id)
        if opening is None:  # another process may have opened it; only devices make us look
            await self._ingest.prove(signed)
            await self._stepper.catch_up()
            opening = self._offers.opening(round_id)
        checked = await self._ingest.check(signed, opening)
        self._slow_down(signed.device)
        body = signed.body if opening is not None and checked.fault is None else None
        sent = Submission(signed.device, signed.nonce, checked.digest, body)
        added, tally = await self._keep(round_id, sent)
        if added in (SubmissionResult.STORED, SubmissionResult.DUPLICATE):
            return Accepted(round=round_id, digest=checked.digest)
        if added is SubmissionResult.EXPIRED:
            raise Refusal(problems.CERTIFICATE_EXPIRED, retry_after=0)
        if checked.fault is not None and added in (
            SubmissionResult.CLOSED,
            SubmissionResult.CONFLICT,
        ):
            raise checked.fault
        if added is not SubmissionResult.CLOSED:
            raise Refusal(_REFUSED[added])
        raise self._closed(tally, opening)

    async def release(self, version: int | None) -> EncodedRelease:
        """A version of C, or the latest, ready to serve."""
        return await self._serving.release(version)

    async def release_since(self, have: int) -> EncodedRelease:
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

    async def _keep(
        self, round_id: bytes, sent: Submission
    ) -> tuple[SubmissionResult, RoundCounts]:
        """Store an update; a round that another process put to sleep is woken up first."""
        most = self._stepper.limits.max_updates
        added, tally = await self._ingest.update(round_id, sent, most)
        if added is SubmissionResult.CLOSED and tally.phase is Phase.SHUTDOWN:
            await self._stepper.catch_up()
            again = Submission(sent.device, None, sent.digest, sent.body)  # its nonce is counted
            added, tally = await self._ingest.update(round_id, again, most)
        self._stepper.see(round_id, tally)
        return added, tally

    def _closed(self, tally: RoundCounts, opening: RoundContext | None) -> Refusal:
        """Too late, or too early: the bytes of a round that only sleeps are worth sending again."""
        if tally.phase is None:
            return Refusal(problems.NOT_FOUND, "there never was such a round")
        least = self._settings.serve.retry_seconds
        if tally.phase is Phase.SHUTDOWN or (tally.phase is Phase.COLLECTING and opening is None):
            return Refusal(problems.UNAVAILABLE, retry_after=least)
        after = retry_hints.come_back(0.0, least, random.random())
        return Refusal(problems.ROUND_CLOSED, "the round is over: it has all it takes", after)

    def _slow_down(self, device: bytes) -> None:
        wait = self._buckets.take(device, time.monotonic())
        if wait:
            raise Refusal(problems.SLOW_DOWN, retry_after=wait)
