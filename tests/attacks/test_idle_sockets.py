"""Sockets that announce bodies and send nothing, or nearly nothing.

Version 0.1 reserved the length that a request announced, and no body had a deadline: 16 sockets
that announced 4 MiB each, 3 kB sent in all, stopped every update and enrolment for as long as they
stayed open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from fedrap_coordinator.settings import IngestLimits, Settings
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire.codec import encode
from testkit.harness import PATIENCE, LiveServer, one_cell, serve, small_settings

MIB = 1024 * 1024
Socket = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def settings(**serve_parts: object) -> Settings:
    small = small_settings(updates=50, max_body_bytes=4 * MIB)
    parts = msgspec.structs.replace(small.serve, **serve_parts)
    return msgspec.structs.replace(small, serve=parts, ingest=IngestLimits())


@asynccontextmanager
async def idle(served: LiveServer, count: int, announce: str) -> AsyncIterator[list[Socket]]:
    """Sockets with a whole head, an announced body and a few bytes of it."""
    port, sockets = int(served.url.split(":")[2]), []
    for number in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        path = ("/v1/enrol", "/v1/offers", f"/v1/rounds/{number:032x}/updates")[number % 3]
        device = f"Fedrap-Device: {number:032x}\r\nFedrap-Nonce: 1\r\nFedrap-Signature: eA==\r\n"
        writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\n{device}{announce}\r\n\r\nx".encode())
        sockets.append((reader, writer))
    await asyncio.sleep(0.2)
    try:
        yield sockets
    finally:
        for _, writer in sockets:
            writer.close()


@pytest.mark.parametrize("count", [16, 1000])
async def test_honest_devices_are_served_beside_idle_sockets(count: int) -> None:
    async with serve(settings(), MemoryStore()) as served:
        early = await served.player()
        async with idle(served, count, f"Content-Length: {4000}"):
            await asyncio.wait_for(early.join(one_cell(0)), PATIENCE)
            late = await asyncio.wait_for(served.player(), PATIENCE)  # enrols now
            offer = await asyncio.wait_for(late.offer(), PATIENCE)
            body = encode(late.update(offer, one_cell(1)))
            answer = await asyncio.wait_for(late.post(offer.round, body), PATIENCE)
            assert answer.status == 200


async def test_an_announced_length_reserves_nothing() -> None:
    async with serve(settings(), MemoryStore()) as served:
        player = await served.player()
        headers = player.signed("POST", "/v1/rounds/" + "00" * 16 + "/updates", b"")
        named = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        sockets = []
        for _ in range(64):  # 256 MiB announced, by a device that is enrolled
            _, writer = await asyncio.open_connection("127.0.0.1", int(served.url.split(":")[2]))
            path = "/v1/rounds/" + "00" * 16 + "/updates"
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{named}Content-Length: {4 * MIB}\r\n\r\nx"
            writer.write(head.encode())
            sockets.append(writer)
        await asyncio.sleep(0.2)
        other = await served.player()
        await asyncio.wait_for(other.join(one_cell(0)), PATIENCE)
        for writer in sockets:
            writer.close()


@pytest.mark.spec("2.7")
async def test_a_body_that_does_not_come_is_given_up() -> None:
    quick = settings(body_seconds=0.2, least_body_rate=1e6)
    async with serve(quick, MemoryStore()) as served:
        port = int(served.url.split(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\nx")
        answer = await asyncio.wait_for(reader.read(), PATIENCE)  # to the end: it is closed
        assert b" 503 " in answer
        assert b"unavailable" in answer
        writer.close()


@pytest.mark.spec("2.7", "1.4")
@pytest.mark.parametrize("path", ["/v1/offers", "/v1/forget"])
async def test_a_body_without_a_length_is_bounded_by_its_route(path: str) -> None:
    """Version 0.1 read chunked bodies to 4 MiB on routes that take 4 kB."""
    async with serve(settings(), MemoryStore()) as served:
        player = await served.player()
        headers = player.signed("POST", path, b"")
        named = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.split(":")[2]))
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{named}Transfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode() + b"1388\r\n" + b"x" * 5000 + b"\r\n")  # and no end
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        assert b" 413 " in answer
        writer.close()


async def test_of_a_device_that_is_not_known_no_body_is_read() -> None:
    async with serve(settings(), MemoryStore()) as served:
        stranger = await served.player()
        headers = stranger.signed("POST", "/v1/rounds/" + "00" * 16 + "/updates", b"")
        headers["Fedrap-Device"] = "ff" * 16
        named = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.split(":")[2]))
        path = "/v1/rounds/" + "00" * 16 + "/updates"
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{named}Content-Length: {4 * MIB}\r\n\r\n"
        writer.write(head.encode())
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        assert b" 401 " in answer
        writer.close()
