"""A device in Java from outside: bytes of a round on the wire and on the disk, time of each call.

    python benchmarks/android/bench_device.py [--json PATH] [--items 1682 32266]

Needs a JDK of 11 or newer and Maven. For each catalogue a real coordinator on a real socket, a
proxy that counts bytes, one device in Java and one in Python with the same history. Bytes are those
of HTTP without TLS. Times are of this machine's JVM, not of a phone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fedrap import FedRap, Floor
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.plan import SolveMethod
from testkit.harness import LiveServer, serve, small_settings
from tests.android.java_devices import JavaDevices, java_devices

DIM, HISTORY, INTERACTIONS, LISTS = 64, 100, 2000, 300


@dataclass
class Counted:
    """Bytes through a proxy since they were last taken."""

    port: int = 0
    up: int = 0
    down: int = 0

    def take(self) -> dict[str, int]:
        found = {"up": self.up, "down": self.down}
        self.up = self.down = 0
        return found


@asynccontextmanager
async def counting(server: str) -> AsyncIterator[Counted]:
    """A proxy on a free port that passes everything on and counts."""
    host, _, port = server.removeprefix("http://").partition(":")
    counted = Counted()

    async def pump(
        source: asyncio.StreamReader, sink: asyncio.StreamWriter, direction: str
    ) -> None:
        while part := await source.read(65_536):
            setattr(counted, direction, getattr(counted, direction) + len(part))
            sink.write(part)
            await sink.drain()
        sink.close()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, to_upstream = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, to_upstream, "up"), pump(upstream, writer, "down"))

    proxy = await asyncio.start_server(one, "127.0.0.1", 0)
    counted.port = int(proxy.sockets[0].getsockname()[1])
    try:
        yield counted
    finally:
        proxy.close()


def cpu_seconds(java: JavaDevices) -> float:
    """Of the process of the Java device, its start included."""
    fields = Path(f"/proc/{java.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stored(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


def summed(times: list[float]) -> dict[str, float]:
    """Least, median and p95 of microseconds; the first tenth warms up and is left out."""
    late = sorted(times[len(times) // 10 :])
    p95 = late[int(0.95 * (len(late) - 1))]
    middle = statistics.median(late)
    return {"min_us": round(late[0], 1), "median_us": round(middle, 1), "p95_us": round(p95, 1)}


async def released(served: LiveServer, version: int) -> None:
    """Wait for a release."""
    async with asyncio.timeout(60):
        while (await served.app[COORDINATOR].release(None)).version < version:
            await asyncio.sleep(0.02)
            await served.app[COORDINATOR].advance()


async def measure(size: int, work: Path, java: JavaDevices) -> dict[str, Any]:
    """Everything at one size of the catalogue."""
    items = [f"item-{row}" for row in range(size)]
    interactions = items[: size : max(1, size // HISTORY)][:HISTORY]
    base = small_settings(updates=2, separation=1, max_body_bytes=1 << 20)
    settings = msgspec.structs.replace(base, method=SolveMethod(dim=DIM))
    name, folder = f"java-{size}", work / f"java-{size}"
    async with (
        serve(settings, MemoryStore(), items=items) as served,
        counting(served.url) as counted,
    ):
        url = f"http://127.0.0.1:{counted.port}"
        floor = Floor.without_privacy(separation=1, min_updates=2)
        floors = [
            floor.separation,
            floor.cap,
            floor.min_updates,
            floor.min_noise,
        ]  # without privacy
        token = await served.token()
        await java.device(name, folder, url, token, interactions, floor=floors)
        python = FedRap.open(
            work / f"python-{size}", server=url, token=await served.token(), floor=floor
        )
        python.consent(train=True, policy="benchmark")
        for item in interactions:
            python.record(item)
        wire: dict[str, Any] = {}
        cpu = cpu_seconds(java)
        for step in ("first", "second", "third"):
            assert (await java.run(name))["joined"]
            wire[f"java {step} round"] = counted.take()
            assert (await python.run_round_async()).joined
            wire[f"python {step} round"] = counted.take()
            await released(served, {"first": 2, "second": 3, "third": 4}[step])
        cpu = cpu_seconds(java) - cpu
        for which in ("new release", "nothing new"):
            await java.do(name, "sync")
            wire[f"java sync, {which}"] = counted.take()
        recommend = await java.do(name, "time", what="recommend", n=LISTS)
        record = await java.do(name, "time", what="record", n=INTERACTIONS)
        await java.do(name, "close")
        start = time.perf_counter()
        await java.do(name, "open", folder=str(folder), server=url)
        opened = time.perf_counter() - start
        await java.do(name, "close")
        python.close()
    return {
        "wire_bytes": wire,
        "java_cpu_seconds_of_three_rounds": round(cpu, 2),
        "java_record": summed(record),
        "java_recommend_20": summed(recommend),
        "java_open_ms": round(1e3 * opened, 1),
        "java_store_bytes": stored(folder),
        "python_store_bytes": stored(work / f"python-{size}"),
    }


async def measure_all(sizes: list[int]) -> dict[str, Any]:
    """One process of Java for all sizes, the smallest first."""
    with tempfile.TemporaryDirectory() as work, java_devices(short_lived=False) as java:
        return {str(size): await measure(size, Path(work), java) for size in sizes}


def main(argv: list[str] | None = None) -> int:
    """Print or write everything as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="write the result here instead of printing it")
    parser.add_argument("--items", type=int, nargs="+", default=[1_682, 32_266])
    given = parser.parse_args(argv)
    result = {
        "benchmark": "android device",
        "dim": DIM,
        "history": HISTORY,
        "python": platform.python_version(),
        "by_items": asyncio.run(measure_all(given.items)),
    }
    text = json.dumps(result, indent=2) + "\n"
    if given.json:
        given.json.write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
