"""Request limits: how large a body may be, how fast it must come, how much is in hand at once.

A body is bounded while it is read, by the size of its route, by a deadline that only bytes move on,
and by what is in hand in all; a length that is announced reserves nothing. Where too many bodies
are on their way at once, those that began first are given up, of the address that has most of
them: an honest body is there within milliseconds, an idle one waits.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from aiohttp import web

from fedrap_coordinator.domain.rate_limits import Buckets
from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Clock
from fedrap_core.errors import SignatureInvalid
from fedrap_core.wire import problems

SMALL = 4096  # bytes of every request but an update
ATTESTED = 32768  # and those that may carry an attestation
ANSWERS = 16384  # an answer to a question
_SIZES = {
    "answers": ANSWERS,
    "enrol": ATTESTED,
    "renew": ATTESTED,
    "offers": SMALL,
    "forget": SMALL,
}
_BUSY_SECONDS = 2.0
_UNPROVEN = (problems.BAD_SIGNATURE, problems.NOT_ENROLLED)
MOST_READING = 256  # bodies that are on their way at once
_LINGER_SECONDS = 1.0  # what is left of a refused body is dropped for so long: its sender may hear


def make_runner(app: web.Application, shutdown_seconds: float = 20.0) -> web.AppRunner:
    """What serves an app's requests, and waits so long for answers that were begun."""
    return web.AppRunner(
        app,
        access_log=None,
        lingering_time=_LINGER_SECONDS,
        shutdown_timeout=shutdown_seconds,
    )


@dataclass(eq=False)
class Intake:
    """One request's body, as far as it has come."""

    address: str
    largest: int
    received: int = 0
    scope: asyncio.Timeout | None = field(default=None, repr=False)  # while it is being read


class RequestLimits:
    """Counts what is in hand. `monotonic` gives seconds that never jump."""

    def __init__(self, settings: Settings, monotonic: Clock) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._addresses = Buckets(settings.limits.address)
        self._requests = 0
        self._bytes = 0
        self._intakes: dict[int, Intake] = {}  # by request, until it is answered
        self._reading: dict[Intake, None] = {}  # in the order in which they began

    def reload(self, settings: Settings) -> None:
        """Hold requests to other settings from now on; who asked too often may ask again."""
        self._settings = settings
        self._addresses = Buckets(settings.limits.address)

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
            Refusal: it says that it is too large, or too many came from this address.
        """
        route, size = request.match_info.route.name or "", request.content_length
        largest = self.largest(route)
        if size is not None and size > largest:
            raise Refusal(problems.TOO_LARGE)
        if route == "enrol":
            self.slow_down(request)
        if request.method == "GET":
            yield
            return
        if route != "offers" and self._requests >= self._settings.ingest.max_requests:
            raise Refusal(problems.UNAVAILABLE, "more than this server can take", _BUSY_SECONDS)
        intake = Intake(self.address(request), largest)
        self._intakes[id(request)] = intake
        counted = route != "offers"  # a device may wait for its offer
        self._requests += counted
        try:
            yield
        finally:
            self._requests -= counted
            self._bytes -= intake.received
            del self._intakes[id(request)]

    async def read_body(self, request: web.Request) -> bytes:
        """The body, read within its bounds; it stays in hand until the request is answered.

        Raises:
            Refusal: too large, too slow, cut off, or there is no room for it now.
        """
        intake, serve = self._intakes[id(request)], self._settings.serve
        if request.content.is_eof() and request.content.exception() is None:
            # All of it came with its headers, as most bodies do: it waits for nobody, so it needs
            # no deadline and cannot be given up for others.
            whole = request.content.read_nowait()
            self._take(intake, len(whole))
            return whole
        loop, parts = asyncio.get_running_loop(), []
        if len(self._reading) >= MOST_READING:
            self._give_up_one()
        started = loop.time()
        self._reading[intake] = None
        try:
            async with asyncio.timeout_at(started + serve.body_seconds) as intake.scope:
                async for part in request.content.iter_any():
                    self._take(intake, len(part))
                    parts.append(part)
                    more = intake.received / serve.least_body_rate
                    intake.scope.reschedule(started + serve.body_seconds + more)
        except TimeoutError:
            raise Refusal(
                problems.UNAVAILABLE, "the body did not come in time", _BUSY_SECONDS
            ) from None
        except (ConnectionError, RuntimeError, web.RequestPayloadError) as error:
            if request.transport is not None and not isinstance(error, web.RequestPayloadError):
                raise
            # Who hangs up or sends no HTTP is no bug of ours, and reads no answer.
            raise Refusal(problems.MALFORMED, "the body was cut off") from None
        finally:
            intake.scope = None
            self._reading.pop(intake, None)
        return b"".join(parts)

    def _take(self, intake: Intake, size: int) -> None:
        """Count bytes that came."""
        if intake.received + size > intake.largest:
            raise Refusal(problems.TOO_LARGE)
        if self._bytes + size > self._settings.ingest.max_bytes:
            self._give_up_one(besides=intake)
            raise Refusal(problems.UNAVAILABLE, "more than this server can take", _BUSY_SECONDS)
        intake.received += size
        self._bytes += size

    def _give_up_one(self, besides: Intake | None = None) -> None:
        """End the body that began first, of the address that has most of them on their way."""
        others = [one for one in self._reading if one is not besides and one.scope is not None]
        if not others:
            return
        most, _ = Counter(one.address for one in others).most_common(1)[0]
        oldest = next(one for one in others if one.address == most)
        assert oldest.scope is not None
        oldest.scope.reschedule(asyncio.get_running_loop().time())
        self._reading.pop(oldest)

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
        wait = self._addresses.take(self.address(request), self._monotonic())
        if wait:
            raise Refusal(problems.SLOW_DOWN, retry_after=wait)

    def address(self, request: web.Request) -> str:
        """Who sent this, as `address_of` has it."""
        return address_of(request, self._settings.limits.proxies)


def address_of(request: web.Request, proxies: int) -> str:
    """Who sent this; behind so many proxies of ours, what the outermost of them saw.

    Of an IPv6 address the network counts, the first 64 bits: one house has 2^64 of them.
    """
    text = request.remote or ""
    if proxies:
        named = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",")]
        if len(named) >= proxies and named[-proxies]:
            text = named[-proxies][:64]
    return _network_of(text)


def shortened(address: str) -> str:
    """An address for the log: enough to see where trouble comes from, not who it was.

    The first 24 bits of an IPv4 address, 48 of an IPv6 one.
    """
    try:
        found = ipaddress.ip_address(address.partition("/")[0])
    except ValueError:
        return "?"
    return str(ipaddress.ip_network((found, 24 if found.version == 4 else 48), strict=False))


@lru_cache(maxsize=4096)
def _network_of(text: str) -> str:
    """The part of an address that counts."""
    try:
        found = ipaddress.ip_address(text.split("%")[0].strip("[]"))
    except ValueError:
        return text
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
