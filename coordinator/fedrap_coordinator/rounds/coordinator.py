"""The coordinator: what devices ask of it, and the order in which its parts answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

from fedrap_coordinator.domain import retry_hints
from fedrap_coordinator.domain.decisions import Submission, SubmissionResult
from fedrap_coordinator.domain.fault_points import Reached, pass_by
from fedrap_coordinator.domain.records import DeviceStates
from fedrap_coordinator.domain.rounds import Phase, Round, RoundCounts, RoundLimits
from fedrap_coordinator.errors import ConfigError, Refusal, StoreGone
from fedrap_coordinator.identity.authentication import SignedRequest
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.privacy.statement import privacy_document
from fedrap_coordinator.rounds.aggregation import Aggregator
from fedrap_coordinator.rounds.downloads import Downloads
from fedrap_coordinator.rounds.driver import TICK_SECONDS, Learn, RoundDriver
from fedrap_coordinator.rounds.ingest import Ingest
from fedrap_coordinator.rounds.questions import OpenQuestions
from fedrap_coordinator.rounds.releases import EncodedRelease, Model, next_model
from fedrap_coordinator.rounds.rollouts import Rollouts
from fedrap_coordinator.rounds.slots import Slots
from fedrap_coordinator.rounds.tuning import Tuning
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.items import is_item_id
from fedrap_core.plan import Plan
from fedrap_core.wire import problems
from fedrap_core.wire.messages import Signed

log = logging.getLogger(__name__)
# What keeps an update out because of itself or its round; all others are about its device.
_OF_THE_UPDATE = (
    problems.CONFLICTING_UPDATE, problems.UNAVAILABLE, problems.ROUND_CLOSED, problems.NOT_FOUND,
)  # fmt: skip


class Coordinator:
    """One task: its devices, its rounds, its releases."""

    def __init__(
        self,
        store: Store,
        keyring: Keyring,
        settings: Settings,
        aggregator: Aggregator,
        sources: Sources,
        *,
        learn: Learn = next_model,
        reached: Reached = pass_by,
    ) -> None:
        self.store = store
        self.keyring = keyring
        self._settings = settings
        self._sources = sources
        self._driver = RoundDriver(
            store, keyring, settings, aggregator, sources, learn=learn, reached=reached
        )
        self._ingest = Ingest(store, aggregator, settings, keyring.authority, sources.clock)
        self._slots = Slots(self._driver, self._ingest, keyring, settings, sources)
        self._tuning = Tuning(store, keyring, settings, sources, self._driver)
        self._rollouts = Rollouts(
            store, keyring, lambda: self._settings, sources, lambda: self._driver.task
        )
        self._questions = OpenQuestions(
            store,
            keyring,
            aggregator,
            self._ingest,
            sources,
            self._slots.limit_rate,
            self._after_questions,
            lambda: self._driver.plan.privacy.window,
        )
        self._downloads = Downloads(store, settings, self._driver, keyring.authority)

    @property
    def task(self) -> bytes:
        """The id of the task; known after `start`."""
        return self._driver.task

    @property
    def round(self) -> Round | None:
        """The open round, as a value."""
        return self._driver.round

    @property
    def is_ready(self) -> bool:
        """Does the database serve, as far as was last seen?"""
        return self._driver.started and self.store.serves

    @property
    def model(self) -> Model | None:
        """The latest release."""
        return self._driver.model

    @property
    def plan(self) -> Plan:
        """The plan of the open round, or of the next."""
        return self._driver.plan

    @property
    def limits(self) -> RoundLimits:
        """Of the open round."""
        return self._driver.limits

    @property
    def slots(self) -> int:
        """How many devices may have a slot in the open round by now."""
        return self._driver.slots

    @property
    def settings(self) -> Settings:
        """Under the policy in force."""
        return self._driver.settings

    @property
    def helper_trouble(self) -> str:
        """Why the helper of private aggregation does not serve; empty: it does, or none is."""
        return self._driver.helper_trouble

    @property
    def is_over(self) -> bool:
        """All rounds of the task were made."""
        return self._driver.is_over

    async def start(self) -> None:
        """Take up where the store left off: the latest release, and the round that was open.

        Raises:
            StoreUnavailable, ConfigError: nothing was changed, and the store was given back.
        """
        try:
            await self.store.open()
            await self._driver.start()
        except BaseException:
            await self.store.close()
            raise

    def reload(self, settings: Settings) -> None:
        """Other paces and waits from now on; what a round was opened with stays."""
        self._settings = settings
        self._slots.reload(settings)

    def run(self, tick: float = TICK_SECONDS) -> Coroutine[Any, Any, None]:
        """Step whenever that is due, until cancelled; a database that is away is tried again."""
        return self._driver.run(tick)

    async def stop(self) -> None:
        """Finish what came in, put the open round to sleep and give the store back."""
        await self._ingest.close()
        try:
            await self._driver.sleep()
        except StoreGone:
            log.exception("the round could not be put to sleep; it goes on at the next start")
        await self.store.close()

    async def advance(self) -> None:
        """Let time pass: end, abandon or open rounds as their limits say."""
        await self._driver.advance()

    def offer(self, signed: SignedRequest) -> Awaitable[Signed]:
        """A signed offer of a slot in the open round for a device that may take part.

        Asking twice costs once.

        Where there is none now, a device that is willing to wait is answered when there is.
        """
        return self._slots.offer(signed)

    async def check_known(self, device: bytes) -> None:
        """Returns when there is such a device; raises Refusal."""
        await self._ingest.check_known(device)

    async def accept(self, signed: SignedRequest, round_id: bytes) -> Signed:
        """Verify, unseal, decode, decide, store: what has a receipt is never lost."""
        context = self._slots.context(round_id)
        if context is None:  # another process may have opened it; only devices make us look
            await self._ingest.authenticate(signed)
            await self._driver.catch_up()
            context = self._slots.context(round_id)
        checked = await self._ingest.check(signed, round_id, context, self._slots.limit_rate)
        body = signed.body if context is not None and checked.fault is None else None
        submission = Submission(signed.device, signed.nonce, checked.digest, body)
        max_updates = self._driver.limits.max_updates
        result, counts = await self._ingest.add_update(round_id, submission, max_updates)
        if result.problem is not None and counts.phase is Phase.SHUTDOWN:
            result, counts = await self._wake_and_add(round_id, submission, result, counts)
        self._driver.see(round_id, counts)
        if result.problem is None:
            return checked.receipt
        if checked.fault is not None and result.problem in _OF_THE_UPDATE:
            raise checked.fault
        raise self._refusal(result)

    async def _wake_and_add(
        self, round_id: bytes, submission: Submission, result: SubmissionResult, counts: RoundCounts
    ) -> tuple[SubmissionResult, RoundCounts]:
        """Once more, after waking a round that another process put to sleep."""
        if result.problem is not problems.UNAVAILABLE:
            return result, counts
        await self._driver.catch_up()
        again = Submission(submission.device, None, submission.digest, submission.body)
        return await self._ingest.add_update(round_id, again, self._driver.limits.max_updates)

    def _refusal(self, result: SubmissionResult) -> Refusal:
        """Words and times for what was decided."""
        assert result.problem is not None
        least = self._settings.serve.retry_seconds
        if result.problem is problems.NOT_FOUND:
            return Refusal(result.problem, "there never was such a round")
        if result.problem is problems.CERTIFICATE_EXPIRED:
            return Refusal(result.problem, retry_after=0)
        if result.problem is problems.UNAVAILABLE:
            return Refusal(result.problem, retry_after=least)
        if result.problem is problems.ROUND_CLOSED:
            after = retry_hints.come_back(0.0, least, self._sources.uniform())
            return Refusal(result.problem, "the round is over: it has all it takes", after)
        return Refusal(result.problem)

    async def _after_questions(self) -> None:
        await self._tuning.advance()
        await self._rollouts.advance()

    def questions(self, every: bool = False) -> Awaitable[bytes]:
        """The questions about quality that are open, each as signed, as a message.

        Those of staged releases and of lists only for devices that say that they know what that is.
        """
        return self._questions.listed(every)

    def answer(self, signed: SignedRequest, question: bytes) -> Awaitable[Signed]:
        """A receipt for an answer to a question; what has one is counted."""
        return self._questions.accept(signed, question)

    def run_questions(self) -> Coroutine[Any, Any, None]:
        """Sum up questions when they are due, until cancelled."""
        return self._questions.run()

    def sum_up(self) -> Awaitable[int]:
        """Sum up the questions that are due now; how many ended."""
        return self._questions.advance()

    def release(self, version: int | None) -> Awaitable[EncodedRelease]:
        """A version of C, or the latest, ready to serve."""
        return self._downloads.release(version)

    def release_since(self, have: int) -> Awaitable[EncodedRelease]:
        """The latest release for a device that holds version `have`: a delta where that pays."""
        return self._downloads.release_since(have)

    def log(self, since: int) -> Awaitable[bytes]:
        """Signed entries of the releases beyond version `since`, and the last, as a message."""
        return self._downloads.log(since)

    def catalogue(self, start: int) -> Awaitable[tuple[bytes, bytes | None]]:
        """The items from row `start` on as a message, and compressed where that is at hand."""
        return self._downloads.catalogue(start)

    def attributes(self) -> Awaitable[bytes]:
        """Which pages the items' public attributes are in, signed, as a message."""
        return self._downloads.attributes()

    def attribute_page(self, digest: bytes) -> Awaitable[bytes]:
        """A page of public attributes, as a message."""
        return self._downloads.attribute_page(digest)

    def privacy(self, states: DeviceStates) -> dict[str, Any]:
        """The privacy guarantee of devices in these states, under the plan in force; spec 5.7."""
        driver = self._driver
        released = 0 if driver.model is None else driver.model.stored.step
        limits = driver.settings.round
        return privacy_document(
            driver.plan, limits, driver.task, released, states, self._settings.questions
        )

    async def add_items(self, items: Sequence[str]) -> int:
        """New items get rows at once, and numbers in C with the next release.

        Raises:
            ConfigError: an id is empty, longer than 200 characters or has a line break.
        """
        for number, item in enumerate(items, 1):
            if not is_item_id(item):
                raise ConfigError(f"item {number}: an id has 1 to 200 characters and no line break")
        count = await self.store.add_items(items)
        await self._driver.publish_items()
        return count
