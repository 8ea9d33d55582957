"""A real coordinator on a real socket, and a device that can also misbehave."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
import numpy as np
from aiohttp import web

from fedrap import FedRap, Floor
from fedrap.transport.credentials import Signer
from fedrap.transport.http import HttpTransport
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.policy_actions import PolicyActions
from fedrap_coordinator.app import create_app
from fedrap_coordinator.domain.rate_limits import Pace
from fedrap_coordinator.domain.rounds import RoundLimits
from fedrap_coordinator.http.device_api import COORDINATOR, REGISTRY
from fedrap_coordinator.http.limits import make_runner
from fedrap_coordinator.keyring import Keyring, fresh_keyring
from fedrap_coordinator.rounds.driver import Learn
from fedrap_coordinator.rounds.releases import Model, next_model
from fedrap_coordinator.settings import Enrolment, Limits, Serve, Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.protocol import Store
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.plan import Privacy, Scoring, SolveMethod
from fedrap_core.solve.server_step import Learning, RoundSum
from fedrap_core.sparse import RowUpdate, packed_size
from fedrap_core.wire.authority import open_signed
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.keys import new_private_key, public_point
from fedrap_core.wire.messages import (
    Accepted,
    Enrol,
    Enrolled,
    Offer,
    OfferRequest,
    Signed,
    Update,
)
from fedrap_core.wire.seal import seal_update
from fedrap_core.wire.share import encode_share, uniform_count
from fedrap_core.wire.signing import (
    DEVICE_HEADER,
    NONCE_HEADER,
    SIGNATURE_HEADER,
    sign,
    signed_bytes,
)

T = TypeVar("T")
ITEMS = [f"item-{row}" for row in range(12)]
DIM = 4
PATIENCE = 120.0  # seconds that a test waits for what must come; a busy machine is no failure
NO_LIMITS = Limits(device=Pace(burst=1e6, per_minute=1e6), address=Pace(burst=1e6, per_minute=1e6))


def small_settings(
    *,
    updates: int = 2,
    min_updates: int | None = None,
    cap: int = 10,
    separation: int = 2,
    noise: float = 0.0,
    max_seconds: float = 600.0,
    total: int = 100,
    over_selection: float = 3.0,
    max_body_bytes: int = 64 * 1024,
    clip: float = 30.0,
) -> Settings:
    """A coordinator for tests: few updates, no waiting."""
    return Settings(
        serve=Serve(retry_seconds=0.01, max_body_bytes=max_body_bytes),
        limits=NO_LIMITS,
        round=RoundLimits(
            min_updates=min_updates or updates,
            max_updates=updates,
            max_seconds=max_seconds,
            over_selection=over_selection,
            answer_seconds=0.0,
            total=total,
        ),
        method=SolveMethod(dim=DIM),
        privacy=Privacy(clip=clip, cap=cap, separation=separation, noise=noise),
        learning=Learning(population=10, density=0.2),
        scoring=Scoring(),
        enrolment=Enrolment(wait_steps=0),
    )


def until(condition: Callable[[], T | None]) -> T:
    """What `condition` gives, once it gives something."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError("waited for it in vain")
        time.sleep(0.05)
    return found


