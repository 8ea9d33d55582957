"""The app factory: store, coordinator and timer start together and end in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial

from aiohttp import web

from fedrap_coordinator.admin_api import create_admin_app, serve_admin
from fedrap_coordinator.faults import Reached, pass_by
from fedrap_coordinator.gate import GATE, Gate, guard
from fedrap_coordinator.handlers import COORDINATOR, REGISTRY, routes
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.middleware import answer_problems
from fedrap_coordinator.registry import Registry
from fedrap_coordinator.service import Coordinator
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.protocol import Store


def create_app(
    settings: Settings,
    store: Store,
    keyring: Keyring,
    clock: Callable[[], float] = time.time,
    reached: Reached = pass_by,
) -> web.Application:
    """The coordinator as a web application; the parts that touch the world come in by argument."""
    app = web.Application(
        middlewares=[answer_problems, guard], client_max_size=settings.serve.max_body_bytes
    )
    app[GATE] = Gate(settings)
    app[COORDINATOR] = Coordinator(store, keyring, settings, clock, reached)
    app[REGISTRY] = Registry(store, clock, settings.enrolment, keyring.authority)
    app.router.add_routes(routes())
    app.cleanup_ctx.append(_run_coordinator)
    face = settings.admin
    if face.port is not None:
        admin = create_admin_app(settings, store, keyring, clock)
        app.cleanup_ctx.append(partial(_run_admin, admin, face.host, face.port))
    return app


async def _run_admin(
    admin: web.Application, host: str, port: int, app: web.Application
) -> AsyncIterator[None]:
    runner = await serve_admin(admin, host, port)
    yield
    await runner.cleanup()


async def _run_coordinator(app: web.Application) -> AsyncIterator[None]:
    coordinator = app[COORDINATOR]
    await coordinator.start()
    driver = asyncio.create_task(coordinator.run())
    yield
    driver.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await driver
    await coordinator.stop()
