"""The app factory: store, coordinator and timer start together and end in reverse."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping

from aiohttp import web

from fedrap_coordinator.admin.monitor import Monitor
from fedrap_coordinator.domain.fault_points import Reached, pass_by
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.http.admin_api import METRICS, MONITORS, create_admin_app, serve_admin
from fedrap_coordinator.http.dashboard import ALONE, MONITOR, PLACE, Place
from fedrap_coordinator.http.device_api import (
    BASE,
    BESIDE,
    COORDINATOR,
    LIMITS,
    REGISTRY,
    around_devices,
    routes,
)
from fedrap_coordinator.http.helper_client import HelperClient
from fedrap_coordinator.http.limits import RequestLimits
from fedrap_coordinator.http.metrics import Metrics
from fedrap_coordinator.identity.enrolment import Registry
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.aggregation import Aggregator
from fedrap_coordinator.rounds.coordinator import Coordinator
from fedrap_coordinator.rounds.driver import Learn
from fedrap_coordinator.rounds.releases import next_model
from fedrap_coordinator.rounds.sealed_aggregator import SealedAggregator
from fedrap_coordinator.rounds.split_aggregator import ByPlan, Helper, SplitAggregator
from fedrap_coordinator.settings import Settings, server_context
from fedrap_coordinator.sources import SYSTEM, Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_coordinator.tasks import MAIN
from fedrap_coordinator.tracing import NO_TRACES, Traces
from fedrap_core.errors import MalformedMessage
from fedrap_core.wire.keys import public_from_point

BELOW = web.AppKey("below", dict[str, web.Application])  # the other tasks of this process
ADMIN = web.AppKey("admin", web.Application)
ADMIN_RUNNER = web.AppKey("admin_runner", web.AppRunner)


def create_app(
    settings: Settings,
    store: Store,
    keyring: Keyring,
    sources: Sources = SYSTEM,
    *,
    aggregator: Aggregator | None = None,
    learn: Learn = next_model,
    reached: Reached = pass_by,
    metrics: Metrics | None = None,
    traces: Traces = NO_TRACES,
    place: Place = ALONE,
    tasks: Mapping[str, web.Application] | None = None,
) -> web.Application:
    """The coordinator as a web application; the parts that touch the world come in by argument.

    Args:
        sources: time and randomness; the machine's, unless somebody brings others.
        aggregator: how updates are opened and summed; `SealedAggregator` unless told otherwise.
        learn: the step from one release to the next.
        reached: is called at every fault point.
        metrics: where requests are counted; the store may count there, too.
        traces: where spans of requests go.
        place: where this task is served, if it is one of several; see `places`.
        tasks: the others of this process, each made by this function; they are served below.
    """
    if aggregator is None:
        aggregator = usual_aggregator(settings, keyring)
    coordinator = Coordinator(
        store, keyring, settings, aggregator, sources, learn=learn, reached=reached
    )
    limits, metrics = RequestLimits(settings, sources.monotonic), metrics or Metrics()
    monitor = Monitor(store, coordinator, settings, sources, metrics, limits.in_hand)
    metrics.add_gauges(monitor.gauges)
    app = web.Application(
        middlewares=[around_devices(limits, metrics, sources, traces)],
        client_max_size=settings.serve.max_body_bytes,
    )
    app[COORDINATOR], app[MONITOR] = coordinator, monitor
    app[LIMITS] = limits
    app[REGISTRY] = Registry(store, sources.clock, settings.enrolment, keyring.authority)
    app[BASE], app[BESIDE], app[BELOW] = place.base, {}, dict(tasks or {})
    app.router.add_routes(routes())
    app.cleanup_ctx.append(_run_coordinator)
    if settings.admin.port is not None:
        app[ADMIN] = create_admin_app(settings, store, keyring, sources, monitor, metrics, place)
    if tasks:
        _mount(app)
    if ADMIN in app and not place.base:
        app.on_startup.append(_Listening(settings))  # when every task has started
        app.on_shutdown.append(_stop_listening)
    return app


def places(names: Iterable[str]) -> dict[str, Place]:
    """Where tasks of these names are served, and the main one, each knowing where the others are.

    Addresses of pages are relative: they hold behind any proxy.
    """
    names = tuple(names)
    below = tuple((name, f"t/{name}/") for name in names)
    found = {MAIN: Place("", ((MAIN, "./"), *below))}
    for own in names:
        beside = tuple((name, "./" if name == own else f"../{name}/") for name in names)
        found[own] = Place(f"/t/{own}", ((MAIN, "../../"), *beside))
    return found


def _mount(app: web.Application) -> None:
    """Serve the other tasks below this one, on both ports."""
    admin = app.get(ADMIN)
    shown = {}
    for name, task in app[BELOW].items():
        app.add_subapp(task[BASE], task)
        app[BESIDE][name] = task[COORDINATOR]
        below = task.get(ADMIN)
        if admin is not None and below is not None:
            admin.router.add_get(below[PLACE].base, _with_a_slash)
            admin.add_subapp(below[PLACE].base, below)
            admin[MONITORS].append(below[MONITOR])
            shown[name] = below[METRICS]
    if admin is not None:
        admin[METRICS].show_tasks({MAIN: admin[METRICS], **shown})


async def _with_a_slash(request: web.Request) -> web.Response:
    """Pages name what they load from where they are."""
    last = request.path.rpartition("/")[2]
    return web.Response(status=308, headers={"Location": f"{last}/"})


def usual_aggregator(
    settings: Settings, keyring: Keyring, helper: Helper | None = None
) -> Aggregator:
    """How rounds of either kind are summed; `helper` is called over HTTPS unless one is brought.

    Raises:
        ConfigError: a certificate or the identity of the helper is not what it should be.
    """
    most, split = settings.serve.max_body_bytes, settings.split
    sealed = SealedAggregator(keyring, most, settings.learning)
    if split is None:
        return ByPlan(sealed, None)
    try:
        identity = bytes.fromhex(split.helper.identity)
        public_from_point(identity)
    except (ValueError, MalformedMessage) as error:
        raise ConfigError(
            "split.helper.identity is the line of hex that `fedrap-aggregator status` prints"
        ) from error
    reached = helper or HelperClient(split.helper)
    return ByPlan(sealed, SplitAggregator(keyring, reached, identity, most, split.expansion))


class _Listening:
    """Opens the port of the admin API."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def __call__(self, app: web.Application) -> None:
        host, port = self._settings.admin.host, self._settings.admin.port
        assert port is not None
        context = server_context(self._settings.serve)
        app[ADMIN_RUNNER] = await serve_admin(app[ADMIN], host, port, context)


async def _stop_listening(app: web.Application) -> None:
    await app[ADMIN_RUNNER].cleanup()


async def _run_coordinator(app: web.Application) -> AsyncIterator[None]:
    coordinator = app[COORDINATOR]
    await coordinator.start()
    await app[MONITOR].look()  # what was spent before is told from the first answer on
    timers = (coordinator.run(), coordinator.run_questions(), app[MONITOR].run())
    tasks = [asyncio.create_task(timer) for timer in timers]
    yield
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    with contextlib.suppress(Exception):  # what was refused last is nice to have, no more
        await app[MONITOR].look()
    await coordinator.stop()