async def until_async(condition: Callable[[], T | None]) -> T:
    """The same beside other tasks."""
    async with asyncio.timeout(PATIENCE):
        while not (found := condition()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return found


class SettledTransport(HttpTransport):
    """HTTP as it is; what follows from an update has happened when it is answered."""

    def __init__(self, url: str, session: aiohttp.ClientSession, app: web.Application) -> None:
        super().__init__(url, session)
        self._app = app

    async def send_update(self, signer: Signer, round_id: bytes, body: bytes) -> Signed:
        answer = await super().send_update(signer, round_id, body)
        await self._app[COORDINATOR].advance()
        return answer


@dataclass
class LiveServer:
    """A running coordinator."""

    app: web.Application
    url: str
    session: aiohttp.ClientSession
    _opened: list[FedRap] = field(default_factory=list)

    async def token(self) -> str:
        """A fresh one-time token."""
        token = secrets.token_urlsafe(12)
        await self.app[REGISTRY].add_tokens([token])
        return token

    async def device(self, folder: Path, items: list[str], **options: Any) -> FedRap:
        """A consenting device of the real SDK with this history, oldest first."""
        transport = SettledTransport(self.url, self.session, self.app)
        options.setdefault("floor", Floor.without_privacy(min_updates=2))
        options.setdefault("token", await self.token())
        device = FedRap.open(folder, transport=transport, **options)
        device.consent(train=True, policy="test")
        for item in items:
            device.record(item)
        self._opened.append(device)
        return device

    async def player(self) -> Player:
        """A hand-made device that can send anything."""
        player = Player(self)
        await player.enrol(await self.token())
        return player

    def close_devices(self) -> None:
        """Give all stores back."""
        for device in self._opened:
            device.close()


def noting(sums: list[RoundSum]) -> Learn:
    """The product's learning step, which notes each sum first."""

    def learn(task: bytes, model: Model, total: RoundSum, *rest: Any) -> Model:
        sums.append(total)
        return next_model(task, model, total, *rest)

    return learn


def _opened(store: Store | str) -> Store:
    return SqlStore(f"sqlite:///{store}") if isinstance(store, str) else store


async def _take_policy(settings: Settings, store: Store) -> None:
    await store.open()
    wanted = settings.policy()
    changes = {**msgspec.to_builtins(wanted.privacy), "total": wanted.total}
    admin = AdminActions(store, settings, Sources(time.time, time.monotonic), "a test")
    await PolicyActions(admin).change(changes, take=True)
    await store.close()


@asynccontextmanager
async def serve(
    settings: Settings,
    store: Store | str,
    keyring: Keyring | None = None,
    clock: Callable[[], float] = time.time,
    items: list[str] | None = None,
    learn: Learn = next_model,
    monotonic: Callable[[], float] = time.monotonic,
    *,
    change_policy: bool = False,
) -> AsyncIterator[LiveServer]:
    """The real app on a free port; `store` may be a path of a SQLite file.

    With `change_policy` the policy of the settings is taken first, as an operator would.
    """
    if change_policy:
        await _take_policy(settings, _opened(store))
    opened = _opened(store)
    app = create_app(
        settings, opened, keyring or fresh_keyring(), Sources(clock, monotonic), learn=learn
    )
    async with serve_app(app, items) as served:
        yield served


@asynccontextmanager
async def serve_app(
    app: web.Application, items: list[str] | None = None
) -> AsyncIterator[LiveServer]:
    """An app that somebody made, on a free port."""
    runner = make_runner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    await app[COORDINATOR].add_items(ITEMS if items is None else items)
    async with aiohttp.ClientSession() as session:
        served = LiveServer(app, f"http://127.0.0.1:{runner.addresses[0][1]}", session)
        try:
            yield served
        finally:
            served.close_devices()
            await runner.cleanup()


@dataclass(frozen=True)
class Answer:
    """What came back over the socket."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def document(self) -> dict[str, Any]:
        """The problem document."""
        assert self.headers["Content-Type"].startswith("application/problem+json")
        document: dict[str, Any] = json.loads(self.body)
        return document

    @property
    def problem(self) -> str:
        """Its code."""
        return str(self.document["type"]).removeprefix("urn:fedrap:problem:")


class Player:
    """A device made by hand: every byte it sends is ours to choose."""

    def __init__(self, served: LiveServer) -> None:
        self._served = served
        self.key = new_private_key()
        self.id = self.authority = b""
        self._nonce = 0

    async def enrol(self, token: str) -> None:
        """Get an id."""
        body = encode(Enrol(token=token, public_key=public_point(self.key.public_key())))
        answer = await self.send("POST", "/v1/enrol", body, {})
        enrolled = decode(Enrolled, answer.body)
        self.id, self.authority = enrolled.device, enrolled.authority

    def next_nonce(self) -> int:
        """A larger number each time."""
        self._nonce += 1
        return self._nonce

    def signed(
        self, method: str, path: str, body: bytes, nonce: int | None = None
    ) -> dict[str, str]:
        """Good headers for this request."""
        used = self.next_nonce() if nonce is None else nonce
        signature = sign(self.key, signed_bytes(method, path, body, self.id, used))
        return {
            DEVICE_HEADER: self.id.hex(),
            NONCE_HEADER: str(used),
            SIGNATURE_HEADER: base64.b64encode(signature).decode(),
        }

    async def send(
        self, method: str, path: str, body: bytes, headers: dict[str, str] | None = None
    ) -> Answer:
        """Any bytes; signed well unless headers are given."""
        chosen = self.signed(method, path, body) if headers is None else headers
        url = self._served.url + path
        async with self._served.session.request(method, url, data=body, headers=chosen) as answer:
            return Answer(answer.status, await answer.read(), dict(answer.headers))

    async def ask(self, release: int | None = None) -> Answer:
        """Ask for a slot, holding the latest release unless told otherwise."""
        if release is None:
            release = (await self._served.app[COORDINATOR].release(None)).version
        return await self.send("POST", "/v1/offers", encode(OfferRequest(release=release)))

    async def offer(self) -> Offer:
        """A slot that must be given."""
        answer = await self.ask()
        assert answer.status == 200, answer.body
        return self.offer_in(answer)

    def offer_in(self, answer: Answer) -> Offer:
        """The offer of an answer, its signature checked."""
        return open_signed(self.authority, decode(Signed, answer.body), Offer)

    def update(self, offer: Offer, share: RowUpdate | bytes) -> Update:
        """A sealed update with this share, or with these plaintext bytes."""
        if isinstance(share, RowUpdate):
            share = encode_share(share, np.zeros(uniform_count(share)) + 0.5)
        return seal_update(offer, self.id, share)

    async def post(
        self, round_id: bytes, body: bytes, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send an update's bytes to a round; what follows from it has happened on return."""
        path = f"/v1/rounds/{round_id.hex()}/updates"
        answer = await self.send("POST", path, body, headers)
        if answer.status == 200:
            await self._served.app[COORDINATOR].advance()
        return answer

    async def join(self, share: RowUpdate | None = None) -> Accepted:
        """A whole honest round."""
        offer = await self.offer()
        answer = await self.post(offer.round, encode(self.update(offer, share or one_cell(0))))
        assert answer.status == 200, answer.body
        return open_signed(self.authority, decode(Signed, answer.body), Accepted)


def one_cell(row: int, value: float = 1.0, dim: int = DIM) -> RowUpdate:
    """A share that touches one number of C and nothing else."""
    values = np.zeros((1, dim))
    values[0, 0] = value
    return RowUpdate(np.array([row], dtype=np.int64), values, np.zeros(packed_size(dim)))


@dataclass(frozen=True)
class Address:
    """Where a coordinator is, and tokens for it."""

    url: str
    tokens: list[str]


@contextmanager
def running(items: list[str]) -> Iterator[Address]:
    """A coordinator in a thread, as another machine would be; it offers what a device agrees to."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Address]:
        protecting = small_settings(updates=20, noise=2.0)
        async with serve(protecting, MemoryStore(), items=items) as served:
            yield Address(served.url, [await served.token() for _ in range(8)])

    with in_a_thread(opened()) as address:
        yield address


@contextmanager
def in_a_thread(opened: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """What an async context gives, with its event loop in a thread of its own."""
    ready: list[T] = []
    started, over = threading.Event(), threading.Event()

    async def run() -> None:
        async with opened as made:
            ready.append(made)
            started.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert started.wait(PATIENCE)
        yield ready[0]
    finally:
        over.set()
        thread.join(PATIENCE)
