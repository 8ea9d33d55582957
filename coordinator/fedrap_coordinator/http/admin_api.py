"""The admin API: JSON on a port of its own, bearer tokens, roles. Devices never come here."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from fedrap_coordinator.admin.actions import AdminActions, key_lines, refused
from fedrap_coordinator.admin.catalogue_actions import CatalogueActions
from fedrap_coordinator.admin.catalogue_files import read_items
from fedrap_coordinator.admin.monitor import Monitor
from fedrap_coordinator.admin.permissions import Role, may
from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.http.dashboard import (
    MONITOR,
    SETTINGS,
    SOURCES,
    STORE,
    STREAMS,
    Streams,
    end_streams,
    page_routes,
    who_is,
)
from fedrap_coordinator.http.metrics import METRICS_TYPE, Metrics
from fedrap_coordinator.http.problems import answer_problems
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.errors import MalformedMessage
from fedrap_core.wire import problems

log = logging.getLogger(__name__)
KEYRING = web.AppKey("keyring", Keyring)
METRICS = web.AppKey("metrics", Metrics)
LARGEST = 32 * 1024 * 1024  # a catalogue file; everything else is small
PAGE = 1000  # rows of one answer, at the most
S = TypeVar("S", bound=msgspec.Struct)
Act = Callable[[web.Request, AdminActions], Awaitable[web.Response]]


class _Count(msgspec.Struct, forbid_unknown_fields=True):
    count: int


class _NewIssuer(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    public_key: str  # hex of an uncompressed point


class _Names(msgspec.Struct, forbid_unknown_fields=True):
    items: list[str]


class _Version(msgspec.Struct, forbid_unknown_fields=True):
    version: int


class _Noted(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    metric: str
    value: float
    note: str = ""


def create_admin_app(
    settings: Settings,
    store: Store,
    keyring: Keyring,
    sources: Sources,
    monitor: Monitor,
    metrics: Metrics,
) -> web.Application:
    """The admin API and the page, over a store that somebody else opens and closes."""
    app = web.Application(middlewares=[answer_problems(sources.uniform)], client_max_size=LARGEST)
    app[STORE], app[SETTINGS], app[KEYRING], app[SOURCES] = store, settings, keyring, sources
    app[MONITOR], app[STREAMS], app[METRICS] = monitor, Streams(), metrics
    app.on_shutdown.append(end_streams)
    app.router.add_routes(page_routes())
    app.router.add_routes(
        [
            web.get("/admin/v1/status", _allowed("status", _status)),
            web.get("/admin/v1/rounds", _allowed("rounds", _rounds)),
            web.get("/admin/v1/devices", _allowed("devices", _devices)),
            web.post("/admin/v1/devices/{device}/revoke", _allowed("revoke", _revoke)),
            web.post("/admin/v1/tokens", _allowed("tokens", _tokens)),
            web.get("/admin/v1/privacy/ledger", _allowed("ledger", _ledger)),
            web.get("/admin/v1/privacy/charges", _allowed("charges", _charges)),
            web.get("/admin/v1/issuers", _allowed("issuers", _issuers)),
            web.post("/admin/v1/issuers", _allowed("issuers", _add_issuer)),
            web.delete("/admin/v1/issuers/{name}", _allowed("issuers", _remove_issuer)),
            web.get("/admin/v1/keys", _allowed("keys", _keys)),
            web.post("/admin/v1/keys/rotate", _allowed("rotate-keys", _rotate)),
            web.get("/admin/v1/audit", _allowed("audit", _audit)),
            web.get("/admin/v1/overview", _allowed("overview", _overview)),
            web.get("/admin/v1/releases", _allowed("releases", _releases)),
            web.post("/admin/v1/releases/rollback", _allowed("roll-back", _roll_back)),
            web.get("/admin/v1/items", _allowed("items", _items)),
            web.post("/admin/v1/items", _allowed("import-items", _import_items)),
            web.post("/admin/v1/items/retire", _allowed("retire-items", _retire_items)),
            web.get("/admin/v1/quality", _allowed("quality", _quality)),
            web.post("/admin/v1/quality", _allowed("note-quality", _note_quality)),
            web.get("/metrics", _metrics),
            web.get("/healthz", _health),
            web.get("/readyz", _ready),
        ]
    )
    return app


def _allowed(action: str, act: Act) -> Callable[[web.Request], Awaitable[web.Response]]:
    """`act` for those whose role has the right; everybody else is refused, and that is kept."""

    async def handler(request: web.Request) -> web.Response:
        store, known = request.app[STORE], await who_is(request)
        if known is None:
            raise Refusal(problems.UNKNOWN_ADMIN)
        admin = AdminActions(store, request.app[SETTINGS], request.app[SOURCES].clock, known.name)
        if not may(Role(known.role), action):
            await store.write_audit(refused(admin.entry(action)))
            raise Refusal(problems.NOT_ALLOWED)
        try:
            return await act(request, admin)
        except ConfigError as error:
            raise Refusal(problems.MALFORMED, str(error)) from error

    return handler


async def _status(request: web.Request, admin: AdminActions) -> web.Response:
    return web.json_response(await admin.status())


async def _rounds(request: web.Request, admin: AdminActions) -> web.Response:
    return web.json_response({"rounds": await admin.rounds(_limit(request))})


async def _devices(request: web.Request, admin: AdminActions) -> web.Response:
    after = _hex(request.query.get("after", ""))
    found = await admin.devices(after, _limit(request))
    return web.json_response({"devices": found})


async def _revoke(request: web.Request, admin: AdminActions) -> web.Response:
    await admin.revoke(_hex(request.match_info["device"]))
    return web.json_response({"revoked": True})


async def _tokens(request: web.Request, admin: AdminActions) -> web.Response:
    wanted = _body(_Count, await request.read())
    return web.json_response({"tokens": await admin.tokens(wanted.count)})


async def _ledger(request: web.Request, admin: AdminActions) -> web.Response:
    return web.json_response(await admin.ledger(False))


async def _charges(request: web.Request, admin: AdminActions) -> web.Response:
    return web.json_response(await admin.ledger(True))


async def _issuers(request: web.Request, admin: AdminActions) -> web.Response:
    return web.json_response({"issuers": await admin.issuers()})


async def _add_issuer(request: web.Request, admin: AdminActions) -> web.Response:
    wanted = _body(_NewIssuer, await request.read())
    if not 1 <= len(wanted.name) <= 40:
        raise Refusal(problems.MALFORMED, "a name has 1 to 40 characters")
    await admin.add_issuer(wanted.name, _hex(wanted.public_key))
    return web.json_response({"added": True})


async def _remove_issuer(request: web.Request, admin: AdminActions) -> web.Response:
    await admin.remove_issuer(request.match_info["name"])
    return web.json_response({"removed": True})


async def _keys(request: web.Request, admin: AdminActions) -> web.Response:
    return web.json_response({"keys": key_lines(request.app[KEYRING])})


async def _rotate(request: web.Request, admin: AdminActions) -> web.Response:
    return web.json_response({"active": await admin.rotate_keys(request.app[KEYRING])})


async def _audit(request: web.Request, admin: AdminActions) -> web.Response:
    return web.json_response(await admin.audit())


async def _overview(request: web.Request, admin: AdminActions) -> web.Response:
    return web.json_response(await request.app[MONITOR].document())


async def _releases(request: web.Request, admin: AdminActions) -> web.Response:
    curator = CatalogueActions(request.app[STORE], admin)
    return web.json_response({"releases": await curator.releases(_limit(request))})


async def _roll_back(request: web.Request, admin: AdminActions) -> web.Response:
    wanted = _body(_Version, await request.read())
    return web.json_response(
        await CatalogueActions(request.app[STORE], admin).roll_back(wanted.version)
    )


async def _items(request: web.Request, admin: AdminActions) -> web.Response:
    start, search = _start(request), request.query.get("search", "")[:200].replace("\x00", "")
    curator = CatalogueActions(request.app[STORE], admin)
    return web.json_response({"items": await curator.items(start, _limit(request), search)})


async def _import_items(request: web.Request, admin: AdminActions) -> web.Response:
    """A catalogue file as its bytes; the content type says of what kind."""
    kinds = {"text/csv": "csv", "application/json": "json", "application/jsonl": "jsonl"}
    kind = kinds.get(request.content_type, "txt")
    try:
        items = read_items(f"body.{kind}", (await request.read()).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refusal(problems.MALFORMED, "not UTF-8") from error
    return web.json_response(await CatalogueActions(request.app[STORE], admin).import_items(items))


async def _retire_items(request: web.Request, admin: AdminActions) -> web.Response:
    wanted = _body(_Names, await request.read())
    count = await CatalogueActions(request.app[STORE], admin).retire_items(wanted.items)
    return web.json_response({"retired": count})


async def _quality(request: web.Request, admin: AdminActions) -> web.Response:
    return web.json_response(
        {"quality": await CatalogueActions(request.app[STORE], admin).quality()}
    )


async def _note_quality(request: web.Request, admin: AdminActions) -> web.Response:
    one = _body(_Noted, await request.read())
    curator = CatalogueActions(request.app[STORE], admin)
    await curator.note_quality(one.version, one.metric, one.value, one.note)
    return web.json_response({"noted": True})


async def _metrics(request: web.Request) -> web.Response:
    """For Prometheus: with a bearer token of any role, or open where the settings say so."""
    if not request.app[SETTINGS].admin.open_metrics and await who_is(request) is None:
        raise Refusal(problems.UNKNOWN_ADMIN)
    body = request.app[METRICS].exposition()
    return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})


async def _health(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _ready(request: web.Request) -> web.Response:
    ready = await request.app[MONITOR].is_ready()
    return web.json_response({"ready": ready}, status=200 if ready else 503)


def _start(request: web.Request) -> int:
    text = request.query.get("start", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Refusal(problems.MALFORMED, "start is a row")
    return int(text)


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", "100")
    fits = text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= PAGE
    if not fits:
        raise Refusal(problems.MALFORMED, f"limit is a number from 1 to {PAGE}")
    return int(text)


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise Refusal(problems.MALFORMED, "not hex") from error


def _body(kind: type[S], raw: bytes) -> S:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedMessage("not the JSON that is expected here") from error


async def serve_admin(
    app: web.Application, host: str, port: int, context: ssl.SSLContext | None = None
) -> web.AppRunner:
    """Listen; the caller ends it with `cleanup`."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=5.0)
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=context).start()
    log.info("admin API listens")
    return runner
