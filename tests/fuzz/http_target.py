"""The coordinator's HTTP side as a function of bytes: parser, handlers and answers, no socket.

The bytes go through aiohttp's own parser into the real apps, of devices and of admins, over a
transport in memory. The first byte says how: as they are, or as the body of a request that a known
device signed (a handler behind the signature sees them then), whole, in chunks or cut off.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.app import create_app
from fedrap_coordinator.http.admin_api import create_admin_app
from fedrap_coordinator.http.dashboard import MONITOR
from fedrap_coordinator.http.device_api import COORDINATOR, LIMITS
from fedrap_coordinator.http.limits import make_runner
from fedrap_coordinator.http.metrics import Metrics
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire.problems import MEDIA_TYPE
from testkit.harness import ITEMS, PATIENCE, small_settings
from testkit.load_client import CheapDevice

SIGNED_PATHS = ("/v1/offers", "/v1/renew", f"/v1/rounds/{'ab' * 16}/updates", "OPEN ROUND")
LOOKS = ("/admin/v1/overview", "/admin/v1/items?", "/admin/v1/audit?", "/session?")
_HEAD = re.compile(rb"HTTP/\d\.\d (\d{3}) ")
# An Expect header that is no text breaks the library's own handler of it, before any code of ours.
SERVERS_OWN = b"Server got itself in trouble"
_WAITS = 0.02  # seconds without a byte after which a request is cut off


@dataclass
class _Transport(asyncio.Transport):
    """What a protocol writes is kept; nothing is ever full."""

    said: bytearray = field(default_factory=bytearray)
    closed: bool = False

    def write(self, data: Any) -> None:
        self.said += data

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 9) if name == "peername" else default

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


@dataclass(frozen=True)
class Answered:
    """One answer: its status, its headers in lower case, its body as far as it came."""

    status: int
    headers: bytes
    body: bytes


class HttpTarget:
    """Both apps in a loop of their own; `feed` is one connection from its first byte to its end."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._store, self._device = MemoryStore(), CheapDevice(1, id=bytes(15) + b"\x01")
        settings, keyring = small_settings(updates=1000, over_selection=9.0), fresh_keyring()
        self._app = create_app(settings, self._store, keyring)
        admin = create_admin_app(
            settings, self._store, keyring, SYSTEM, self._app[MONITOR], Metrics()
        )
        self._runners = [make_runner(app) for app in (self._app, admin)]
        self._bearer = self._loop.run_until_complete(self._start(settings))

    async def _start(self, settings: Any) -> str:
        for runner in self._runners:
            await runner.setup()
        await self._app[COORDINATOR].add_items(ITEMS)
        await self._store.add_tokens([b"t" * 32], 0.0)
        await self._store.enrol(b"t" * 32, self._device.id, self._device.point, 0.0)
        return (
            await AdminActions(self._store, settings, SYSTEM, "f").add_admin("a", Role.VIEWER)
        ).token

    def close(self) -> None:
        """Give everything back."""
        for runner in self._runners:
            self._loop.run_until_complete(runner.cleanup())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def feed(self, raw: bytes) -> list[Answered]:
        """Whatever came in, nothing but good answers went out, and nothing stays in hand."""
        how, rest = (raw[0], raw[1:]) if raw else (0, b"")
        runner = self._runners[how >> 1 & 1 if how & 1 else how >> 3 & 1]
        sent = self._signed(how, rest) if how & 1 else rest
        said = self._loop.run_until_complete(self._connection(runner, sent))
        answers = list(read_answers(said))
        for one in answers:
            if one.status != 500 or b"expect:" not in sent.lower() or SERVERS_OWN not in one.body:
                check(one)
        assert self._app[LIMITS].in_hand() == (0, 0), "something is still in hand"
        return answers

    def _signed(self, how: int, body: bytes) -> bytes:
        """A request that gets as far as its handler, with this body, or this query."""
        if how & 2:  # an admin who looks
            query = re.sub(rb"[^\x21-\x7e]", b"%ff", body[:512])
            head = b"GET %s%s HTTP/1.1\r\nHost: f\r\n" % (LOOKS[how >> 2 & 3].encode(), query)
            return head + b"Authorization: Bearer " + self._bearer.encode() + b"\r\n\r\n"
        path = SIGNED_PATHS[how >> 2 & 3]
        if path == "OPEN ROUND":
            current = self._app[COORDINATOR].round
            path = f"/v1/rounds/{current.id.hex() if current else '00' * 16}/updates"
        whole = self._device._request(path, body)
        head, _, _ = whole.partition(b"\r\n\r\n")
        if how & 16:  # the same in chunks, whatever its bytes are
            head = re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", head)
            pieces = [body[at : at + 37] for at in range(0, len(body), 37)]
            chunked = b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in pieces)
            return head + b"\r\n\r\n" + chunked + (b"" if how & 32 else b"0\r\n\r\n")
        return whole[: -1 - len(body) // 2] if how & 32 else whole

    async def _connection(self, runner: web.AppRunner, sent: bytes) -> bytes:
        assert runner.server is not None
        protocol: Any = runner.server()
        transport = _Transport()
        protocol.connection_made(transport)
        task = protocol._task_handler
        for at in range(0, len(sent), 700):
            if not transport.closed:
                protocol.data_received(sent[at : at + 700])
                await asyncio.sleep(0)
        await self._until(
            lambda: transport.closed or _idle(protocol) or _wants_more(protocol, transport),
            PATIENCE,
        )
        await self._until(lambda: transport.closed or _idle(protocol), _WAITS)
        if not transport.closed:
            protocol.eof_received()
        protocol.connection_lost(None)
        # Behind an answer the server waits some seconds for the rest of a body: not here.
        await self._until(lambda: self._app[LIMITS].in_hand() == (0, 0), PATIENCE)
        task.cancel()
        await self._until(task.done, PATIENCE)
        return bytes(transport.said)

    async def _until(self, over: Callable[[], bool], seconds: float) -> None:
        end = self._loop.time() + seconds
        while not over() and self._loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.0005)


