"""The gate before every handler: how much is in hand at once, how large a body may be, who asks.

Everything here is decided before a byte of the body is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web
from aiohttp.typedefs import Handler

from fedrap_coordinator.domain.rate_limits import Buckets
from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.settings import Settings
from fedrap_core.errors import SignatureInvalid
from fedrap_core.wire import problems

SMALL = 4096  # bytes of every request but an update
ATTESTED = 32768  # and those that may carry an attestation
_SIZES = {"enrol": ATTESTED, "renew": ATTESTED, "offers": SMALL, "forget": SMALL}
_BUSY_SECONDS = 2.0


class RequestLimits:
    """Counts what is in hand. `clock` gives seconds that never jump."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._addresses = Buckets(settings.limits.address)
        self._requests = 0
        self._bytes = 0

    def in_hand(self) -> tuple[int, int]:
        """Requests that are being answered, and the bytes of their bodies."""
        return self._requests, self._bytes

    def largest(self, route: str) -> int:
        """Bytes that a body of this route may have."""
        return _SIZES.get(route, self._settings.serve.max_body_bytes)

    @contextmanager
    def enter(self, size: int) -> Iterator[None]:
        """Keep room for a request of `size` bytes until it is answered.

        Raises:
            Refusal: there is none; come back in a moment.
        """
        limits = self._settings.ingest
        if self._requests >= limits.max_requests or self._bytes + size > limits.max_bytes:
            raise Refusal(problems.UNAVAILABLE, "more than this server can take", _BUSY_SECONDS)
        self._requests += 1
        self._bytes += size
        try:
            yield
        finally:
            self._requests -= 1
            self._bytes -= size

    def slow_down(self, request: web.Request) -> None:
        """Count a request of somebody who has proven nothing.

        Raises:
            Refusal: too many from this address.
        """
        wait = self._addresses.take(self._address(request), self._clock())
        if wait:
            raise Refusal(problems.SLOW_DOWN, retry_after=wait)

    def _address(self, request: web.Request) -> str:
        """Who sent this; behind proxies, what the outermost of ours saw."""
        proxies = self._settings.limits.proxies
        if proxies:
            named = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",")]
            if len(named) >= proxies and named[-proxies]:
                return named[-proxies][:64]
        return request.remote or ""


REQUEST_LIMITS = web.AppKey("gate", RequestLimits)
_UNPROVEN = (problems.BAD_SIGNATURE, problems.NOT_ENROLLED)


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what is too large or too much; count those who enrol, and those who prove nothing."""
    gate, route = request.app[REQUEST_LIMITS], request.match_info.route.name or ""
    most = gate.largest(route)
    if request.content_length is not None and request.content_length > most:
        raise Refusal(problems.TOO_LARGE)
    if route == "enrol":
        gate.slow_down(request)
    if route == "offers" or request.method == "GET":  # small; a device may wait for its offer
        return await _counted(gate, request, handler)
    with gate.enter(most if request.content_length is None else request.content_length):
        return await _counted(gate, request, handler)


async def _counted(
    gate: RequestLimits, request: web.Request, handler: Handler
) -> web.StreamResponse:
    """A device that signs badly, or is not known, is counted by its address."""
    try:
        return await handler(request)
    except Refusal as refusal:
        if refusal.problem in _UNPROVEN:
            gate.slow_down(request)
        raise
    except SignatureInvalid:
        gate.slow_down(request)
        raise
