"""A client that goes away in the middle of its request is no internal error."""

from __future__ import annotations

import asyncio
import logging

import pytest
from aiohttp.test_utils import make_mocked_request

from fedrap_coordinator.http.problems import ServerEvents, answer_for
from fedrap_coordinator.store.memory import MemoryStore
from testkit.harness import serve, small_settings

HEAD = (
    b"POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Type: application/vnd.fedrap+msgpack\r\n"
    b"Content-Length: 1000\r\n\r\n"
)
CHUNKED = b"POST /v1/enrol HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"


@pytest.mark.parametrize("sent", [HEAD + b"some bytes", CHUNKED, CHUNKED + b"zz\r\nnonsense"])
async def test_who_hangs_up_is_told_of_at_info_and_counted_as_nothing_internal(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serve(small_settings(), MemoryStore()) as served:
        host, port = served.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        await writer.drain()
        async with served.session.get(f"{served.url}/healthz") as answer:  # it was begun by then
            assert answer.status == 200
        writer.transport.abort()
    # The server has ended, and with it everything that was begun.
    ours = [one for one in caplog.records if ServerEvents().filter(one)]
    assert not [one for one in ours if one.levelno >= logging.ERROR]


async def test_an_error_of_the_connection_in_a_handler_is_told_of_at_info(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    for error in (ConnectionResetError(), asyncio.IncompleteReadError(b"", 5)):
        request = make_mocked_request("POST", "/v1/enrol")
        answer = answer_for(error, request, lambda: 0.5, "192.0.2.7")
        assert answer.status == 400
    assert [one.message for one in caplog.records] == ["the client went away"] * 2
    bug = answer_for(ValueError(), make_mocked_request("GET", "/"), lambda: 0.5, "")
    assert bug.status == 500
    assert caplog.records[-1].levelno == logging.ERROR
