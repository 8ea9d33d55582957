"""`fedrap-coordinator serve`: runs until SIGTERM; SIGHUP takes up what can change meanwhile."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from fedrap_coordinator.admin.documents import program_version
from fedrap_coordinator.app import BELOW, create_app, places
from fedrap_coordinator.commands.output import say, settings_of
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.http.dashboard import ALONE
from fedrap_coordinator.http.device_api import COORDINATOR, LIMITS
from fedrap_coordinator.http.limits import make_runner
from fedrap_coordinator.http.metrics import Metrics
from fedrap_coordinator.http.problems import ServerEvents
from fedrap_coordinator.keyring import open_keyring
from fedrap_coordinator.logs import configure_logs
from fedrap_coordinator.settings import Settings, server_context
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.sql import Kind, Observed, SqlStore
from fedrap_coordinator.tasks import MAIN, tasks_of
from fedrap_coordinator.tracing import Traces, open_traces
from fedrap_core.privacy.statement import guarantee_in_words

log = logging.getLogger(__name__)

# Sections and keys that SIGHUP takes up; all others are part of what was agreed or opened.
RELOADED = (
    "limits", "serve.retry_seconds", "serve.max_wait_seconds", "serve.max_waiting",
    "serve.body_seconds", "serve.least_body_rate", "serve.certificate", "serve.private_key",
)  # fmt: skip


def add_serve(commands: Any) -> None:
    """Into the parser of `fedrap-coordinator`."""
    serve = commands.add_parser(
        "serve", help="run the coordinator until SIGTERM; SIGHUP reads limits and certificates anew"
    )
    serve.set_defaults(run=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    configure_logs()
    logging.getLogger("aiohttp.server").addFilter(ServerEvents())
    several = tasks_of(settings, os.environ)
    traces = open_traces(os.environ, program_version(), SYSTEM.clock)
    app = make_app(settings, several, traces)
    try:
        asyncio.run(_until_told(app, settings, several, arguments))
    finally:
        traces.close()
    return 0


def make_app(
    settings: Settings, several: Mapping[str, Settings], traces: Traces
) -> web.Application:
    """The coordinator of these settings, with the other tasks below it."""
    metrics = {name: Metrics() for name in (MAIN, *several)}

    def observed(task: str) -> Observed:
        def see(kind: Kind, seconds: float) -> None:
            metrics[task].observe_database(kind, seconds)
            traces.database(kind, seconds)

        return see

    store = SqlStore(settings.database, reached=traces.reached, observed=observed(MAIN))
    where = places(several) if several else {MAIN: ALONE}
    below: dict[str, web.Application] = {}
    for name, one in [*several.items(), (MAIN, settings)]:
        main = name == MAIN
        below[name] = app = create_app(
            one,
            store if main else store.beside(name, observed(name)),
            open_keyring(Path(one.keys)),
            reached=traces.reached,
            metrics=metrics[name],
            traces=traces,
            place=where[name],
            tasks=dict(below) if main else None,
        )
        log.log(
            logging.WARNING if one.privacy.noise == 0 else logging.INFO,
            "privacy guarantee",
            extra={"guarantee": guarantee_in_words(one.privacy)}
            | ({"task": name} if several else {}),
        )
    return app


async def _until_told(
    app: web.Application,
    settings: Settings,
    several: Mapping[str, Settings],
    arguments: argparse.Namespace,
) -> None:
    """Listen until SIGTERM or SIGINT, then answer what was begun."""
    where, over = settings.serve, asyncio.Event()
    context = server_context(where)
    _on_signal("SIGTERM", over.set)
    _on_signal("SIGINT", over.set)
    runner = make_runner(app, where.shutdown_seconds)
    try:
        await runner.setup()
        await web.TCPSite(runner, where.host, where.port, ssl_context=context).start()
        _settle_memory()
        reload = _Reload(app, settings, several, context, arguments)
        _on_signal("SIGHUP", reload)
        scheme = "http" if context is None else "https"
        say(f"coordinator on {scheme}://{where.host}:{where.port}")
        for name in settings.tasks:
            say(f"task {name} on {scheme}://{where.host}:{where.port}/t/{name}")
        if settings.admin.port is not None:
            say(f"dashboard on {scheme}://{settings.admin.host}:{settings.admin.port}")
        await over.wait()
    finally:
        await runner.cleanup()


def _on_signal(name: str, act: Callable[[], None]) -> None:
    """Where the platform has that signal; Windows ends a process by KeyboardInterrupt."""
    with contextlib.suppress(NotImplementedError, AttributeError):
        asyncio.get_running_loop().add_signal_handler(getattr(signal, name), act)


class _Reload:
    """What SIGHUP does. Settings that are wrong change nothing, and the log says why."""

    def __init__(
        self,
        app: web.Application,
        settings: Settings,
        several: Mapping[str, Settings],
        context: ssl.SSLContext | None,
        arguments: argparse.Namespace,
    ) -> None:
        self._apps = {MAIN: app, **{name: app[BELOW][name] for name in several}}
        self._held = {MAIN: settings, **several}
        self._context = context
        self._arguments = arguments

    def __call__(self) -> None:
        try:
            read = settings_of(self._arguments)
            several = tasks_of(read, os.environ)
            if server_context(read.serve) is not None and self._context is not None:
                # Connections that come from now on are shown the new certificate, on both ports.
                self._context.load_cert_chain(read.serve.certificate, read.serve.private_key)
        except (ConfigError, OSError) as error:
            log.warning("settings not reloaded", extra={"reason": str(error)})
            return
        for name, now in [(MAIN, read), *several.items()]:
            if name in self._apps:  # another task begins with a restart
                self._take(name, now)

    def _take(self, name: str, read: Settings) -> None:
        app, was = self._apps[name], self._held[name]
        taken, left = changes(was, read)
        self._held[name] = now = merged(was, read)
        app[LIMITS].reload(now)
        app[COORDINATOR].reload(now)
        told: dict[str, object] = {"taken": taken, "after_a_restart": left}
        if len(self._apps) > 1:
            told["task"] = name
        log.warning("settings reloaded", extra=told)


def changes(before: Settings, after: Settings) -> tuple[list[str], list[str]]:
    """Dotted keys that differ: those that are reloaded, and those that need a restart."""
    old, new = _leaves(msgspec.to_builtins(before)), _leaves(msgspec.to_builtins(after))
    differ = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    taken = [key for key in differ if _is_reloaded(key)]
    return taken, [key for key in differ if not _is_reloaded(key)]


def merged(before: Settings, after: Settings) -> Settings:
    """`before` with what can be reloaded of `after`."""
    change = msgspec.structs.replace
    names = [key.partition(".")[2] for key in RELOADED if key.startswith("serve.")]
    serve = change(before.serve, **{name: getattr(after.serve, name) for name in names})
    return change(before, limits=after.limits, serve=serve)


def _is_reloaded(key: str) -> bool:
    return any(key == one or key.startswith(f"{one}.") for one in RELOADED)


def _leaves(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= _leaves(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _settle_memory() -> None:
    """Less work for the garbage collector, which took a tenth of the time under load.

    What was made to serve stays for good, so it need not be looked at again; and a request leaves
    few cycles behind, so looking after every 700 new objects is too often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
