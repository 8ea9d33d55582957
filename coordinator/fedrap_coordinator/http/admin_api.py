"""The admin API: JSON on a port of its own, bearer tokens, roles. Devices never come here.

Its routes are those of `admin/table.py`; here is how arguments are read and answers are written.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.monitor import Monitor
from fedrap_coordinator.admin.permissions import Role, may
from fedrap_coordinator.admin.table import SERVED, Action, Arguments, CatalogueFile
from fedrap_coordinator.domain.rate_limits import Buckets
from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.http.dashboard import (
    ALONE,
    MONITOR,
    PLACE,
    SESSIONS,
    SETTINGS,
    SOURCES,
    STORE,
    STREAMS,
    TRIES,
    TRIES_PACE,
    KnownSessions,
    Place,
    Streams,
    end_streams,
    known_admin,
    page_routes,
)
from fedrap_coordinator.http.limits import make_runner
from fedrap_coordinator.http.metrics import METRICS_TYPE, Metrics
from fedrap_coordinator.http.problems import answer_problems
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.wire import problems

log = logging.getLogger(__name__)
KEYRING = web.AppKey("keyring", Keyring)
METRICS = web.AppKey("metrics", Metrics)
MONITORS = web.AppKey("monitors", list[Monitor])  # of this task, and of those mounted below it
LARGEST = 32 * 1024 * 1024  # a catalogue file; everything else is small
_KINDS = {"text/csv": "csv", "application/json": "json", "application/jsonl": "jsonl"}
_PLACE = re.compile(r"{(\w+)}")  # of an argument in a path


def create_admin_app(
    settings: Settings,
    store: Store,
    keyring: Keyring,
    sources: Sources,
    monitor: Monitor,
    metrics: Metrics,
    place: Place = ALONE,
) -> web.Application:
    """The admin API and the dashboard, over a store that somebody else opens and closes."""
    app = web.Application(middlewares=[answer_problems(sources.uniform)], client_max_size=LARGEST)
    app[STORE], app[SETTINGS], app[KEYRING], app[SOURCES] = store, settings, keyring, sources
    app[MONITOR], app[STREAMS], app[METRICS] = monitor, Streams(), metrics
    app[TRIES], app[SESSIONS] = Buckets(TRIES_PACE), KnownSessions()
    app[PLACE], app[MONITORS] = place, [monitor]
    app.on_shutdown.append(end_streams)
    app.router.add_routes(page_routes())
    app.router.add_routes([web.route(one.method, one.path, _handler(one)) for one in SERVED])
    app.router.add_routes(
        [
            web.get("/metrics", _metrics),
            web.get("/healthz", _health),
            web.get("/readyz", _ready),
        ]
    )
    return app


def _handler(action: Action[Any, Any]) -> Callable[[web.Request], Awaitable[web.Response]]:
    """`action` for those whose role allows it; everybody else is refused, and that is kept."""

    async def handler(request: web.Request) -> web.Response:
        app, known = request.app, await known_admin(request)
        admin = AdminActions(
            app[STORE],
            app[SETTINGS],
            app[SOURCES],
            known.name,
            keyring=app[KEYRING],
            monitor=app[MONITOR],
        )
        if not may(Role(known.role), action.permission):
            raise await admin.refuse(action.permission)
        try:
            answer = await action.run(admin, await _arguments(request, action))
        except ConfigError as error:
            raise Refusal(problems.MALFORMED, str(error)) from error
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    return handler


async def _arguments(request: web.Request, action: Action[Any, Any]) -> Arguments:
    """What the request says in its path, its query or its JSON body.

    Raises:
        Refusal: that is not what the action takes.
    """
    if action.arguments is CatalogueFile:
        return await _file(request)
    names = set(action.arguments.__struct_fields__)
    given: dict[str, Any] = {name: request.match_info[name] for name in _PLACE.findall(action.path)}
    try:
        if names - set(given) and request.method == "GET":
            given |= {name: value for name, value in request.query.items() if name in names}
        elif names - set(given):
            found: Arguments = msgspec.json.decode(await request.read(), type=action.arguments)
            return found
        converted: Arguments = msgspec.convert(given, action.arguments, strict=False)
        return converted
    except (msgspec.ValidationError, RecursionError) as error:
        raise Refusal(problems.MALFORMED, str(error)) from error
    except msgspec.DecodeError as error:
        raise Refusal(problems.MALFORMED, "not the JSON that is expected here") from error


async def _file(request: web.Request) -> CatalogueFile:
    """A catalogue file as its bytes; the content type says of what kind."""
    kind = _KINDS.get(request.content_type, "txt")
    try:
        return CatalogueFile(f"body.{kind}", (await request.read()).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refusal(problems.MALFORMED, "not UTF-8") from error


async def _metrics(request: web.Request) -> web.Response:
    """For Prometheus: with a bearer token of any role, or open where the settings say so."""
    if not request.app[SETTINGS].admin.open_metrics:
        await known_admin(request)
    body = request.app[METRICS].exposition()
    return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})


async def _health(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _ready(request: web.Request) -> web.Response:
    """Of several tasks none keeps the others from being served because its catalogue is empty."""
    monitors = request.app[MONITORS]
    ready = any(one.has_release for one in monitors)
    for one in monitors:
        ready = ready and await one.is_served()
    return web.json_response({"ready": ready}, status=200 if ready else 503)


async def serve_admin(
    app: web.Application, host: str, port: int, context: ssl.SSLContext | None = None
) -> web.AppRunner:
    """Listen; the caller ends it with `cleanup`."""
    runner = make_runner(app, 5.0)
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=context).start()
    log.info("admin API listens")
    return runner
