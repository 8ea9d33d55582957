"""The app factory: store, coordinator and timer start together and end in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial

from aiohttp import web

from fedrap_coordinator.admin.monitor import Monitor
from fedrap_coordinator.domain.fault_points import Reached, pass_by
from fedrap_coordinator.http.admin_api import create_admin_app, serve_admin
from fedrap_coordinator.http.dashboard import MONITOR
from fedrap_coordinator.http.device_api import COORDINATOR, REGISTRY, routes
from fedrap_coordinator.http.limits import REQUEST_LIMITS, RequestLimits, guard
from fedrap_coordinator.http.metrics import Metrics
from fedrap_coordinator.http.problems import answer_problems
from fedrap_coordinator.identity.enrolment import Registry
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.coordinator import Coordinator
from fedrap_coordinator.settings import Settings, server_context
from fedrap_coordinator.store.protocol import Store

ADMIN_RUNNER = web.AppKey("admin_runner", web.AppRunner)


def create_app(
    settings: Settings,
    store: Store,
    keyring: Keyring,
    clock: Callable[[], float] = time.time,
    reached: Reached = pass_by,
) -> web.Application:
    """The coordinator as a web application; the parts that touch the world come in by argument."""
    coordinator = Coordinator(store, keyring, settings, clock, reached)
    gate = RequestLimits(settings)
    metrics = Metrics()
    watch = Monitor(store, coordinator, settings, clock, metrics, gate.in_hand)
    metrics.add_gauges(watch.gauges)
    app = web.Application(
        middlewares=[metrics.measure, answer_problems, guard],
        client_max_size=settings.serve.max_body_bytes,
    )
    app[REQUEST_LIMITS] = gate
    app[COORDINATOR], app[MONITOR] = coordinator, watch
    app[REGISTRY] = Registry(store, clock, settings.enrolment, keyring.authority)
    app.router.add_routes(routes())
    app.cleanup_ctx.append(_run_coordinator)
    face = settings.admin
    if face.port is not None:
        admin = create_admin_app(settings, store, keyring, clock, watch, metrics)
        app.cleanup_ctx.append(partial(_run_admin, admin, settings))
    return app


async def _run_admin(
    admin: web.Application, settings: Settings, app: web.Application
) -> AsyncIterator[None]:
    face = settings.admin
    assert face.port is not None
    runner = await serve_admin(admin, face.host, face.port, server_context(settings.serve))
    app[ADMIN_RUNNER] = runner
    yield
    await runner.cleanup()


async def _run_coordinator(app: web.Application) -> AsyncIterator[None]:
    coordinator = app[COORDINATOR]
    await coordinator.start()
    tasks = [asyncio.create_task(coordinator.run()), asyncio.create_task(app[MONITOR].run())]
    yield
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    with contextlib.suppress(Exception):  # what was refused last is nice to have, no more
        await app[MONITOR].look()
    await coordinator.stop()
