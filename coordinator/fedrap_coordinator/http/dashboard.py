"""The operator's dashboard over HTTP: its files, sign-in, and the stream that keeps it true.

A browser stays signed in with a cookie that this coordinator signed: a random id, when it ends and
the hash of the bearer token, under an HMAC whose key all processes share through the store. Signing
out writes the id into the store until the cookie would have ended: no copy of it is good any more,
in no process. Who is no admin any more loses the session with the next request. With a cookie one
can only look: what changes something wants the bearer token itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from fedrap_coordinator.admin.actions import token_digest
from fedrap_coordinator.admin.monitor import Monitor
from fedrap_coordinator.domain.rate_limits import Buckets, Pace
from fedrap_coordinator.domain.records import AdminRecord, AuditEntry
from fedrap_coordinator.errors import Refusal, StoreGone
from fedrap_coordinator.http.limits import address_of, shortened
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.wire import problems

COOKIE = "fedrap-session"
KEY_NAME = "session-key"


class Session(NamedTuple):
    """What a cookie says."""

    id: bytes
    until: int
    digest: bytes  # of the bearer token


def make_session(key: bytes, session: Session) -> str:
    """The value of the cookie."""
    said = f"{session.id.hex()}.{session.until}.{session.digest.hex()}"
    return f"{said}.{_mac(key, said)}"


def read_session(key: bytes, cookie: str, now: float) -> Session | None:
    """What we wrote into it; None when it is over or not ours."""
    said, _, mac = cookie.rpartition(".")
    if not hmac.compare_digest(mac.encode("utf-8", "replace"), _mac(key, said).encode()):
        return None
    fields = said.split(".")
    if len(fields) != 3:  # of a version before sessions had ids
        return None
    session = Session(bytes.fromhex(fields[0]), int(fields[1]), bytes.fromhex(fields[2]))
    return session if session.until > now else None


def _mac(key: bytes, said: str) -> str:
    words = b"fedrap/1 session " + said.encode("utf-8", "replace")
    return hmac.new(key, words, hashlib.sha256).hexdigest()


STORE = web.AppKey("store", Store)
SETTINGS = web.AppKey("settings", Settings)
SOURCES = web.AppKey("sources", Sources)
MONITOR = web.AppKey("monitor", Monitor)


class Streams(set[asyncio.Task[Any]]):
    """The event streams that are open."""


STREAMS = web.AppKey("streams", Streams)


class Place(NamedTuple):
    """Where a task's page is, and the pages of the others of this process."""

    base: str = ""  # of its addresses: /t/name, or nothing
    tasks: tuple[tuple[str, str], ...] = ()  # names, and where they are from here

    @property
    def cookie(self) -> str:
        """Each task has its own: its path alone would not tell it from that of the main task."""
        return f"{COOKIE}{self.base.replace('/', '-')}"


ALONE = Place()
PLACE = web.AppKey("place", Place)


class KnownSessions:
    """Who was found to be signed in: while the database is away they may go on looking."""

    MOST = 1000

    def __init__(self) -> None:
        self.key: bytes | None = None  # of the cookies; the same for as long as the task lives
        self._records: dict[bytes, AdminRecord] = {}

    def see(self, session: Session, record: AdminRecord | None) -> None:
        """What the database said of a session."""
        self._records.pop(session.id, None)
        if record is not None:
            if len(self._records) >= self.MOST:
                self._records.clear()
            self._records[session.id] = record

    def of(self, session: Session) -> AdminRecord | None:
        """Who that was, as far as is known here."""
        return self._records.get(session.id)


