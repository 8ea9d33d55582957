"""A Java device whose answer to its enrolment is lost on the way, at the real coordinator.

What should not happen: a second device, a token that is spent for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fedrap_coordinator.store.memory import MemoryStore
from testkit.harness import ITEMS, serve, small_settings
from tests.android.java_devices import java_devices


@asynccontextmanager
async def losing_answers(server: str, path: bytes, whole: asyncio.Event) -> AsyncIterator[str]:
    """A relay that hangs up when the answer to this path comes, until it is whole; its address."""
    host, _, port = server.removeprefix("http://").partition(":")

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        asked = b""

        async def up() -> None:
            nonlocal asked
            while part := await reader.read(65_536):
                asked += part
                back.write(part)
                await back.drain()
            back.close()

        async def down() -> None:
            while part := await there.read(65_536):
                if path in asked and not whole.is_set():
                    break
                writer.write(part)
                await writer.drain()
            writer.close()

        await asyncio.gather(up(), down(), return_exceptions=True)

    listener = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()


@pytest.mark.spec("3.11")
async def test_a_lost_answer_costs_neither_the_token_nor_the_device(tmp_path: Path) -> None:
    store, whole = MemoryStore(), asyncio.Event()
    async with serve(small_settings(updates=2), store) as served:
        async with losing_answers(served.url, b"/v1/enrol", whole) as url:
            with java_devices() as java:
                await java.device("a", tmp_path, url, await served.token(), ITEMS[:5])
                for _ in range(2):
                    assert (await java.run("a"))["blocked_by"] == "unreachable"
                assert not (await java.status("a"))["enrolled"]
                assert len(await store.devices(b"", 10)) == 1
                await java.do("a", "close")
                whole.set()
                await java.do("a", "open", folder=str(tmp_path), server=url, token="spent")
                report = await java.run("a")
                assert report["joined"], report
                assert (await java.status("a"))["enrolled"]
        assert len(await store.devices(b"", 10)) == 1
