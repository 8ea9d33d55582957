"""Two coordinators for the suite of transports: the fake one, and a real one over HTTP."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count

import msgspec
import numpy as np

from fedrap.testing import FakeCoordinator
from fedrap.transport import Transport
from fedrap.transport.credentials import Credentials, Signer
from fedrap.transport.http import HttpTransport
from fedrap_coordinator.domain.records import NewItem
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.settings import PublicCatalogue
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.plan import Plan, Privacy
from fedrap_core.sparse import RowUpdate
from fedrap_core.wire.authority import open_signed
from fedrap_core.wire.codec import encode
from fedrap_core.wire.keys import new_private_key, private_to_bytes, public_point
from fedrap_core.wire.messages import Enrolled, Offer, Release
from fedrap_core.wire.seal import seal_update
from fedrap_core.wire.share import encode_share, uniform_count
from testkit.harness import DIM, ITEMS, one_cell, serve, small_settings

CAP = 2


@dataclass
class World:
    """A coordinator, a way to it, and what an operator can do."""

    transport: Transport
    token: Callable[[], Awaitable[str]]
    release_next: Callable[[], Awaitable[None]]
    leave: Callable[[], None]
    expire: Callable[[], None]  # all certificates end
    revoke: Callable[[bytes], Awaitable[None]]
    tell: Callable[[dict[str, dict[str, str]]], Awaitable[None]]  # titles of items

    async def enrolled(self) -> Member:
        key = new_private_key()
        answer = await self.transport.enrol(await self.token(), public_point(key.public_key()))
        nonces = count(1)
        credentials = Credentials(answer.device, answer.task, private_to_bytes(key))
        signer = Signer(credentials, lambda: next(nonces))
        return Member(answer.device, signer, credentials, answer)

    async def latest(self) -> Release:
        release = await self.transport.release(None)
        assert isinstance(release, Release)
        return release

    async def place(self, member: Member) -> Offer:
        held = (await self.latest()).version
        signed = await self.transport.offer(member.signer, held)
        return open_signed(member.enrolled.authority, signed, Offer)


@dataclass
class Member:
    """An enrolled device without a store."""

    id: bytes
    signer: Signer
    credentials: Credentials
    enrolled: Enrolled

    def body(self, offer: Offer, share: RowUpdate | None = None) -> bytes:
        """A good update's bytes."""
        chosen = one_cell(0) if share is None else share
        plain = encode_share(chosen, np.full(uniform_count(chosen), 0.5))
        return encode(seal_update(offer, self.id, plain))


def fake_world() -> World:
    """The fake, with tokens that are good once."""
    tokens: set[str] = {f"token-{number}" for number in range(50)}
    plan = Plan(privacy=Privacy(cap=CAP))
    matrix = np.random.default_rng(0).normal(0.0, 0.1, (len(ITEMS), DIM))
    fake = FakeCoordinator(ITEMS, common=matrix, tokens=tokens, plan=plan)
    unused = iter(sorted(tokens))

    async def token() -> str:
        return next(unused)

    async def release_next() -> None:
        matrix[0, 0] += 0.1
        fake.publish(matrix)

    def leave() -> None:
        fake.unreachable = True

    async def revoke(device: bytes) -> None:
        fake.revoke(device)

    async def tell(said: dict[str, dict[str, str]]) -> None:
        fake.attributes_of.update(said)

    return World(fake, token, release_next, leave, fake.expire_certificates, revoke, tell)


@asynccontextmanager
async def http_world() -> AsyncIterator[World]:
    """A real coordinator on a socket; two updates make a release."""
    settings = msgspec.structs.replace(
        small_settings(updates=2, cap=CAP), catalogue=PublicCatalogue(public=("title",))
    )
    later = [0.0]
    clock = lambda: time.time() + later[0]  # noqa: E731
    async with serve(settings, MemoryStore(), clock=clock) as served:
        transport = HttpTransport(served.url, served.session)

        async def release_next() -> None:
            for _ in range(2):
                await (await served.player()).join()

        def leave() -> None:
            transport._server = "http://127.0.0.1:1"

        def expire() -> None:
            later[0] += 31 * 86400.0

        async def revoke(device: bytes) -> None:
            assert await served.app[COORDINATOR].store.revoke_device(device, 1.0)

        async def tell(said: dict[str, dict[str, str]]) -> None:
            items = [NewItem(item, one) for item, one in said.items()]
            await served.app[COORDINATOR].store.import_items(items)

        yield World(transport, served.token, release_next, leave, expire, revoke, tell)
