"""The coordinator over HTTP with aiohttp. Imported only when a round is run."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TypeVar

import aiohttp

from fedrap.errors import CoordinatorUnreachable, UpdateRefused
from fedrap.transport import NO_PROOF, Proof
from fedrap.transport.address import check_address
from fedrap.transport.credentials import Signer
from fedrap_core.errors import FedRapError
from fedrap_core.wire import problems
from fedrap_core.wire.attributes import PAGE_BYTES
from fedrap_core.wire.codec import MAX_BYTES, decode_one_of, encode
from fedrap_core.wire.messages import (
    Attributes,
    Catalogue,
    Delta,
    Enrol,
    Enrolled,
    Forget,
    Forgotten,
    Log,
    Message,
    OfferRequest,
    Questions,
    Release,
    Renew,
    Renewed,
    Signed,
)
from fedrap_core.wire.releases import MAX_RELEASE_BYTES

M = TypeVar("M", bound=Message)
AGENT = "fedrap/1"  # the same for everybody: versions would tell devices apart
UNPACKED_FLOOR = 1024 * 1024  # bytes that an answer may unpack to, however few came,
UNPACKED_TIMES = 100  # and how often what came, where that is more; C packs to a half
_CHUNK = 1 << 16
_TIMEOUT = aiohttp.ClientTimeout(total=120, connect=15)


class HttpTransport:
    """Speaks to `server`. A shared `session` stays open; an own one is closed with this.

    Raises:
        ValueError: `http://` to another machine, and not `allow_http`.
    """

    def __init__(
        self,
        server: str,
        session: aiohttp.ClientSession | None = None,
        *,
        allow_http: bool = False,
    ) -> None:
        check_address(server, allow_http=allow_http)
        self._server = server.rstrip("/")
        self._shared = session
        self._own: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> HttpTransport:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def enrol(self, token: str, public_key: bytes, proof: Proof = NO_PROOF) -> Enrolled:
        message = Enrol(
            token=token,
            public_key=public_key,
            attestation_kind=proof.kind,
            attestation=proof.blob,
        )
        return await self._message(Enrolled, "POST", "/v1/enrol", encode(message))

    async def renew(self, signer: Signer, proof: Proof = NO_PROOF, nonce: int = 0) -> Renewed:
        message = Renew(nonce=nonce, attestation_kind=proof.kind, attestation=proof.blob)
        return await self._message(Renewed, "POST", "/v1/renew", encode(message), signer)

    async def release(self, have: int | None) -> Release | Delta | None:
        path, headers = "/v1/releases/latest", {}
        if have is not None:
            path, headers = f"{path}?have={have}", {"If-None-Match": f'"c{have}"'}
        raw = await self._call("GET", path, b"", headers, MAX_RELEASE_BYTES)
        if raw is None:
            return None
        kinds: tuple[type[Release] | type[Delta], ...] = (Release, Delta)
        return self._decode(kinds, raw, MAX_RELEASE_BYTES)

    async def release_of(self, version: int) -> Release:
        raw = await self._call("GET", f"/v1/releases/{version}", b"", {}, MAX_RELEASE_BYTES)
        return self._decode((Release,), raw, MAX_RELEASE_BYTES)

    async def log(self, since: int) -> Log:
        return await self._message(Log, "GET", f"/v1/log?since={since}", b"")

    async def catalogue(self, start: int) -> Catalogue:
        path = f"/v1/catalogue?start={start}"
        raw = await self._call("GET", path, b"", {}, MAX_RELEASE_BYTES)
        return self._decode((Catalogue,), raw, MAX_RELEASE_BYTES)

    async def attributes(self) -> Attributes:
        return await self._message(Attributes, "GET", "/v1/attributes", b"")

    async def attribute_page(self, digest: bytes) -> bytes:
        path = f"/v1/attributes/{digest.hex()}"
        return await self._call("GET", path, b"", {}, PAGE_BYTES) or b""

    async def questions(self) -> Questions:
        return await self._message(Questions, "GET", "/v1/questions?all=1", b"")

    async def send_answer(self, signer: Signer, question: bytes, body: bytes) -> Signed:
        path = f"/v1/questions/{question.hex()}/answers"
        return await self._message(Signed, "POST", path, body, signer)

    async def offer(self, signer: Signer, release: int, wait: float = 0.0) -> Signed:
        body = encode(OfferRequest(release=release, wait=wait))
        return await self._message(Signed, "POST", "/v1/offers", body, signer)

    async def send_update(self, signer: Signer, round_id: bytes, body: bytes) -> Signed:
        path = f"/v1/rounds/{round_id.hex()}/updates"
        return await self._message(Signed, "POST", path, body, signer)

    async def forget(self, signer: Signer) -> None:
        await self._message(Forgotten, "POST", "/v1/forget", encode(Forget()), signer)

    async def close(self) -> None:
        if self._own is not None:
            await self._own.close()
            self._own = None

    async def _message(
        self, kind: type[M], method: str, path: str, body: bytes, signer: Signer | None = None
    ) -> M:
        for last in (False, True):
            headers = {} if signer is None else signer.headers(method, path, body)
            try:
                return self._decode((kind,), await self._call(method, path, body, headers))
            except UpdateRefused as refused:
                # A proxy may have sent the request twice; a fresh nonce settles it.
                if last or refused.problem is not problems.REPLAYED:
                    raise
        raise AssertionError("unreachable")

    async def _call(
        self, method: str, path: str, body: bytes, headers: dict[str, str], limit: int = MAX_BYTES
    ) -> bytes | None:
        """The body of a good answer, None for 304."""
        status, raw = await self.exchange(method, path, body, headers, limit)
        if status == 304:
            return None
        if status == 200:
            return raw
        raise _refusal(status, raw)

    async def exchange(
        self, method: str, path: str, body: bytes, headers: dict[str, str], limit: int
    ) -> tuple[int, bytes]:
        """One request and its answer, whatever it says: status and at most `limit` bytes.

        Raises:
            CoordinatorUnreachable: there was no answer, or a longer one.
        """
        try:
            async with self._session().request(
                method,
                self._server + path,
                data=body or None,
                headers={"User-Agent": AGENT, "Accept-Encoding": "gzip", **headers},
                auto_decompress=False,  # aiohttp would unpack without a bound
                timeout=_TIMEOUT,
                allow_redirects=False,  # a signed body goes where it was signed for, or nowhere
            ) as answer:
                return answer.status, await _read(answer, limit)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise CoordinatorUnreachable(f"no answer: {type(error).__name__}") from error

    def _session(self) -> aiohttp.ClientSession:
        if self._shared is not None:
            return self._shared
        if self._own is None:
            self._own = aiohttp.ClientSession()
        return self._own

    def _decode(self, kinds: Sequence[type[M]], raw: bytes | None, limit: int = MAX_BYTES) -> M:
        try:
            return decode_one_of(kinds, raw or b"", limit)
        except FedRapError as error:
            raise CoordinatorUnreachable(f"not an answer of this protocol: {error}") from error


async def _read(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """At most `limit` bytes, however much the peer sends or its bytes unpack to."""
    unzip = _unzipper(answer.headers.get("Content-Encoding", "identity"))
    parts, size, received = [], 0, 0
    async for chunk in answer.content.iter_chunked(_CHUNK):
        received += len(chunk)
        for part in [chunk] if unzip is None else _unzipped(unzip, chunk):
            size += len(part)
            if size > limit:
                raise CoordinatorUnreachable(f"an answer of more than {limit} bytes")
            if size > max(UNPACKED_FLOOR, UNPACKED_TIMES * received):
                raise CoordinatorUnreachable(f"{received} bytes that unpack to {size} and more")
            parts.append(part)
    if unzip is not None and received and (not unzip.eof or unzip.unused_data):
        raise CoordinatorUnreachable("an answer whose gzip is cut off, or followed by more")
    return b"".join(parts)


def _unzipper(coding: str) -> zlib._Decompress | None:
    if coding.lower() == "identity":
        return None
    if coding.lower() != "gzip":
        raise CoordinatorUnreachable("an answer in a coding that was not asked for")
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


def _unzipped(unzip: zlib._Decompress, chunk: bytes) -> Iterator[bytes]:
    """What these bytes unpack to, in parts."""
    try:
        part = unzip.decompress(chunk, _CHUNK)
        while part:
            yield part
            part = unzip.decompress(unzip.unconsumed_tail, _CHUNK)
    except zlib.error as error:
        raise CoordinatorUnreachable(f"an answer that is no gzip: {error}") from error


def _refusal(status: int, raw: bytes) -> FedRapError:
    """The problem in an answer; whatever is not one of ours means: try again later."""
    try:
        document = json.loads(raw)
        problem = problems.ALL[str(document["type"]).removeprefix(problems.PREFIX)]
        wait = document.get("retry_after")
        seconds = None if wait is None else float(wait)
        if seconds is not None and not math.isfinite(seconds):
            seconds = None
        detail = str(document.get("detail", problem.title))[:500]
        return UpdateRefused(problem, detail, seconds)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return CoordinatorUnreachable(f"status {status} without a problem document")