SESSIONS = web.AppKey("sessions", KnownSessions)
TRIES = web.AppKey("tries", Buckets)
TRIES_PACE = Pace(burst=10, per_minute=6)  # of tokens that are nobody's, by network
FILES = {
    "index.html": "text/html",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "sections.js": "text/javascript",
    "charts.js": "text/javascript",
    "elements.js": "text/javascript",
    "words.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
POLICY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class _Token(msgspec.Struct, forbid_unknown_fields=True):
    token: str


def page_routes() -> list[web.RouteDef]:
    """Files for anybody, as they hold nothing; facts for those who signed in."""
    return [
        web.get("/", _file("index.html")),
        *(web.get(f"/{name}", _file(name)) for name in FILES if name != "index.html"),
        web.post("/session", _sign_in),
        web.get("/session", _session),
        web.delete("/session", _sign_out),
        web.get("/events", _events),
    ]


def _file(name: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    body = resources.files("fedrap_coordinator.http").joinpath("static", name).read_bytes()

    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=FILES[name], charset="utf-8", headers=POLICY)

    return handler


async def who_is(request: web.Request) -> AdminRecord | None:
    """Whose bearer token or session came with this request; sessions may only look."""
    store = request.app[STORE]
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return await store.admin_of(token_digest(token.strip()))
    if request.method != "GET":
        return None
    session, known = await _session_of(request), request.app[SESSIONS]
    if session is None:
        return None
    try:
        ended = await store.session_ended(session.id)
        record = None if ended else await store.admin_of(session.digest)
    except StoreGone:  # who was signed in sees what is known, with its age
        return known.of(session)
    known.see(session, record)
    return record


async def _session_of(request: web.Request) -> Session | None:
    """What the cookie says, if it is ours and not over; it may have been ended."""
    cookie = request.cookies.get(request.app[PLACE].cookie)
    if cookie is None:
        return None
    return read_session(await _key(request.app), cookie, request.app[SOURCES].clock())


async def _key(app: web.Application) -> bytes:
    known = app[SESSIONS]
    if known.key is None:
        known.key = await app[STORE].secret(KEY_NAME, app[SOURCES].token_bytes(32))
    return known.key


async def _sign_in(request: web.Request) -> web.Response:
    """A bearer token for a cookie that ends by itself."""
    if request.content_type != "application/json":  # no form of another site can send this
        raise Refusal(problems.MALFORMED, "JSON is expected here")
    try:
        wanted = msgspec.json.decode(await request.read(), type=_Token)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refusal(problems.MALFORMED, "not the JSON that is expected here") from error
    store, settings = request.app[STORE], request.app[SETTINGS].admin
    digest = token_digest(wanted.token.strip())
    known = await store.admin_of(digest)
    if known is None:
        raise await refuse_token(request)
    seconds = settings.session_hours * 3600
    sources = request.app[SOURCES]
    session = Session(sources.token_bytes(16), int(sources.clock() + seconds), digest)
    cookie = make_session(await _key(request.app), session)
    place, answer = request.app[PLACE], _person(request, known)
    answer.set_cookie(
        place.cookie, cookie, max_age=int(seconds), httponly=True, samesite="Strict",
        path=f"{place.base}/", secure=_is_secure(request),
    )  # fmt: skip
    return answer


def _is_secure(request: web.Request) -> bool:
    """Did the browser come over TLS? Behind our proxies the nearest of them says so."""
    if request.secure:
        return True
    said = request.headers.get("X-Forwarded-Proto", "").split(",")[-1].strip().lower()
    return request.app[SETTINGS].limits.proxies > 0 and said == "https"


async def _session(request: web.Request) -> web.Response:
    return _person(request, await known_admin(request))


def _person(request: web.Request, known: AdminRecord) -> web.Response:
    """Who signed in, and where the other tasks are."""
    said: dict[str, object] = {"name": known.name, "role": known.role}
    if tasks := request.app[PLACE].tasks:
        said["tasks"] = [{"name": name, "at": at} for name, at in tasks]
    return web.json_response(said)


async def _sign_out(request: web.Request) -> web.Response:
    """Ends the session for whoever has its cookie; without one there is nothing to end."""
    session = await _session_of(request)
    if session is not None:
        now = request.app[SOURCES].clock()
        await request.app[STORE].end_session(session.id, session.until, now)
    answer = web.json_response({"signed_out": True})
    place = request.app[PLACE]
    answer.del_cookie(place.cookie, path=f"{place.base}/", httponly=True, samesite="Strict")
    return answer


async def known_admin(request: web.Request) -> AdminRecord:
    """Who came with this request.

    Raises:
        Refusal: nobody that is known.
    """
    known = await who_is(request)
    if known is not None:
        return known
    if "Authorization" in request.headers:
        raise await refuse_token(request)
    raise Refusal(problems.UNKNOWN_ADMIN)


async def refuse_token(request: web.Request) -> Refusal:
    """The answer to a token that is nobody's: it stands in the audit, and soon they must wait.

    Tokens cannot be guessed; but whoever tries is to be seen, and must not fill the disk.
    """
    app = request.app
    network = shortened(address_of(request, app[SETTINGS].limits.proxies))
    wait = app[TRIES].take(network, app[SOURCES].monotonic())
    if wait:
        return Refusal(problems.SLOW_DOWN, retry_after=wait)
    entry = AuditEntry(app[SOURCES].clock(), network, "sign-in", outcome="unknown-admin")
    await app[STORE].write_audit(entry)
    return Refusal(problems.UNKNOWN_ADMIN)


async def _events(request: web.Request) -> web.StreamResponse:
    """Server-sent events: the whole document at once, and again whenever it was looked at."""
    await known_admin(request)
    stream = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
    )
    await stream.prepare(request)
    task = asyncio.current_task()
    assert task is not None
    request.app[STREAMS].add(task)
    try:
        async for document in request.app[MONITOR].documents():
            await stream.write(b"data: " + document + b"\n\n")
            if await who_is(request) is None:  # signed out, or no admin any more
                break
    except (ConnectionResetError, asyncio.CancelledError):
        pass
    finally:
        request.app[STREAMS].discard(task)
    return stream


async def end_streams(app: web.Application) -> None:
    """Before the port closes: streams have no end of their own."""
    streams = app[STREAMS]
    tasks: list[asyncio.Task[Any]] = [*streams]
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
