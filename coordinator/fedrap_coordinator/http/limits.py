"""Request limits: how much is in hand at once, how large a body may be, how often somebody asks.

Everything here is decided before a byte of the body is read. Nothing awaits: the middleware of the
devices' API asks, see device_api.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from fedrap_coordinator.domain.rate_limits import Buckets
from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Clock
from fedrap_core.errors import SignatureInvalid
from fedrap_core.wire import problems

SMALL = 4096  # bytes of every request but an update
ATTESTED = 32768  # and those that may carry an attestation
_SIZES = {"enrol": ATTESTED, "renew": ATTESTED, "offers": SMALL, "forget": SMALL}
_BUSY_SECONDS = 2.0
_UNPROVEN = (problems.BAD_SIGNATURE, problems.NOT_ENROLLED)


class RequestLimits:
    """Counts what is in hand. `monotonic` gives seconds that never jump."""

    def __init__(self, settings: Settings, monotonic: Clock) -> None:
        self._settings = settings
        self._monotonic = monotonic
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
    def admit(self, request: web.Request) -> Iterator[None]:
        """Room for this request until it is answered; those who enrol are counted by address.

        Raises:
            Refusal: it is too large, there is no room now, or too many came from this address.
        """
        route, size = request.match_info.route.name or "", request.content_length
        largest = self.largest(route)
        if size is not None and size > largest:
            raise Refusal(problems.TOO_LARGE)
        if route == "enrol":
            self.slow_down(request)
        if route == "offers" or request.method == "GET":  # small; a device may wait for its offer
            yield
            return
        size = largest if size is None else size
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

    def after_failure(self, request: web.Request, error: Exception) -> Exception:
        """What to answer to `error`: who signs badly or is not known is counted by address."""
        unproven = isinstance(error, SignatureInvalid) or (
            isinstance(error, Refusal) and error.problem in _UNPROVEN
        )
        if unproven:
            try:
                self.slow_down(request)
            except Refusal as refusal:
                return refusal
        return error

    def slow_down(self, request: web.Request) -> None:
        """Count a request of somebody who has proven nothing.

        Raises:
            Refusal: too many from this address.
        """
        wait = self._addresses.take(self._address(request), self._monotonic())
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
