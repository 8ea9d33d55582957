"""How many updates a coordinator takes, and how long a round lasts; ratios in one run.

`accepted_per_second`: updates that were answered with `accepted`, each durable, sent by 500 devices
at once over real sockets to a real server process. `limit_per_second`: the same bytes verified,
unsealed, decoded and inserted in the same batches by a bare loop of one process, into a database of
the same kind with the same settings. Server, database and load share the cores of this machine; the
loop has them for itself. `cpu` says how much of a core each took while the updates came in.

`rounds`: rounds of 2, 100 and 1,000 devices that train nothing, from first offer to release.
`memory`: the server's resident memory with more and more sealed updates held.

    python benchmarks/bench_coordinator.py [--json PATH]     # 2,000 updates
    python benchmarks/bench_coordinator.py --full            # 10,000 updates
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from empty_databases import databases
from served_coordinator import DIM, ITEMS, Site, serving

from fedrap_coordinator.keyring import open_keyring
from fedrap_coordinator.rounds.sealed_aggregator import open_share
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.engine import SYNCHRONOUS, open_engine
from fedrap_coordinator.store.migrations import open_schema
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Update
from fedrap_core.wire.signing import sign, signed_bytes, verify
from testkit.load_client import CheapDevice, Connection, http_bytes, some_rows

ROWS, SEED, BATCH = 100, 0, 64
AT_ONCE = 500


def make_devices(count: int) -> list[CheapDevice]:
    return [CheapDevice(number, id=number.to_bytes(16, "big")) for number in range(count)]


class LoadClients:
    """Devices on so many connections; what each asks was made beforehand."""

    def __init__(self, port: int, at_once: int = AT_ONCE) -> None:
        self._connections = [Connection("127.0.0.1", port) for _ in range(at_once)]

    async def send(
        self, requests: list[bytes], done: Callable[[int], None] = lambda count: None
    ) -> tuple[list[bytes], list[float]]:
        """All answers, which must be good, and their seconds; `done` hears of each answer."""
        answers, seconds = [b""] * len(requests), [0.0] * len(requests)
        waiting, count = iter(range(len(requests))), 0

        async def work(connection: Connection) -> None:
            nonlocal count
            for place in waiting:
                begun = time.perf_counter()
                reply = await connection.send(requests[place])
                seconds[place] = time.perf_counter() - begun
                if reply.status != 200:
                    raise RuntimeError(f"refused: {reply.status} {reply.body!r}")
                answers[place] = reply.body
                count += 1
                done(count)

        await asyncio.gather(*(work(one) for one in self._connections))
        return answers, seconds

    async def latest(self) -> int:
        """The version that is out."""
        request = http_bytes("/v1/privacy", b"", "", "GET")
        reply = await self._connections[0].send(request)
        return int(json.loads(reply.body)["rounds"]["released"])

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def prepared(devices: list[CheapDevice], offers: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Round and body of each device's update."""
    rng, made = np.random.default_rng(SEED), []
    for device, raw in zip(devices, offers, strict=True):
        offer = device.offer_in(raw)
        made.append((offer.round, device.sealed(offer, some_rows(rng, ITEMS, DIM, ROWS))))
    return made


