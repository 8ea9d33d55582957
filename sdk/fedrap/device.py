"""FedRap: what an app embeds. Opens without network and without threads."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType

from fedrap import ledger, policy
from fedrap.errors import CoordinatorUnreachable, UpdateRefused
from fedrap.keys import KeyProvider, key_file
from fedrap.ledger import Floor
from fedrap.results import Recommendation, RoundReport, Status
from fedrap.rounds import RoundRunner, sync
from fedrap.state import Consent, DeviceState
from fedrap.store import DeviceStore, Interaction
from fedrap.trainers.pick import Choice, choose_trainer, make_trainer
from fedrap.trainers.protocol import Trainer
from fedrap.transport import Transport
from fedrap_core.errors import BrokenModel

Token = str | Callable[[], str]


class FedRap:
    """One user's recommender on one device. Make it with `FedRap.open`."""

    def __init__(
        self,
        state: DeviceState,
        server: str | None,
        token: Token | None,
        floor: Floor,
        transport: Transport | None,
        trainer: str | None,
    ) -> None:
        self._state = state
        self._server = server
        self._token = token
        self._floor = floor
        self._transport = transport
        self._wanted_trainer = trainer
        self._trainer: tuple[Trainer, Choice] | None = None
        self._running = threading.Lock()
        self._not_before = 0.0

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        server: str | None = None,
        app: str = "app",
        token: Token | None = None,
        key: KeyProvider | None = None,
        floor: Floor | None = None,
        transport: Transport | None = None,
        trainer: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> FedRap:
        """The recommender of this device, from the folder `path`/`app`, made on first use.

        Args:
            server: address of the coordinator; without it everything works but rounds.
            token: a one-time enrolment token from the app's backend, or a callable that gets one.
            key: gives the 32-byte key of the store; by default a file that only its owner reads.
            floor: the least this device insists on, whatever a coordinator offers.
            transport: another way to the coordinator than HTTP, for tests and simulations.
            trainer: `numpy`, `onnx` or `torch`; by default what fits (also FEDRAP_TRAINER).

        Raises:
            StoreBusy, StoreLocked, StoreDamaged: the store cannot be used; nothing was changed.
        """
        folder = Path(path).expanduser() / app
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        store = DeviceStore(folder, key or key_file(folder / "store.key"))
        try:
            state = DeviceState(store, clock)
        except BaseException:
            store.close()
            raise
        return cls(state, server, token, floor or Floor(), transport, trainer)

    def __enter__(self) -> FedRap:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the store back; a second call does nothing."""
        self._state.close()

    def consent(self, *, train: bool, policy: str) -> None:
        """Keep what the user agreed to. Until `train=True` nothing ever leaves the device."""
        self._state.keep_consent(Consent(train, policy, self._state.now()))

    def record(
        self, item: str, *, kind: str = "tap", weight: float = 1.0, at: float | None = None
    ) -> None:
        """Keep one interaction, on this device only; durable when this returns.

        Raises:
            ValueError: an empty or overlong item id, or a weight that is not above 0.
        """
        if not 0 < len(item) <= 200:
            raise ValueError("an item id has 1 to 200 characters")
        if not 0 < weight <= 1000:
            raise ValueError("a weight lies above 0 and at most at 1000")
        when = self._state.now() if at is None else at
        self._state.record(Interaction(item, kind, float(weight), float(when)))

    def recommend(
        self,
        n: int = 10,
        *,
        filter_seen: bool = True,
        candidates: Collection[str] | None = None,
        explain: bool = False,
    ) -> list[Recommendation]:
        """The n best items for this user, best first. Offline; needs one earlier sync."""
        model = self._state.model()
        if model is None or n <= 0:
            return []
        return model.recommend(
            self._state.interactions(),
            self._state.trained(),
            n,
            candidates,
            filter_seen=filter_seen,
            reasons=explain,
        )

    def similar_items(self, item: str, n: int = 10) -> list[tuple[str, float]]:
        """The n items most like `item` in what everybody taught C, with their cosine. Offline."""
        model = self._state.model()
        return [] if model is None or n <= 0 else model.similar(item, n)

    def sync(self) -> None:
        """Fetch the latest catalogue and C; see `sync_async`."""
        asyncio.run(self.sync_async())

    async def sync_async(self) -> None:
        """Fetch the latest catalogue and C, if the user consented.

        Raises:
            CoordinatorUnreachable, UpdateRefused, BrokenModel: the old ones stay in use.
        """
        if self._state.consented() and self._reachable():
            transport = self._open_transport()
            try:
                await sync(self._state, transport)
            finally:
                await self._done_with(transport)

    def run_round(self) -> RoundReport:
        """Join a round if there is one for this device; see `run_round_async`."""
        return asyncio.run(self.run_round_async())

    async def run_round_async(self) -> RoundReport:
        """Join a round if there is one for this device. Never raises for network reasons."""
        if not self._running.acquire(blocking=False):
            return RoundReport(False, "already-running")
        try:
            blocked = self._blocked_by()
            if blocked is not None:
                wait = max(0.0, self._not_before - self._state.now())
                return RoundReport(False, blocked, wait or None)
            transport = self._open_transport()
            try:
                return await self._run(transport)
            finally:
                await self._done_with(transport)
        finally:
            self._running.release()

    def status(self) -> Status:
        """Where this device stands."""
        entries = self._state.entries()
        return Status(
            consented=self._state.consented(),
            enrolled=self._state.credentials() is not None,
            interactions=len(self._state.interactions()),
            personal_items=len(self._state.personal()),
            release=self._state.release_version(),
            rounds=len(ledger.charged_steps(entries)),
            epsilon=ledger.epsilon(entries),
            pending=len(self._state.outbox()),
            dropped=self._state.dropped(),
            trainer=None if self._trainer is None else self._trainer[1].name,
            trainer_reason=None if self._trainer is None else self._trainer[1].reason,
            blocked_by=self._blocked_by(),
        )

    async def _run(self, transport: Transport) -> RoundReport:
        enrolled = self._state.credentials() is not None
        token = None if enrolled else self._token_text()
        runner = RoundRunner(self._state, transport, self._chosen_trainer(), self._floor, token)
        try:
            return await runner.run()
        except UpdateRefused as refused:
            self._wait(refused.retry_after)
            return RoundReport(False, refused.problem.code, refused.retry_after)
        except CoordinatorUnreachable:
            return RoundReport(False, policy.UNREACHABLE)
        except BrokenModel:
            return RoundReport(False, policy.BROKEN_RELEASE)

    def _chosen_trainer(self) -> Trainer:
        """Chosen at the first round, so that an app that only recommends loads no runtime."""
        if self._trainer is None:
            choice = choose_trainer(self._wanted_trainer)
            self._trainer = (make_trainer(choice.name), choice)
        return self._trainer[0]

    def _blocked_by(self) -> str | None:
        return policy.blocked_by(
            consented=self._state.consented(),
            reachable=self._reachable(),
            may_enrol=self._state.credentials() is not None or self._token is not None,
            interactions=len(self._state.interactions()),
            wait_seconds=self._not_before - self._state.now(),
        )

    def _wait(self, seconds: float | None) -> None:
        if seconds is not None and math.isfinite(seconds):
            self._not_before = self._state.now() + seconds

    def _reachable(self) -> bool:
        return self._transport is not None or self._server is not None

    def _token_text(self) -> str | None:
        return self._token() if callable(self._token) else self._token

    def _open_transport(self) -> Transport:
        if self._transport is not None:
            return self._transport
        from fedrap.http_transport import HttpTransport  # aiohttp is loaded only here

        assert self._server is not None
        return HttpTransport(self._server)

    async def _done_with(self, transport: Transport) -> None:
        if transport is not self._transport:
            await transport.close()
