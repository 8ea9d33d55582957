"""A request as the coordinator's HTTP face would get it, made without a socket.

aiohttp's own test tools make such requests from mocks, which takes longer than answering them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL


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
