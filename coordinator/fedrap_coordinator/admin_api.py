"""The admin API: JSON on a port of its own, bearer tokens, roles. Devices never come here."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from fedrap_coordinator.admin import Admin, Role, key_lines, may, refused, token_digest
from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.middleware import answer_problems
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.protocol import Store
from fedrap_core.errors import MalformedMessage
from fedrap_core.wire import problems

log = logging.getLogger(__name__)
STORE = web.AppKey("store", Store)
SETTINGS = web.AppKey("settings", Settings)
KEYRING = web.AppKey("keyring", Keyring)
CLOCK: web.AppKey[Callable[[], float]] = web.AppKey("clock")
PAGE = 1000  # rows of one answer, at the most
S = TypeVar("S", bound=msgspec.Struct)
Act = Callable[[web.Request, Admin], Awaitable[web.Response]]


class _Count(msgspec.Struct, forbid_unknown_fields=True):
    count: int


class _NewIssuer(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    public_key: str  # hex of an uncompressed point


def create_admin_app(
    settings: Settings, store: Store, keyring: Keyring, clock: Callable[[], float]
) -> web.Application:
    """The admin API over a store that somebody else opens and closes."""
    app = web.Application(middlewares=[answer_problems], client_max_size=64 * 1024)
    app[STORE], app[SETTINGS], app[KEYRING], app[CLOCK] = store, settings, keyring, clock
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
        ]
    )
    return app


def _allowed(action: str, act: Act) -> Callable[[web.Request], Awaitable[web.Response]]:
    """`act` for those whose role has the right; everybody else is refused, and that is kept."""

    async def handler(request: web.Request) -> web.Response:
        store = request.app[STORE]
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        known = None
        if scheme.lower() == "bearer" and token:
            known = await store.admin_of(token_digest(token.strip()))
        if known is None:
            raise Refusal(problems.UNKNOWN_ADMIN)
        admin = Admin(store, request.app[SETTINGS], request.app[CLOCK], known.name)
        if not may(Role(known.role), action):
            await store.write_audit(refused(admin.entry(action)))
            raise Refusal(problems.NOT_ALLOWED)
        try:
            return await act(request, admin)
        except ConfigError as error:
            raise Refusal(problems.MALFORMED, str(error)) from error

    return handler


async def _status(request: web.Request, admin: Admin) -> web.Response:
    return web.json_response(await admin.status())


async def _rounds(request: web.Request, admin: Admin) -> web.Response:
    return web.json_response({"rounds": await admin.rounds(_limit(request))})


async def _devices(request: web.Request, admin: Admin) -> web.Response:
    after = _hex(request.query.get("after", ""))
    found = await admin.devices(after, _limit(request))
    return web.json_response({"devices": found})


async def _revoke(request: web.Request, admin: Admin) -> web.Response:
    await admin.revoke(_hex(request.match_info["device"]))
    return web.json_response({"revoked": True})


async def _tokens(request: web.Request, admin: Admin) -> web.Response:
    wanted = _body(_Count, await request.read())
    return web.json_response({"tokens": await admin.tokens(wanted.count)})


async def _ledger(request: web.Request, admin: Admin) -> web.Response:
    return web.json_response(await admin.ledger(False))


async def _charges(request: web.Request, admin: Admin) -> web.Response:
    return web.json_response(await admin.ledger(True))


async def _issuers(request: web.Request, admin: Admin) -> web.Response:
    return web.json_response({"issuers": await admin.issuers()})


async def _add_issuer(request: web.Request, admin: Admin) -> web.Response:
    wanted = _body(_NewIssuer, await request.read())
    if not 1 <= len(wanted.name) <= 40:
        raise Refusal(problems.MALFORMED, "a name has 1 to 40 characters")
    await admin.add_issuer(wanted.name, _hex(wanted.public_key))
    return web.json_response({"added": True})


async def _remove_issuer(request: web.Request, admin: Admin) -> web.Response:
    await admin.remove_issuer(request.match_info["name"])
    return web.json_response({"removed": True})


async def _keys(request: web.Request, admin: Admin) -> web.Response:
    return web.json_response({"keys": key_lines(request.app[KEYRING])})


async def _rotate(request: web.Request, admin: Admin) -> web.Response:
    return web.json_response({"active": await admin.rotate_keys(request.app[KEYRING])})


async def _audit(request: web.Request, admin: Admin) -> web.Response:
    return web.json_response(await admin.audit())


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", "100")
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= PAGE:
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


async def serve_admin(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Listen; the caller ends it with `cleanup`."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    log.info("admin API listens")
    return runner