async def throughput(site: Site, devices: list[CheapDevice]) -> tuple[dict[str, Any], list[Any]]:
    """Updates per second, and the bytes for the bare loop."""
    load = LoadClients(site.port)
    begun = time.perf_counter()
    offers, _ = await load.send([device.asks(1) for device in devices])
    asked = time.perf_counter() - begun
    bodies = prepared(devices, offers)
    requests = [
        device.sends(round_id, body)
        for device, (round_id, body) in zip(devices, bodies, strict=True)
    ]
    memory: list[dict[str, float]] = []
    quarter = len(devices) // 4

    def look(held: int) -> None:
        if held % quarter == 0:
            memory.append({"held": held, "resident_mb": round(site.resident_mb(), 1)})

    spent, own, begun = site.cpu_seconds(), _own_cpu(), time.perf_counter()
    _, seconds = await load.send(requests, look)
    took = time.perf_counter() - begun
    load.close()
    found = {
        "updates": len(devices),
        "update_bytes": len(bodies[0][1]),
        "offers_per_second": round(len(devices) / asked, 1),
        "accepted_per_second": round(len(devices) / took, 1),
        "p50_ms": round(1e3 * float(np.quantile(seconds, 0.5)), 1),
        "p99_ms": round(1e3 * float(np.quantile(seconds, 0.99)), 1),
        "cpu": {
            "server": round((site.cpu_seconds() - spent) / took, 2),
            "load": round((_own_cpu() - own) / took, 2),
        },
        "memory": memory,
        "peak_mb": round(site.resident_mb("VmHWM"), 1),
    }
    return found, bodies


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def limit(url: str, site: Path, devices: list[CheapDevice], bodies: list[Any]) -> float:
    """Updates per second of a bare loop that does what must be done, and nothing else."""
    keyring = open_keyring(site / "keys")
    path = f"/v1/rounds/{bodies[0][0].hex()}/updates"
    work = [
        (
            device.id,
            device.key.public_key(),
            sign(device.key, signed_bytes("POST", path, body, device.id, 1)),
            body,
        )
        for device, (_, body) in zip(devices, bodies, strict=True)
    ]
    engine = open_engine(url)
    with engine.begin() as db:
        open_schema(db)
    begun = time.perf_counter()
    for start in range(0, len(work), BATCH):
        rows = []
        for device_id, public, signature, body in work[start : start + BATCH]:
            verify(public, signed_bytes("POST", path, body, device_id, 1), signature)
            update = decode(Update, body, 1 << 22)
            open_share(update, keyring.private(update.seal_id), ITEMS, DIM)
            digest = hashlib.sha256(body).digest()
            rows.append(
                {
                    "round_id": update.round, "device_id": device_id, "digest": digest,
                    "body": body, "received_at": 0.0,
                }
            )  # fmt: skip
        with engine.begin() as db:
            db.execute(t.update.insert(), rows)
    took = time.perf_counter() - begun
    engine.dispose()
    return len(work) / took


async def one_round(site: Site, devices: list[CheapDevice]) -> float:
    """Seconds from the first offer to the release, sealing and signing of the devices included."""
    load = LoadClients(site.port, min(AT_ONCE, len(devices)))
    begun = time.perf_counter()
    offers, _ = await load.send([device.asks(1) for device in devices])
    bodies = prepared(devices, offers)
    await load.send(
        [one.sends(round_id, body) for one, (round_id, body) in zip(devices, bodies, strict=True)]
    )
    while await load.latest() < 1:  # noqa: ASYNC110
        await asyncio.sleep(0.002)
    took = time.perf_counter() - begun
    load.close()
    return took


def measure(fresh: Any, folder: Path, updates: int, sizes: list[int]) -> dict[str, Any]:
    """Everything about one kind of database."""
    devices = make_devices(updates)
    with serving(fresh(), folder / "many", updates + 1, devices) as site:
        found, bodies = asyncio.run(throughput(site, devices))
    found["limit_per_second"] = round(limit(fresh(), folder / "many", devices, bodies), 1)
    found["accepted_over_limit"] = round(
        found["accepted_per_second"] / found["limit_per_second"], 3
    )
    found["rounds"] = []
    for size in sizes:
        devices = make_devices(size)
        with serving(fresh(), folder / f"round-{size}", size, devices) as site:
            took = asyncio.run(one_round(site, devices))
            peak = round(site.resident_mb("VmHWM"), 1)
        found["rounds"].append({"devices": size, "seconds": round(took, 3), "peak_mb": peak})
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help="10,000 updates")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    updates = 10_000 if arguments.full else 2_000
    found: dict[str, Any] = {
        "items": ITEMS, "dim": DIM, "rows": ROWS, "seed": SEED, "batch": BATCH,
        "devices_at_once": AT_ONCE, "cores": os.cpu_count(), "sqlite_synchronous": SYNCHRONOUS,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, databases(Path(folder)) as kinds:
        for name, fresh in kinds.items():
            if arguments.only in (None, name):
                own = Path(folder) / f"site-{name}"
                own.mkdir()
                found[name] = measure(fresh, own, updates, [2, 100, 1000])
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