def _idle(protocol: Any) -> bool:
    """Does it wait for the next request?"""
    return protocol._waiter is not None and not protocol._waiter.done()


def _wants_more(protocol: Any, transport: _Transport) -> bool:
    """Is there a body that has not come whole, before its answer or behind it? Nobody sends it."""
    current = protocol._current_request
    if current is None:
        return bool(transport.said) and not protocol._messages
    return not current.content.is_eof()


def read_answers(said: bytes) -> list[Answered]:
    """The answers of one connection, in order."""
    found, at = [], 0
    while at < len(said):
        head, _, rest = said[at:].partition(b"\r\n\r\n")
        status = _HEAD.match(head)
        assert status is not None, head[:80]
        headers = head.lower()
        length = re.search(rb"content-length: (\d+)", headers)
        if int(status[1]) < 200:
            size = 0
        elif length is None:  # a stream that has no end of its own
            size = len(rest)
        else:
            size = int(length[1])
        found.append(Answered(int(status[1]), headers, rest[:size]))
        at += len(head) + 4 + size
    return found


def check(answer: Answered) -> None:
    """Never a 500; an error is a problem document, but for what is no HTTP at all."""
    assert answer.status < 500 or answer.status == 503, answer
    if answer.status < 400:
        return
    if answer.status in (400, 417) and b"content-type: text/plain" in answer.headers:
        assert len(answer.body) < 40_000, (
            answer
        )  # the parser's own words, with what it could not read
        return
    if b"content-type: application/json" in answer.headers:
        assert json.loads(answer.body) == {"ready": False}
        return
    assert MEDIA_TYPE.encode() in answer.headers, answer
    if answer.body:  # of a HEAD there is none
        assert json.loads(answer.body)["status"] == answer.status
