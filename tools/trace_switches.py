"""How often the walk of one call goes from one module to another: traced, not guessed.

python tools/trace_switches.py [--json FILE]

Every call of a function of the project is seen, a coroutine that is resumed counts as one; a
switch is a call in another module than the one before it, in the same thread. The coordinator is
real, with HTTP and SQLite. It needs nothing but stable names, so that two versions can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
from aiohttp import web

from fedrap import FedRap, Floor
from fedrap_coordinator.app import create_app
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.sql import SqlStore

try:
    from fedrap.transport.http import HttpTransport
    from fedrap_coordinator.http.device_api import COORDINATOR, REGISTRY
except ImportError:  # version 0.1
    from fedrap.http_transport import HttpTransport  # type: ignore[import-not-found,no-redef]
    from fedrap_coordinator.handlers import (  # type: ignore[import-not-found,no-redef]
        COORDINATOR,
        REGISTRY,
    )

ITEMS = [f"item-{row}" for row in range(50)]
RELEASE = "last update to release"
DEVICE, SERVER = ("fedrap.", "fedrap_core."), ("fedrap_coordinator.", "fedrap_core.")


@dataclass
class Trace:
    """What one stretch of the walk passed."""

    modules: set[str] = field(default_factory=set)
    switches: int = 0
    calls: int = 0
    last: dict[int, str] = field(default_factory=dict)


class Tracer:
    """Counts for as many stretches at once as are open."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[tuple[str, ...], Trace]] = {}
        self.found: dict[str, Trace] = {}

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        """The profiler's hook."""
        if event != "call" or not self._open:
            return
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("fedrap") or frame.f_code.co_name in ("<listcomp>", "<genexpr>"):
            return
        thread = threading.get_ident()
        for roots, trace in list(self._open.values()):
            if not f"{name}.".startswith(roots):
                continue
            trace.calls += 1
            trace.modules.add(name)
            if trace.last.get(thread, name) != name:
                trace.switches += 1
            trace.last[thread] = name

    @contextmanager
    def stretch(self, name: str, roots: tuple[str, ...]) -> Iterator[None]:
        """Count while this is open."""
        self.begin(name, roots)
        try:
            yield
        finally:
            self.end(name)

    def begin(self, name: str, roots: tuple[str, ...]) -> None:
        """A stretch that ends elsewhere."""
        self._open[name] = (roots, Trace())

    def end(self, name: str) -> None:
        """It is over."""
        self.found[name] = self._open.pop(name)[1]


class Traced(HttpTransport):
    """HTTP with the coordinator's part of an offer and of an update as stretches of their own."""

    def __init__(self, server: str, tracer: Tracer) -> None:
        super().__init__(server)
        self._tracer = tracer
        self.offers = self.updates = self.until_release = False

    async def offer(self, *arguments: Any, **named: Any) -> Any:
        """Ask for a slot."""
        if not self.offers:
            return await super().offer(*arguments, **named)
        with self._tracer.stretch("one offer", SERVER):
            return await super().offer(*arguments, **named)

    async def send_update(self, *arguments: Any, **named: Any) -> Any:
        """Hand in an update."""
        if self.until_release:
            self._tracer.begin(RELEASE, SERVER)
        if not self.updates:
            return await super().send_update(*arguments, **named)
        with self._tracer.stretch("one update", SERVER):
            return await super().send_update(*arguments, **named)


def settings_in(folder: Path, updates: int) -> Settings:
    """A coordinator for few devices, on SQLite."""
    tree = {
        "database": f"sqlite:///{folder / 'trace.sqlite'}",
        "serve": {"retry_seconds": 0.01},
        "round": {"min_updates": updates, "max_updates": updates, "min_seconds": 0.0},
        "method": {"name": "solve", "dim": 8},
        "privacy": {"clip": 8.0, "noise": 1.0},
    }
    return msgspec.convert(tree, Settings, strict=False)


async def walk(folder: Path, tracer: Tracer) -> None:
    """Three devices and a round: each stretch once, warm where the product is warm."""
    settings = settings_in(folder, 3)
    store = SqlStore(settings.database)
    app = create_app(settings, store, fresh_keyring())
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    coordinator = app[COORDINATOR]
    await coordinator.add_items(ITEMS)
    tokens = [secrets.token_urlsafe(16) for _ in range(3)]
    await app[REGISTRY].add_tokens(tokens)
    devices = []
    for place, token in enumerate(tokens):
        transport = Traced(f"http://127.0.0.1:{port}", tracer)
        device = FedRap.open(
            folder / f"device-{place}",
            transport=transport,
            token=token,
            floor=Floor.without_privacy(min_updates=2),
        )
        device.consent(train=True, policy="trace")
        for item in ITEMS[place * 10 : place * 10 + 10]:
            device.record(item)
        await device.sync_async()
        devices.append((device, transport))
    first, second, last = devices
    first[0].recommend(5)
    with tracer.stretch("record", DEVICE):
        first[0].record(ITEMS[40])
    with tracer.stretch("recommend", DEVICE):
        first[0].recommend(10)
    with tracer.stretch("first run_round", DEVICE):
        report = await first[0].run_round_async()
    assert report.joined, report
    second[1].offers = second[1].updates = True
    assert (await second[0].run_round_async()).joined
    before = coordinator.model

    async def released() -> None:
        while coordinator.model is before:  # noqa: ASYNC110 (another version may have no event)
            await asyncio.sleep(0.001)

    last[1].until_release = True
    assert (await last[0].run_round_async()).joined
    await asyncio.wait_for(released(), 60)
    tracer.end(RELEASE)
    for device, transport in devices:
        device.close()
        await transport.close()
    await runner.cleanup()


def main(argv: list[str] | None = None) -> int:
    """Trace, print a table, write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    tracer, started = Tracer(), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fedrap-trace-") as folder:
        threading.setprofile(tracer.see)
        sys.setprofile(tracer.see)
        try:
            asyncio.run(walk(Path(folder), tracer))
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    rows = {
        name: {"modules": len(one.modules), "switches": one.switches, "calls": one.calls}
        for name, one in tracer.found.items()
    }
    for name, row in rows.items():
        print(f"{name:<24} {row['modules']:>3} modules {row['switches']:>5} switches")
    print(f"{time.perf_counter() - started:.1f} s", file=sys.stderr)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
