"""HTTP against a server that answers anything: two errors come out, and no others."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap import CoordinatorUnreachable, FedRapError, UpdateRefused
from fedrap.transport.credentials import Credentials, Signer
from fedrap.transport.http import HttpTransport
from fedrap_core.wire import problems
from fedrap_core.wire.codec import MAX_BYTES, encode
from fedrap_core.wire.keys import new_private_key, private_to_bytes
from fedrap_core.wire.messages import Catalogue, Signed
from fedrap_core.wire.signing import NONCE_HEADER
from tests.sdk.made import DEVICE, TASK, a_release

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ROUND = b"r" * 16
RECEIPT = Signed(body=b"receipt", signature=bytes(64))
ACCEPTED = encode(RECEIPT)


def a_signer() -> Signer:
    nonces = count(1)
    key = private_to_bytes(new_private_key())
    return Signer(Credentials(DEVICE, TASK, key), lambda: next(nonces))


@asynccontextmanager
async def answering(handler: Handler) -> AsyncIterator[HttpTransport]:
    """A transport to a server that answers everything with this handler."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with HttpTransport(f"http://127.0.0.1:{runner.addresses[0][1]}/") as transport:
            yield transport
    finally:
        await runner.cleanup()


def always(status: int, body: bytes, **headers: str) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, body=body, headers=shown)

    return answer


async def failures_of(transport: HttpTransport) -> list[FedRapError]:
    """What each verb raises; anything but the two errors fails the test."""
    calls: list[Awaitable[object]] = [
        transport.enrol("token", bytes(65)),
        transport.release(3),
        transport.catalogue(0),
        transport.offer(a_signer(), 1),
        transport.send_update(a_signer(), ROUND, b"body"),
    ]
    found: list[FedRapError] = []
    for call in calls:
        try:
            await call
        except (CoordinatorUnreachable, UpdateRefused) as error:
            found.append(error)
    return found


HOSTILE: dict[str, Handler] = {
    "empty": always(200, b""),
    "truncated": always(200, ACCEPTED[:-7]),
    "another type": always(200, ACCEPTED.replace(b"signed", b"secret")),
    "another version": always(200, ACCEPTED.replace(b"\xa1v\x01", b"\xa1v\x02")),
    "not msgpack": always(200, b"\xc1\xc1\xc1"),
    "html": always(200, b"<html>sign in to the Wi-Fi</html>", Content_Type="text/html"),
    "html 502": always(502, b"<html>Bad Gateway</html>", Content_Type="text/html"),
    "empty 500": always(500, b""),
    "json list": always(400, b"[1, 2]"),
    "json number": always(400, b"7"),
    "deep json": always(400, b"[" * 100_000),
    "unknown problem": always(418, b'{"type": "urn:fedrap:problem:teapot"}'),
    "no type": always(409, b'{"title": "no"}'),
    "not utf-8": always(409, b'{"type": "\xff"}'),
    "no content": always(204, b""),
    "false gzip": always(200, b"not gzip at all", Content_Encoding="gzip"),
    "redirect to nowhere": always(302, b"", Location="http://127.0.0.1:1/"),
    "redirect in a circle": always(307, b"", Location="/again"),
    "redirect to a file": always(302, b"", Location="file:///etc/passwd"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_answer_is_an_unreachable_coordinator(name: str) -> None:
    async with answering(HOSTILE[name]) as transport:
        found = await failures_of(transport)
    assert [type(error) for error in found] == [CoordinatorUnreachable] * 5


@settings(max_examples=30)
@given(st.binary(max_size=200), st.sampled_from([200, 304, 400, 409, 500]))
def test_arbitrary_bytes_give_one_of_the_two_errors(body: bytes, status: int) -> None:
    async def run() -> None:
        async with answering(always(status, b"" if status == 304 else body)) as transport:
            found = await failures_of(transport)
        assert len(found) == (4 if status == 304 else 5)

    asyncio.run(run())


@pytest.mark.spec("1.4")
@pytest.mark.parametrize("endless", [False, True])
async def test_an_oversized_answer_is_not_read_to_its_end(endless: bool) -> None:
    written = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal written
        answer = web.StreamResponse()
        if not endless:
            answer.content_length = 4 * MAX_BYTES
        await answer.prepare(request)
        while endless or written < 4 * MAX_BYTES:
            await answer.write(bytes(1 << 18))
            written += 1 << 18
        return answer

    async with answering(flood) as transport:
        with pytest.raises(CoordinatorUnreachable, match="more than"):
            await transport.offer(a_signer(), 1)
    assert written < 3 * MAX_BYTES


async def test_an_answer_that_breaks_off_is_unreachable() -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        answer.content_length = len(ACCEPTED)
        await answer.prepare(request)
        await answer.write(ACCEPTED[:10])
        assert request.transport is not None
        request.transport.close()
        return answer

    async with answering(half) as transport:
        assert [type(error) for error in await failures_of(transport)] == (
            [CoordinatorUnreachable] * 5
        )


async def test_a_refused_connection_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with HttpTransport(f"http://127.0.0.1:{port}") as transport:
        assert len(await failures_of(transport)) == 5


@pytest.mark.spec("8.1")
@pytest.mark.parametrize("problem", problems.ALL.values(), ids=problems.ALL)
async def test_a_problem_document_is_a_refusal_with_its_problem(
    problem: problems.Problem,
) -> None:
    document = {"type": problem.uri, "detail": "so it is", "retry_after": 2.5}
    body = json.dumps(document).encode()
    async with answering(always(problem.status, body)) as transport:
        found = await failures_of(transport)
    assert len(found) == 5
    for error in found:
        assert isinstance(error, UpdateRefused)
        assert (error.problem, error.retry_after) == (problem, 2.5)
        assert "so it is" in str(error)
        assert error.final is (problem.family is not problems.Family.RETRY)


@pytest.mark.spec("7.12")
@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("null", None), ("0", 0.0), ("7", 7.0), ('"7"', 7.0), ("NaN", None), ("Infinity", None),
        ("1" + "0" * 400, "unreachable"), ("[]", "unreachable"), ('"soon"', "unreachable"),
    ],
)  # fmt: skip
async def test_a_time_to_come_back_is_a_number_or_none(said: str, understood: object) -> None:
    body = f'{{"type": "urn:fedrap:problem:no-round", "retry_after": {said}}}'.encode()
    async with answering(always(503, body)) as transport:
        for error in await failures_of(transport):
            if isinstance(error, UpdateRefused):
                assert error.retry_after == understood
            else:
                assert understood == "unreachable"


