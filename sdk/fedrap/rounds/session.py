"""A device and its coordinator: when it may call, with what, and what becomes of errors."""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace

from fedrap import arguments
from fedrap.errors import AnotherAuthority, CoordinatorUnreachable, UpdateRefused
from fedrap.results import RoundReport
from fedrap.rounds import eligibility
from fedrap.rounds.answering import Answering, QuestionState
from fedrap.rounds.enrolment import Attest, Membership, authority_of
from fedrap.rounds.ledger import Floor, until_rested
from fedrap.rounds.runner import RoundRunner, RoundSteps
from fedrap.rounds.state import RoundSnapshot, RoundState, Wait
from fedrap.rounds.sync import AttributeState, sync, sync_attributes
from fedrap.trainers.protocol import Trainer, TrainerUnavailable
from fedrap.trainers.select import Choice, choose_trainer, make_trainer
from fedrap.transport import Transport
from fedrap.transport.consented import ConsentedTransport, ConsentWithdrawn, call_app
from fedrap.transport.credentials import Signer
from fedrap_core.errors import BrokenModel, FedRapError, ForkedLog, SignatureInvalid
from fedrap_core.wire import problems
from fedrap_core.wire.problems import NOT_ENROLLED, REVOKED, Family

Token = str | Callable[[], str]
CONSENTED, ANONYMOUS = "consented", "anonymous"  # when releases are fetched
FETCHES = (CONSENTED, ANONYMOUS)
HEAL_SECONDS = 30 * 86_400.0  # at least, between two memberships that were given up
_UNKNOWN = (NOT_ENROLLED, REVOKED)  # answers to a device that may come anew, with a fresh token
REFUSED_SECONDS = 2 * 86_400.0  # until what was refused for good is asked for again
MOST_WAIT = 366 * 86_400.0  # whatever a coordinator says
FORGET_SECONDS = 10.0
ATTRIBUTE_SECONDS = 4 * 3600.0  # between two looks at public attributes of the same release
_UNANSWERED = frozenset(  # words of a round in which the coordinator said nothing
    {
        eligibility.NO_CONSENT,
        eligibility.NO_TOKEN,
        eligibility.TOKEN_FAILED,
        eligibility.UNREACHABLE,
    }
)
_DISTRUST = (AnotherAuthority, SignatureInvalid, ForkedLog)
_WORDS: dict[type[Exception], str] = {
    AnotherAuthority: eligibility.ANOTHER_AUTHORITY,
    SignatureInvalid: eligibility.NOT_SIGNED,
    ForkedLog: eligibility.FORKED_RELEASE,
}


@dataclass(frozen=True)
class Access:
    """How this device reaches its coordinator, and on what terms."""

    server: str | None = None
    token: Token | None = None
    transport: Transport | None = None
    offline: bool = False
    floor: Floor = field(default_factory=Floor)
    trainer: str | None = None
    attest: Attest | None = None
    allow_http: bool = False  # to another machine
    authority: bytes | None = None  # a point that the app pins
    fetch: str = CONSENTED
    helper: bytes | None = None  # the second server that the app pins; None: updates are sealed


OnError = Callable[[Exception], None]


def ignore(error: Exception) -> None:
    """For callers that are told otherwise."""


def nothing_unmet() -> str | None:
    """For rounds that an app asks for itself: no condition has to hold."""
    return None


SEALED, SPLIT = "sealed", "split"
AGGREGATIONS = (SEALED, SPLIT)


