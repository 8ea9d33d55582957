"""Several tasks in one process, as `serve` makes them from settings that list each other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web

from fedrap_coordinator.app import ADMIN_RUNNER, BELOW
from fedrap_coordinator.commands.serve import make_app
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.http.limits import make_runner
from fedrap_coordinator.settings import AdminApi, Settings
from fedrap_coordinator.tasks import MAIN
from fedrap_coordinator.tracing import NO_TRACES
from testkit.harness import ITEMS, LiveServer


@dataclass(frozen=True)
class Several:
    """Tasks that are served, and where their pages are."""

    tasks: Mapping[str, LiveServer]
    admin: str  # of the main one; the others are below it


def settings_of_tasks(
    wanted: Mapping[str, Settings], database: str, keys: Path
) -> dict[str, Settings]:
    """What the files of these tasks would say, `main` among them."""
    change, made = msgspec.structs.replace, {}
    for name, settings in wanted.items():
        made[name] = change(
            settings,
            database=database,
            keys=str(keys / name),
            task="" if name == MAIN else name,
            admin=AdminApi(port=0),
            enrolment=change(settings.enrolment, audience=f"tasks-{name}"),
        )
    return made


@asynccontextmanager
async def serve_several(
    settings: Mapping[str, Settings], items: Sequence[str] = tuple(ITEMS)
) -> AsyncIterator[Several]:
    """All of them on one free port, and their pages on another."""
    below = {name: one for name, one in settings.items() if name != MAIN}
    app = make_app(settings[MAIN], below, NO_TRACES)
    runner = make_runner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        admin = f"http://127.0.0.1:{app[ADMIN_RUNNER].addresses[0][1]}"
        async with aiohttp.ClientSession() as session:
            tasks = {MAIN: LiveServer(app, url, session)}
            for name in below:
                tasks[name] = LiveServer(app[BELOW][name], f"{url}/t/{name}", session)
            for one in tasks.values():
                await one.app[COORDINATOR].add_items(list(items))
            try:
                yield Several(tasks, admin)
            finally:
                for one in tasks.values():
                    one.close_devices()
    finally:
        await runner.cleanup()
