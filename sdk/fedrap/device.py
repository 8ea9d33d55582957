"""`FedRap`, the class that an app embeds.

Opening it needs no network and starts no thread. Every method may be called from any thread. In a
forked child an open device still belongs to the parent: see background/process.py.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from types import TracebackType

import msgspec

from fedrap.background import process
from fedrap.background.conditions import Conditions
from fedrap.background.process import DeviceProcess
from fedrap.background.scheduler import Pace
from fedrap.results import Erased, Exported, Interaction, Recommendation, RoundReport, Status
from fedrap.rounds import ledger
from fedrap.rounds.enrolment import Attest
from fedrap.rounds.ledger import Floor
from fedrap.rounds.session import Access, OnError, RoundSession, Token
from fedrap.storage.database import DeviceStore
from fedrap.storage.device_state import Consent, DeviceContents, DeviceState
from fedrap.storage.export import write_export
from fedrap.storage.history import Retention
from fedrap.storage.store_key import DefaultKey, KeyProvider
from fedrap.transport import Transport
from fedrap.transport.address import check_address
from fedrap_core.items import is_item_id
from fedrap_core.wire.authority import read_authority


class FedRap:
    """One user's recommender on one device. Make it with `FedRap.open`."""

    def __init__(
        self,
        state: DeviceState,
        access: Access,
        on_error: OnError | None,
        *,
        monotonic: Callable[[], float],
        uniform: Callable[[], float],
    ) -> None:
        self._state = state
        self._session = RoundSession(state, access, clock=state.now)
        self._process = DeviceProcess(
            state, self._session, on_error, monotonic=monotonic, uniform=uniform
        )

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        server: str | None = None,
        allow_http: bool = False,
        app: str = "app",
        token: Token | None = None,
        authority: bytes | str | None = None,
        key: KeyProvider | None = None,
        floor: Floor | None = None,
        retention: Retention | None = None,
        offline: bool = False,
        on_error: OnError | None = None,
        transport: Transport | None = None,
        trainer: str | None = None,
        attest: Attest | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        uniform: Callable[[], float] = random.random,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> FedRap:
        """The recommender of this device, from the folder `path`/`app`, made on first use.

        Args:
            server: address of the coordinator; without it everything works but rounds.
            allow_http: take a server without TLS also where it is another machine.
            token: an enrolment token from the app's backend, or a callable that gets one.
            authority: the public key of the task's authority, as `fedrap-coordinator authority`
                prints it; without it the device keeps the one that it first enrols with.
            key: gives the 32-byte key of the store; by default the system's keyring keeps it
                where the `keyring` library works, else a file that only its owner reads.
            floor: the least this device insists on, whatever a coordinator offers.
            retention: how much of the history is kept, and how long.
            offline: never open a socket, whatever else is asked for.
            on_error: called, in their thread, with errors that rounds in the background swallow.
            transport: another way to the coordinator than HTTP, for tests and simulations.
            trainer: `numpy`, `onnx` or `torch`; by default what fits (also FEDRAP_TRAINER).
            attest: gives the platform's `Proof` for 32 bytes, where a coordinator asks for one.
            clock: seconds since 1970; times of interactions, certificates and the ledger.
            monotonic: seconds that never go back; bounds how long `close` may take.
            uniform: a number in [0, 1); spreads devices that try again.
            random_bytes: so many bytes that nobody can guess; the store's key and nonces.

        Raises:
            StoreBusy, StoreLocked, StoreDamaged: the store cannot be used; nothing was changed.
            ValueError: `server` is no address, or has no TLS and leads to another machine; or
                `authority` is no key.
        """
        pinned = None if authority is None else read_authority(authority)
        if server is not None:
            check_address(server, allow_http=allow_http)
        folder = Path(path).expanduser().absolute() / app
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        store = DeviceStore(folder, key or DefaultKey(folder, random_bytes), random_bytes)
        try:
            state = DeviceState(store, clock, retention)
        except BaseException:
            store.close()
            raise
        access = Access(
            server,
            token,
            transport,
            offline,
            floor or Floor(),
            trainer,
            attest,
            allow_http=allow_http,
            authority=pinned,
        )
        return cls(state, access, on_error, monotonic=monotonic, uniform=uniform)

    def __enter__(self) -> FedRap:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> FedRap:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Give the store back within 2 seconds, also in the middle of a round in the background.

        A second call does nothing; every other call raises StoreClosed from now on.
        """
        self._process.close_within(process.CLOSE_SECONDS)

    def consent(self, *, train: bool, policy: str) -> None:
        """Keep what the user agreed to. Until `train=True` nothing ever leaves the device."""
        self._state.keep_consent(Consent(train, policy, self._state.now()))
        self._process.wake()

    def record(
        self, item: str, *, kind: str = "view", weight: float = 1.0, at: float | None = None
    ) -> None:
        """Keep one interaction, on this device only; durable when this returns.

        Raises:
            ValueError: an empty or overlong item id, a weight that is not above 0, or no time.
        """
        self._state.record([self._checked(item, kind, weight, at)])

    def record_many(self, interactions: Iterable[Interaction]) -> int:
        """Keep many interactions, all or none, in the order of their times. Returns how many.

        Raises:
            ValueError: one of them is not valid; nothing was kept.
        """
        checked = [self._checked(*msgspec.structs.astuple(one)) for one in interactions]
        self._state.record(checked)
        return len(checked)

    @staticmethod
    def _checked(item: str, kind: str, weight: float, at: float | None) -> Interaction:
        """An interaction that may be kept; one without a time is dated when it is."""
        if not is_item_id(item):
            raise ValueError("an item id has 1 to 200 characters and no line break")
        if not 0 < weight <= 1000:
            raise ValueError("a weight lies above 0 and at most at 1000")
        if at is not None and not math.isfinite(at):
            raise ValueError("a time is a finite number of seconds since 1970")
        return Interaction(item, kind, float(weight), math.inf if at is None else float(at))

    def recommend(
        self,
        n: int = 10,
        *,
        filter_seen: bool = True,
        candidates: Collection[str] | None = None,
        explain: bool = False,
    ) -> list[Recommendation]:
        """The n best items for this user, best first. Offline; needs one earlier sync."""
        known = self._state.contents()
        if known.model is None or n <= 0:
            return []
        return known.model.recommend(
            known.interactions,
            known.trained,
            n,
            candidates,
            filter_seen=filter_seen,
            reasons=explain,
        )

    def similar_items(self, item: str, n: int = 10) -> list[tuple[str, float]]:
        """The n items most like `item` in what everybody taught C, with their cosine. Offline."""
        model = self._state.contents().model
        return [] if model is None or n <= 0 else model.similar(item, n)

    def sync(self) -> None:
        """Fetch the latest catalogue and C; see `sync_async`."""
        process.run_blocking("sync", self.sync_async)

    async def sync_async(self) -> None:
        """Fetch the latest catalogue and C, if the user consented.

        Raises:
            CoordinatorUnreachable, UpdateRefused, BrokenModel, AnotherAuthority, SignatureInvalid,
            ForkedLog: the old ones stay in use.
        """
        await self._session.sync()

    def run_round(self, wait: float = 0.0) -> RoundReport:
        """Join a round if there is one for this device; see `run_round_async`."""
        return process.run_blocking("run_round", partial(self.run_round_async, wait))

    async def run_round_async(self, wait: float = 0.0) -> RoundReport:
        """Join a round if there is one for this device. Never raises for network reasons.

        `wait`: where there is no slot now, wait up to so many seconds for one (60 at the most).
        """
        return await self._session.run_round(wait=wait)

    def start(self, *, conditions: Conditions | None = None, pace: Pace | None = None) -> None:
        """Run rounds in the background from now on; a second call does nothing.

        Args:
            conditions: what must hold: by default charging, unmetered, idle, battery left.
            pace: how often to try, between the wishes of the coordinator.
        """
        self._process.start(conditions or Conditions(), pace or Pace())

    def stop(self) -> None:
        """Run no more rounds in the background; one in flight ends, and is resumed another time."""
        self._process.stop()

    def status(self) -> Status:
        """Where this device stands."""
        return self._status(self._state.contents())

    def _status(self, known: DeviceContents) -> Status:
        choice, model = self._session.choice, known.model
        return Status(
            consented=known.consented,
            enrolled=known.credentials is not None,
            interactions=len(known.interactions),
            personal_items=len(known.personal),
            release=None if model is None else model.common.version,
            rounds=len(ledger.charged_steps(known.entries)),
            epsilon=ledger.epsilon(known.entries),
            pending=known.pending,
            dropped=known.dropped,
            trainer=None if choice is None else choice.name,
            trainer_reason=None if choice is None else choice.reason,
            blocked_by=self._process.blocked_by(),
            privacy=ledger.privacy_guarantee(known.entries),
        )

    def export(self, path: str | Path) -> Exported:
        """Write the user's own data as a zip of readable JSON, without any key."""
        known = self._state.contents()
        return write_export(Path(path).expanduser(), known, self._status(known))

    def erase(self) -> Erased:
        """Delete everything, here and at the coordinator; see `erase_async`."""
        return process.run_blocking("erase", self.erase_async)

    async def erase_async(self) -> Erased:
        """Delete store and key, ask the coordinator to forget this device, and close.

        Works offline too; the receipt says whether the coordinator confirmed.

        Raises:
            StoreDamaged: a file could not be deleted; it is named, and the rest is gone.
        """
        self._state.check_usable()
        await asyncio.to_thread(self.stop)
        try:
            reason = await self._session.forget()
        finally:  # whatever a transport does, the store goes
            deleted = self._state.erase()
        return Erased(deleted, reason is None, reason)