class RoundSession:
    """Runs rounds and syncs, one round at a time; a simulation brings its own `steps`."""

    def __init__(
        self,
        state: RoundState,
        access: Access,
        *,
        clock: Callable[[], float] = time.time,
        steps: RoundSteps | None = None,
        attributes: AttributeState | None = None,
        questions: QuestionState | None = None,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        """`attributes` is where public attributes are kept, if the app wants them.

        `questions` is who answers them; a simulated device may have none.
        """
        self._state = state
        self._attributes = attributes
        self._questions = questions
        self._asked_at = -math.inf  # when questions were last looked for
        self._attributes_of: tuple[int | None, float] | None = None  # release, and when
        self._access = access
        self._clock = clock
        self._steps = steps
        self._trainer: tuple[Trainer, Choice, int] | None = None  # and the work it is for
        self._running = threading.Lock()
        self._uniform = uniform
        self._distrusted: str | None = None
        once = access.token if isinstance(access.token, str) else ""
        asked = f"{access.server or ''}\n{once}".encode("utf-8", "surrogatepass")
        self._asked = hashlib.sha256(b"fedrap wait" + asked).digest()[:16]

    def refused(self, device: RoundSnapshot) -> str | None:
        """A word for what the coordinator refused for good, until it says something else."""
        return device.wait.word if device.wait.of == self._asked else None

    def ask_again(self) -> None:
        """Something has changed: what was refused may be asked for now."""
        if self._state.snapshot().wait.word is not None:
            self._state.keep_wait(Wait())

    def _left(self, device: RoundSnapshot) -> float:
        """Seconds until the coordinator may be asked; another token is not told to wait.

        Who took part rests by its own ledger, and asks nobody; what is left to be sent is sent.
        """
        told = device.wait.left(device.at) if device.wait.of == self._asked else 0.0
        rest = 0.0 if device.outbox else until_rested(device.entries, device.at)
        return max(told, rest)

    @property
    def helper(self) -> bytes | None:
        """The second server that the app pins, where it demands private aggregation."""
        return self._access.helper

    @property
    def distrusted(self) -> str | None:
        """A word for why what the coordinator last sent was not taken for the authority's."""
        return self._distrusted

    @property
    def choice(self) -> Choice | None:
        """What computes rounds in this process, once one was run."""
        return None if self._trainer is None else self._trainer[1]

    def after_fork_in_child(self) -> None:
        """No round runs here, and a runtime's threads were not inherited."""
        self._running = threading.Lock()
        self._trainer = None

    async def sync(self) -> None:
        """Fetch what is new, if the user lets it be fetched and there is somebody to ask."""
        device = self._state.snapshot()
        if not self._may_fetch() or not self._reachable() or self._access.offline:
            return
        await self._measure()
        with self._noting_distrust(), suppress(ConsentWithdrawn):
            authority = authority_of(device.credentials, self._pinned(device))
            async with self._transport() as transport:
                watched = ConsentedTransport(transport, self._may_fetch)
                device = await sync(self._state, watched, device, authority)
                await self._sync_attributes(watched, device, authority)

    async def _sync_attributes(
        self, transport: Transport, device: RoundSnapshot, authority: bytes | None
    ) -> None:
        if self._attributes is not None:
            task = None if device.credentials is None else device.credentials.task
            await sync_attributes(self._attributes, transport, task, authority)
            self._attributes_of = (device.release_version, self._clock())

    async def _refresh_attributes(self, transport: Transport, on_error: OnError) -> None:
        """After a round, where a release came or hours passed; what fails has no part in it."""
        device, last = self._state.snapshot(), self._attributes_of
        recently = last is not None and 0 <= self._clock() - last[1] < ATTRIBUTE_SECONDS
        if recently and last is not None and last[0] == device.release_version:
            return
        try:
            authority = authority_of(device.credentials, self._pinned(device))
            await self._sync_attributes(transport, device, authority)
        except ConsentWithdrawn:
            pass
        except FedRapError as error:
            on_error(error)

    def _may_fetch(self) -> bool:
        """The user agreed; or was never asked, and the app fetches without a name."""
        answer = self._state.fetching()
        return self._access.fetch == ANONYMOUS if answer is None else answer

    def _pinned(self, device: RoundSnapshot) -> bytes | None:
        """The authority that the app pins, or that a membership had which was given up."""
        return self._access.authority or device.remembered or None

    async def run_round(
        self,
        on_error: OnError = ignore,
        wait: float = 0.0,
        unmet: Callable[[], str | None] = nothing_unmet,
        refused: float = REFUSED_SECONDS,
    ) -> RoundReport:
        """Join a round if there is one, or within `wait` seconds.

        Args:
            on_error: called with the errors that become a report.
            unmet: a word for a condition of the background that does not hold, asked last.
            refused: seconds after which an answer is asked for again that stands until somebody
                does something, spread between a half and three halves of that.
        """
        if not self._running.acquire(blocking=False):
            return RoundReport(False, eligibility.ALREADY_RUNNING)
        try:
            device = self._state.snapshot()
            blocked = self.why_blocked(device)
            if blocked is not None:
                return RoundReport(False, blocked, self._left(device) or None)
            blocked = unmet()
            if blocked is not None:
                return RoundReport(False, blocked)
            await self._measure()  # under the release in use, before another is adopted
            async with self._transport() as transport:
                report = await self._run(device, self._consented(transport), on_error, wait)
            return self._remembered(device, report, refused)
        finally:
            self._running.release()

    async def _measure(self) -> None:
        if self._questions is not None:
            await asyncio.to_thread(self._questions.measure)

    async def answer_questions(self, on_error: OnError = ignore, every: float = 0.0) -> int:
        """Answer the coordinator's questions about quality, as far as the user agreed to that.

        Args:
            on_error: called with errors; none is raised for network reasons.
            every: seconds that must lie between two looks.

        Returns:
            How many were answered.
        """
        device, asked = self._state.snapshot(), self._questions
        if asked is None or device.credentials is None or device.ledger_lost:
            return 0
        if self._access.offline or not self._reachable() or not asked.may_measure():
            return 0
        now = self._clock()
        if 0 <= now - self._asked_at < every or not self._running.acquire(blocking=False):
            return 0
        self._asked_at = now
        try:
            await self._measure()
            with self._noting_distrust():
                authority = authority_of(device.credentials, self._pinned(device))
                assert authority is not None  # an enrolled device has one
                async with self._transport() as transport:
                    answering = Answering(
                        asked,
                        ConsentedTransport(transport, asked.may_measure),
                        Signer(device.credentials, self._state.next_nonce),
                        device.credentials,
                        authority,
                        self._access.floor,
                        self._access.helper,
                    )
                    return await answering.run(device.entries, now)
        except ConsentWithdrawn:
            return 0
        except FedRapError as error:
            on_error(error)
            return 0
        finally:
            self._running.release()

    async def forget(self) -> str | None:
        """Ask the coordinator to forget this device; None when it has, or never knew it."""
        credentials = self._state.snapshot().credentials
        if credentials is None:
            return None
        if self._access.offline or not self._reachable():
            return eligibility.OFFLINE if self._access.offline else eligibility.NO_SERVER
        signer = Signer(credentials, self._state.next_nonce)
        try:
            async with asyncio.timeout(FORGET_SECONDS), self._transport() as transport:
                await transport.forget(signer)
        except UpdateRefused as refused:
            return None if refused.problem is NOT_ENROLLED else refused.problem.code
        except (CoordinatorUnreachable, TimeoutError):
            return eligibility.UNREACHABLE
        return None

    def why_blocked(self, device: RoundSnapshot) -> str | None:
        """Why a round would not run now."""
        blocked = eligibility.blocked_by(
            consented=device.consented,
            offline=self._access.offline,
            reachable=self._reachable(),
            may_enrol=device.credentials is not None or self._access.token is not None,
            interactions=device.recorded,
            wait_seconds=self._left(device),
            ledger_lost=device.ledger_lost,
        )
        if blocked == eligibility.TOLD_TO_WAIT and device.wait.left(device.at) > 0:
            return self.refused(device) or blocked
        return blocked

    def _remembered(
        self, device: RoundSnapshot, report: RoundReport, refused: float
    ) -> RoundReport:
        """The report, with when to ask again; kept on the device, for a job's process ends."""
        if eligibility.stands(report.blocked_by):
            seconds = report.retry_after
            if seconds is None or seconds < refused / 2:
                seconds = refused * (0.5 + self._uniform())
            self._keep_wait(min(seconds, MOST_WAIT), report.blocked_by)
            return replace(report, retry_after=seconds)
        if report.retry_after is not None and math.isfinite(report.retry_after):
            self._keep_wait(report.retry_after)
        elif device.wait.word is not None and (report.joined or report.blocked_by in problems.ALL):
            self._state.keep_wait(Wait())
        return report

    def _keep_wait(self, seconds: float, word: str | None = None) -> None:
        self._state.keep_wait(Wait(self._clock(), seconds, word, self._asked))

    async def _run(
        self, device: RoundSnapshot, transport: Transport, on_error: OnError, wait: float
    ) -> RoundReport:
        report = await self._try(device, transport, on_error, wait)
        if self._may_heal(device, report):  # 3.12: a fresh token, a new device
            self._state.forget_credentials()
            report = await self._try(self._state.snapshot(), transport, on_error, wait)
        if self._attributes is not None and report.blocked_by not in _UNANSWERED:
            await self._refresh_attributes(transport, on_error)
        return report

    def _may_heal(self, device: RoundSnapshot, report: RoundReport) -> bool:
        """Does the coordinator not know this device, and may it come anew?"""
        if device.credentials is None or not callable(self._access.token):
            return False
        before, now = device.healed_at, self._clock()
        recently = before is not None and 0 <= now - before < HEAL_SECONDS
        return report.blocked_by in [one.code for one in _UNKNOWN] and not recently

    async def _try(
        self, device: RoundSnapshot, transport: Transport, on_error: OnError, wait: float
    ) -> RoundReport:
        try:
            token = await self._token() if device.credentials is None else None
        except ConsentWithdrawn:
            return RoundReport(False, eligibility.NO_CONSENT)
        except Exception as error:  # the app's own callable: its backend may be out of reach
            on_error(error)
            return RoundReport(False, eligibility.TOKEN_FAILED)
        try:
            with self._noting_distrust():
                return await self._runner(device, transport, token, wait).run(device)
        except UpdateRefused as refused:
            if refused.problem.family is not Family.RETRY:  # "no room now" is daily life
                on_error(refused)
            return RoundReport(False, refused.problem.code, refused.retry_after)
        except CoordinatorUnreachable as error:
            on_error(error)
            return RoundReport(False, eligibility.UNREACHABLE)
        except BrokenModel as error:
            on_error(error)
            return RoundReport(False, eligibility.BROKEN_RELEASE)
        except _DISTRUST as error:
            on_error(error)
            return RoundReport(False, self._distrusted)
        except ConsentWithdrawn:
            return RoundReport(False, eligibility.NO_CONSENT)

    @contextmanager
    def _noting_distrust(self) -> Iterator[None]:
        """Keep a word for it, until something is found good again."""
        try:
            yield
        except _DISTRUST as error:
            self._distrusted = next(
                word for kind, word in _WORDS.items() if isinstance(error, kind)
            )
            raise
        self._distrusted = None

    def _runner(
        self, device: RoundSnapshot, transport: Transport, token: str | None, wait: float
    ) -> RoundRunner:
        access, pinned = self._access, self._pinned(device)
        membership = Membership(self._state, transport, token, access.attest, self._clock, pinned)
        return RoundRunner(
            self._state,
            transport,
            membership,
            self._chosen_trainer,
            access.floor,
            pinned=pinned,
            helper=access.helper,
            wait=wait,
            steps=self._steps,
            clock=self._clock,
        )

    def _chosen_trainer(self, work: int) -> Trainer:
        """Chosen when a round has to be computed: an app that only recommends loads no runtime."""
        known = self._trainer
        if known is not None and known[2] == work:
            return known[0]
        choice = choose_trainer(self._access.trainer, work=work)
        if known is not None and (known[1].name, known[1].provider) == (
            choice.name, choice.provider,
        ):  # fmt: skip
            trainer = known[0]
        else:
            try:
                trainer = make_trainer(choice.name, choice.provider)
            except TrainerUnavailable as error:
                if not choice.provider:
                    raise
                choice = Choice("onnx", f"ONNX Runtime on the CPU, for {error}")
                trainer = make_trainer(choice.name)
        self._trainer = (trainer, choice, work)
        return trainer

    def _reachable(self) -> bool:
        return self._access.transport is not None or self._access.server is not None

    async def _token(self) -> str | None:
        """For a device that is not enrolled; an app's callable may block, so not in the loop."""
        token = self._access.token
        if not callable(token):
            return token
        given: object = await asyncio.to_thread(call_app, self._state.consented, token)
        if not isinstance(given, str) or not given:
            raise arguments.wrong("token", arguments.TOKEN)
        return given

    def _consented(self, transport: Transport) -> Transport:
        return ConsentedTransport(transport, self._state.consented)

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Transport]:
        """The app's own one, which stays open, or one over HTTP for this call."""
        if self._access.transport is not None:
            yield self._access.transport
            return
        from fedrap.transport.http import HttpTransport  # aiohttp is loaded only here

        assert self._access.server is not None
        allow_http = self._access.allow_http
        transport = HttpTransport(self._access.server, allow_http=allow_http)
        try:
            yield transport
        finally:
            await transport.close()