def a_server_that_knows_nonces(good_from: int, seen: list[int]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        seen.append(int(request.headers[NONCE_HEADER]))
        if len(seen) < good_from:
            body = json.dumps({"type": problems.REPLAYED.uri}).encode()
            return web.Response(status=409, body=body)
        return web.Response(body=ACCEPTED)

    return answer


@pytest.mark.spec("2.3")
async def test_a_replayed_request_is_tried_once_more_with_a_larger_nonce() -> None:
    seen: list[int] = []
    async with answering(a_server_that_knows_nonces(2, seen)) as transport:
        answer = await transport.send_update(a_signer(), ROUND, b"body")
    assert answer == RECEIPT
    assert seen == [1, 2]


@pytest.mark.spec("2.3")
async def test_a_request_that_is_replayed_twice_is_refused() -> None:
    seen: list[int] = []
    async with answering(a_server_that_knows_nonces(99, seen)) as transport:
        with pytest.raises(UpdateRefused, match="replayed"):
            await transport.send_update(a_signer(), ROUND, b"body")
    assert seen == [1, 2]


@pytest.mark.spec("2.5")
async def test_a_release_is_asked_for_by_the_version_that_is_held() -> None:
    asked: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.headers.get("If-None-Match"))
        if asked[-1] == '"c4"':
            return web.Response(status=304)
        response = web.Response(body=encode(a_release(version=4)))
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with answering(answer) as transport:
        assert await transport.release(None) == a_release(version=4)
        assert await transport.release(4) is None
    assert asked == [None, '"c4"']


async def test_a_good_catalogue_is_asked_for_from_its_row_on() -> None:
    news = Catalogue(version=2, start=5, count=2, items="é\nb\n".encode(), retired=bytes(4))

    async def answer(request: web.Request) -> web.Response:
        assert (request.path, request.query["start"]) == ("/v1/catalogue", "5")
        return web.Response(body=encode(news))

    async with answering(answer) as transport:
        assert await transport.catalogue(5) == news
