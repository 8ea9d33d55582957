"""The helper of private aggregation over HTTPS, in which both sides show their certificates."""

from __future__ import annotations

import json
import ssl
from typing import TypeVar

import aiohttp

from fedrap_coordinator.errors import ConfigError, HelperAway, HelperRefused
from fedrap_coordinator.settings import HelperServer
from fedrap_core.errors import FedRapError
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Message
from fedrap_core.wire.shares import (
    BatchChecked,
    CloseRound,
    HelperProblem,
    OpenQuestion,
    OpenRound,
    ReportBatch,
    RoundClosed,
    RoundOpened,
)

M = TypeVar("M", bound=Message)
_SMALL = 64 * 1024
_PROBLEM = "urn:fedrap:helper:"


class HelperClient:
    """Calls the helper; a connection for each call, for there is one every few seconds at most."""

    def __init__(self, server: HelperServer) -> None:
        """Raises ConfigError: a certificate is missing or not what it should be."""
        self._url = server.url.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=server.timeout_seconds)
        self._context = client_context(server)

    async def open_round(self, asked: OpenRound) -> RoundOpened:
        """See `Helper`."""
        return await self._post("/v1/rounds", asked, RoundOpened, _SMALL)

    async def open_question(self, asked: OpenQuestion) -> RoundOpened:
        """See `Helper`."""
        return await self._post("/v1/questions", asked, RoundOpened, _SMALL)

    async def check_batch(self, batch: ReportBatch) -> BatchChecked:
        """See `Helper`."""
        path = f"/v1/rounds/{batch.round.hex()}/batches"
        return await self._post(path, batch, BatchChecked, _SMALL)

    async def close_round(self, asked: CloseRound, share_bytes: int) -> RoundClosed:
        """See `Helper`."""
        path = f"/v1/rounds/{asked.round.hex()}/close"
        return await self._post(path, asked, RoundClosed, share_bytes + _SMALL)

    async def _post(self, path: str, message: Message, kind: type[M], most: int) -> M:
        """The answer, of `most` bytes at most."""
        connector = aiohttp.TCPConnector(ssl=self._context)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=self._timeout) as session,
                session.post(self._url + path, data=encode(message)) as answer,
            ):
                raw = await _read(answer, most if answer.status == 200 else _SMALL)
                status = answer.status
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise HelperAway(f"{self._url}: {str(error) or type(error).__name__}") from error
        if status != 200:
            raise _refusal(status, raw)
        try:
            return decode(kind, raw, most)
        except FedRapError as error:
            raise HelperAway(f"{self._url}: not an answer of a helper: {error}") from error


async def _read(answer: aiohttp.ClientResponse, most: int) -> bytes:
    found = bytearray()
    async for chunk in answer.content.iter_chunked(1 << 16):
        found += chunk
        if len(found) > most:
            raise HelperAway(f"an answer of more than {most} bytes")
    return bytes(found)


def _refusal(status: int, raw: bytes) -> HelperAway | HelperRefused:
    """A problem document of the helper; everything else is a server that is not well."""
    try:
        problem = json.loads(raw)
        code = str(problem["type"])
        if code.startswith(_PROBLEM):
            known = HelperProblem(code.removeprefix(_PROBLEM))
            return HelperRefused(known, str(problem.get("detail", ""))[:500])
    except (ValueError, KeyError, TypeError):
        pass
    return HelperAway(f"the helper answered with status {status}")


def client_context(server: HelperServer) -> ssl.SSLContext:
    """TLS that knows the helper's certificate and no other, and shows our own.

    Raises:
        ConfigError: a file is missing, unreadable, or not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(server.certificate)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"split.helper.certificate {server.certificate}: {error}; it is the file that "
            "`fedrap-aggregator init` wrote for the helper"
        ) from error
    try:
        context.load_cert_chain(server.own_certificate, server.own_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"split.helper.own_certificate {server.own_certificate} with {server.own_key}: {error};"
            " `fedrap-coordinator helper certificate` makes both"
        ) from error
    return context
