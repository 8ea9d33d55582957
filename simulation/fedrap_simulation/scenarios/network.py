"""The way between a device and its coordinator, with all that happens to messages on it.

`SimulatedTransport` is the SDK's HTTP transport with a wire of its own underneath: what is encoded,
signed, decoded and refused is the product's. Two wires: a socket, and the coordinator's own HTTP
face called in this process. Every byte is counted.

A request as the coordinator's HTTP face would get it, made without a socket.

aiohttp's own test tools make such requests from mocks, which takes longer than answering them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np
from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from fedrap.errors import CoordinatorUnreachable
from fedrap.transport.http import AGENT, HttpTransport
from fedrap_simulation.scenarios.scenario import Network


class _NoTransport(asyncio.Transport):
    """Stands where a socket would: it is nobody's and never full."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 0) if name == "peername" else default

    def is_closing(self) -> bool:
        return False


class _NoProtocol(BaseProtocol):
    """What a request asks its connection for."""

    ssl_context = None
    peername = sockname = ("127.0.0.1", 0)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.transport = _NoTransport()


def make_request(
    app: web.Application, method: str, path: str, body: bytes, headers: dict[str, str]
) -> web.Request:
    """The request that a server would make of these bytes."""
    loop = asyncio.get_running_loop()
    told = CIMultiDict({"Host": "127.0.0.1", "Content-Length": str(len(body)), **headers})
    raw = tuple((name.encode(), value.encode()) for name, value in told.items())
    message = RawRequestMessage(
        method, path, HttpVersion11, CIMultiDictProxy(told), raw, False, None, False, False,
        URL(path, encoded=True),
    )  # fmt: skip
    connection = _NoProtocol(loop)
    payload = StreamReader(connection, 2**20, loop=loop)
    if body:
        payload.feed_data(body)
    payload.feed_eof()
    writer: Any = None
    return web.Request(
        message, payload, connection, writer, asyncio.current_task(),  # type: ignore[arg-type]
        loop, client_max_size=app._client_max_size,
    )  # fmt: skip


Answer = tuple[int, bytes]
Exchange = Callable[[str, str, bytes, dict[str, str], int], Awaitable[Answer]]
LATE = 600.0  # seconds by which a reordered copy is late, at most


@dataclass
class Traffic:
    """Bytes of one device."""

    up: int = 0
    down: int = 0


@dataclass
class Trouble:
    """What the network did, over all devices."""

    counts: Counter[str] = field(default_factory=Counter)


class InProcess:
    """The coordinator's HTTP face without a socket: routing, middlewares, handlers, all of it."""

    def __init__(self) -> None:
        self.app: web.Application | None = None  # None while the coordinator is down

    async def __call__(
        self, method: str, path: str, body: bytes, headers: dict[str, str], limit: int
    ) -> Answer:
        """One request and its answer."""
        app = self.app
        if app is None:
            raise CoordinatorUnreachable("no answer: the coordinator is down")
        request = make_request(app, method, path, body, {"User-Agent": AGENT, **headers})
        response = await app._handle(request)
        raw = response.body if isinstance(response, web.Response) else None
        if self.app is not app:  # killed before it could answer
            raise CoordinatorUnreachable("no answer: the coordinator went down")
        if isinstance(raw, bytes | bytearray) and len(raw) > limit:
            raise CoordinatorUnreachable(f"an answer of more than {limit} bytes")
        return response.status, bytes(raw) if isinstance(raw, bytes | bytearray) else b""


class SimulatedTransport(HttpTransport):
    """One device's transport. `slow` is added before an update leaves; `replay` sends all twice."""

    def __init__(
        self,
        wire: Exchange | str,
        network: Network,
        rng: np.random.Generator,
        trouble: Trouble,
        session: aiohttp.ClientSession | None = None,
        *,
        replay: bool = False,
    ) -> None:
        super().__init__(wire if isinstance(wire, str) else "http://localhost", session)
        self._wire: Exchange = super().exchange if isinstance(wire, str) else wire
        self._network, self._rng, self._trouble = network, rng, trouble
        self._replay = replay
        self.traffic = Traffic()
        self._strays: set[asyncio.Task[None]] = set()

    async def exchange(
        self, method: str, path: str, body: bytes, headers: dict[str, str], limit: int
    ) -> Answer:
        """The same exchange over a network that has its moods."""
        net, rng = self._network, self._rng
        lost, twice, late, bad = rng.random(4).tolist()
        await asyncio.sleep(self._delay())
        self.traffic.up += len(body)
        if lost < net.loss / 2:
            self._trouble.counts["lost on the way there"] += 1
            raise CoordinatorUnreachable("no answer: TimeoutError")
        sent = body
        if bad < net.corrupt and body:
            self._trouble.counts["corrupted"] += 1
            sent = _spoil(body, rng)
        if twice < net.duplicate or self._replay:
            self._trouble.counts["sent twice"] += 1
            wait = rng.random() * (LATE if late < net.reorder else net.delay)
            self._stray(wait, method, path, sent, headers, limit)
        status, raw = await self._wire(method, path, sent, headers, limit)
        self.traffic.down += len(raw)
        await asyncio.sleep(self._delay())
        if lost < net.loss:
            self._trouble.counts["lost on the way back"] += 1
            raise CoordinatorUnreachable("no answer: TimeoutError")
        if bad > 1.0 - net.corrupt and raw and status == 200:
            self._trouble.counts["corrupted"] += 1
            raw = _spoil(raw, rng)
        return status, raw

    async def settle(self) -> None:
        """Wait for copies that are still on their way."""
        await asyncio.gather(*self._strays, return_exceptions=True)

    def _delay(self) -> float:
        net = self._network
        if net.delay == 0:
            return 0.0
        return float(net.delay * np.exp(net.delay_spread * self._rng.standard_normal()))

    def _stray(
        self, wait: float, method: str, path: str, body: bytes, headers: dict[str, str], limit: int
    ) -> None:
        """A second copy arrives on its own; nobody waits for its answer."""

        async def arrive() -> None:
            await asyncio.sleep(wait)
            try:
                status, _ = await self._wire(method, path, body, headers, limit)
            except CoordinatorUnreachable:
                return
            if method == "POST":
                known = "taken again" if status == 200 else "refused"
                self._trouble.counts[f"copies {known}"] += 1

        task = asyncio.get_running_loop().create_task(arrive())
        self._strays.add(task)
        task.add_done_callback(self._strays.discard)


def _spoil(body: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes are others, or the end is missing."""
    raw = bytearray(body)
    if rng.random() < 0.3:
        return bytes(raw[: int(rng.integers(0, len(raw)))])
    for place in rng.integers(0, len(raw), 1 + int(rng.integers(0, 8))).tolist():
        raw[place] ^= 1 + int(rng.integers(0, 255))
    return bytes(raw)
