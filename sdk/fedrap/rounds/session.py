"""A device and its coordinator: when it may call, with what, and what becomes of errors."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fedrap.errors import CoordinatorUnreachable, UpdateRefused
from fedrap.results import RoundReport
from fedrap.rounds import eligibility
from fedrap.rounds.enrolment import Attest
from fedrap.rounds.ledger import Floor
from fedrap.rounds.runner import RoundRunner, sync
from fedrap.rounds.state import RoundState
from fedrap.trainers.protocol import Trainer
from fedrap.trainers.select import Choice, choose_trainer, make_trainer
from fedrap.transport import Transport
from fedrap.transport.credentials import Signer
from fedrap_core.errors import BrokenModel
from fedrap_core.wire.problems import NOT_ENROLLED, Family

Token = str | Callable[[], str]
FORGET_SECONDS = 10.0


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


def ignore(error: Exception) -> None:
    """For callers that are told otherwise."""


class RoundSession:
    """Runs rounds and syncs, one round at a time."""

    def __init__(
        self, state: RoundState, access: Access, runner: Callable[..., RoundRunner] = RoundRunner
    ) -> None:
        self._state = state
        self._runner = runner
        self._access = access
        self._trainer: tuple[Trainer, Choice] | None = None
        self._running = threading.Lock()
        self._not_before = 0.0

    @property
    def choice(self) -> Choice | None:
        """What computes rounds in this process, once one was run."""
        return None if self._trainer is None else self._trainer[1]

    def after_fork_in_child(self) -> None:
        """No round runs here, and a runtime's threads were not inherited."""
        self._running = threading.Lock()
        self._trainer = None

    async def sync(self) -> None:
        """Fetch what is new, if the user consented and there is somebody to ask."""
        if self._state.consented() and self._reachable() and not self._access.offline:
            async with self._transport() as transport:
                await sync(self._state, transport)

    async def run_round(
        self, hear: Callable[[Exception], None] = ignore, wait: float = 0.0
    ) -> RoundReport:
        """Join a round if there is one, or soon; `hear` gets the errors that become a report."""
        if not self._running.acquire(blocking=False):
            return RoundReport(False, eligibility.ALREADY_RUNNING)
        try:
            self._state.expire()
            blocked = self.blocked_by()
            if blocked is not None:
                left = max(0.0, self._not_before - self._state.now())
                return RoundReport(False, blocked, left or None)
            async with self._transport() as transport:
                return await self._run(transport, hear, wait)
        finally:
            self._running.release()

    async def forget(self) -> str | None:
        """Ask the coordinator to forget this device; None when it has, or never knew it."""
        credentials = self._state.credentials()
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

    def blocked_by(self) -> str | None:
        """Why a round would not run now."""
        return eligibility.blocked_by(
            consented=self._state.consented(),
            offline=self._access.offline,
            reachable=self._reachable(),
            may_enrol=self._state.credentials() is not None or self._access.token is not None,
            interactions=self._state.recorded(),
            wait_seconds=self._not_before - self._state.now(),
        )

    async def _run(
        self, transport: Transport, hear: Callable[[Exception], None], wait: float
    ) -> RoundReport:
        try:
            token = await self._token()
        except Exception as error:  # the app's own callable: its backend may be out of reach
            hear(error)
            return RoundReport(False, eligibility.NO_TOKEN)
        access, trainer = self._access, self._chosen_trainer()
        runner = self._runner(
            self._state, transport, trainer, access.floor, token, access.attest, wait
        )
        try:
            return await runner.run()
        except UpdateRefused as refused:
            self._wait(refused.retry_after)
            if refused.problem.family is not Family.RETRY:  # "no room now" is daily life
                hear(refused)
            return RoundReport(False, refused.problem.code, refused.retry_after)
        except CoordinatorUnreachable as error:
            hear(error)
            return RoundReport(False, eligibility.UNREACHABLE)
        except BrokenModel as error:
            hear(error)
            return RoundReport(False, eligibility.BROKEN_RELEASE)

    def _chosen_trainer(self) -> Trainer:
        """Chosen at the first round, so that an app that only recommends loads no runtime."""
        if self._trainer is None:
            choice = choose_trainer(self._access.trainer)
            self._trainer = (make_trainer(choice.name), choice)
        return self._trainer[0]

    def _wait(self, seconds: float | None) -> None:
        if seconds is not None and math.isfinite(seconds):
            self._not_before = self._state.now() + seconds

    def _reachable(self) -> bool:
        return self._access.transport is not None or self._access.server is not None

    async def _token(self) -> str | None:
        """For a device that is not enrolled; an app's callable may block, so not in the loop."""
        token = self._access.token
        if self._state.credentials() is not None or token is None:
            return None
        return await asyncio.to_thread(token) if callable(token) else token

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Transport]:
        """The app's own one, which stays open, or one over HTTP for this call."""
        if self._access.transport is not None:
            yield self._access.transport
            return
        from fedrap.transport.http import HttpTransport  # aiohttp is loaded only here

        assert self._access.server is not None
        transport = HttpTransport(self._access.server)
        try:
            yield transport
        finally:
            await transport.close()
