"""A million enrolled devices that check in: how long they wait, on PostgreSQL with two processes.

A tenth of them are active in a day, and each of those asks `--checkins` times in `--hours` hours of
the night (4 in 8 unless told otherwise): whether there is a newer release (304), and for a slot. A
check-in that gets a slot sends its update. Arrivals are a Poisson process at that rate. Server
processes, PostgreSQL and the load share this machine. All devices have one key pair, which costs
the server what a million would: it keeps no more than some thousand of them in memory.

python benchmarks/soak_checkins.py [--devices 1000000] [--seconds 600] [--json PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from empty_databases import databases
from served_coordinator import CONFIG, DIM, ITEMS

from fedrap_coordinator.store.engine import open_engine
from fedrap_core.wire.keys import new_private_key
from testkit.load_client import CheapDevice, Connection, http_bytes, one_row

DAY = 86_400.0
COHORT = 200  # updates of a round


@contextmanager
def process(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """One `serve` on that port; all share the folder's settings and keys."""
    environment = {**os.environ, "FEDRAP__SERVE__PORT": str(port)}
    log = (folder / f"log-{port}").open("wb")
    command = [sys.executable, "-m", "fedrap_coordinator", "serve"]
    started = subprocess.Popen(command, cwd=folder, stderr=log, env=environment)
    try:
        for _ in range(1200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if started.poll() is not None:
                raise RuntimeError("a coordinator did not start: " + str(folder / f"log-{port}"))
            time.sleep(0.1)
        yield started
    finally:
        started.send_signal(signal.SIGTERM)
        started.wait(120)
        log.close()


def enrol(url: str, count: int, point: bytes) -> None:
    """So many devices, straight into the table."""
    insert = sa.text(
        "INSERT INTO device (id, public_key, enrolled_at, last_nonce, participations) "
        "SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), :point, 0, 0, 0 "
        "FROM generate_series(0, :last) AS n"
    )
    engine = open_engine(url)
    with engine.begin() as db:
        db.execute(insert, {"point": point, "last": count - 1})
    with engine.begin() as db:
        db.execute(sa.text("ANALYZE device"))
    engine.dispose()


class Crowd:
    """Devices that come and go."""

    def __init__(self, ports: list[int], devices: int) -> None:
        self._free = {port: [] for port in ports}  # type: dict[int, list[Connection]]
        self._devices = devices
        self._key = new_private_key()
        self.point = CheapDevice(0, self._key).point
        self.seconds: dict[str, list[float]] = {"release": [], "offer": [], "update": []}
        self.answers: Counter[str] = Counter()
        self._release = 1

    async def check_in(self, rng: np.random.Generator, port: int) -> None:
        """One device: is there a release, is there a slot?"""
        free = self._free[port]
        connection = free.pop() if free else Connection("127.0.0.1", port)
        number = int(rng.integers(self._devices))
        device = CheapDevice(number, self._key, number.to_bytes(16, "big"), time.time_ns())
        try:
            held = f'"c{self._release}"'
            path = f"/v1/releases/latest?have={self._release}"
            ask = http_bytes(path, b"", f"If-None-Match: {held}\r\n", "GET")
            await self._timed("release", connection, ask)
            for _ in range(2):
                status, body = await self._timed("offer", connection, device.asks(self._release))
                if status == 200:
                    offer = CheapDevice.offer_in(body)
                    sealed = device.sealed(offer, one_row(number % ITEMS, DIM))
                    await self._timed("update", connection, device.sends(offer.round, sealed))
                elif b"stale-model" in body:  # this round trains a newer release
                    found = re.search(rb"trains release (\d+)", body)
                    self._release = int(found[1]) if found else self._release
                    continue
                break
            free.append(connection)
        except (OSError, EOFError, ValueError) as error:
            self.answers[type(error).__name__] += 1
            connection.close()

    async def _timed(self, what: str, connection: Connection, raw: bytes) -> tuple[int, bytes]:
        begun = time.perf_counter()
        try:
            reply = await connection.send(raw)
            status, body = reply.status, reply.body
            word = str(status) if status == 200 else reply.problem
        except ValueError:  # 304 has no length
            status, body, word = 304, b"", "304"
            connection.close()
        self.seconds[what].append(time.perf_counter() - begun)
        self.answers[f"{what} {word}"] += 1
        return status, body


async def run(crowd: Crowd, ports: list[int], rate: float, seconds: float) -> int:
    """Arrivals at that rate; how many there were."""
    rng, tasks, number = np.random.default_rng(0), set[asyncio.Task[None]](), 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        await asyncio.sleep(float(rng.exponential(1 / rate)))
        task = asyncio.create_task(crowd.check_in(rng, ports[number % len(ports)]))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        number += 1
    if tasks:
        await asyncio.wait(tasks, timeout=60)
    return number


def main(argv: list[str] | None = None) -> int:
    """Print what devices waited, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=1_000_000)
    parser.add_argument("--active", type=float, default=0.1, help="share of them in a day")
    parser.add_argument("--checkins", type=float, default=4.0, help="of an active device in a day")
    parser.add_argument("--hours", type=float, default=8.0, help="in which they come")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    rate = arguments.devices * arguments.active * arguments.checkins / (3600 * arguments.hours)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kinds = stack.enter_context(databases(folder))
        url = kinds["postgresql"]()
        config = CONFIG.format(url=url, updates=COHORT, port=0).replace(
            "total = 100", "total = 9999"
        )
        (folder / "fedrap.toml").write_text(config)
        (folder / "items.txt").write_text("\n".join(f"item-{row}" for row in range(ITEMS)))
        add = [sys.executable, "-m", "fedrap_coordinator", "items", "add", "items.txt"]
        subprocess.run(add, cwd=folder, check=True, stderr=subprocess.DEVNULL)
        ports = _free_ports(2)
        crowd = Crowd(ports, arguments.devices)
        begun = time.perf_counter()
        enrol(url, arguments.devices, crowd.point)
        enrolling = time.perf_counter() - begun
        for port in ports:
            stack.enter_context(process(folder, port))
        came = asyncio.run(run(crowd, ports, rate, arguments.seconds))
    result = {
        "devices": arguments.devices, "rate_per_second": round(rate, 2), "check_ins": came,
        "seconds": arguments.seconds, "rows_inserted_in_seconds": round(enrolling, 1),
        "answers": dict(sorted(crowd.answers.items())),
        "waited_seconds": {
            what: {f"p{q}": round(float(np.percentile(one, q)), 4) for q in (50, 90, 99)}
            for what, one in crowd.seconds.items() if one
        },
    }  # fmt: skip
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    worst = max(np.percentile(one, 99) for one in crowd.seconds.values() if one)
    return 0 if worst < 1.0 else 1


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


if __name__ == "__main__":
    sys.exit(main())
