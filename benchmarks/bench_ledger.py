"""What the participation ledger costs: admissions per second on SQLite and PostgreSQL.

Batches of the real store: a nonce, the decision, the charge and the place in the round each. Two
populations are run with the same number of participants, because the cost of a round must follow
its participants and not everybody who is enrolled: `growth` is the time per admission, and per
device of a release, in the large population over that in the small one. `count_for_the_page`: a
pass over all devices for the operator's page, which makes one every `count_every_seconds`.

    python benchmarks/bench_ledger.py            # 4,000 admissions, quick
    python benchmarks/bench_ledger.py --full     # 100,000 devices are admitted
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from empty_databases import databases

from fedrap_coordinator.admin.monitor import MOST_OF_TIME, SLOW_SECONDS
from fedrap_coordinator.domain.decisions import SlotRequest, SlotRule
from fedrap_coordinator.domain.records import StoredRelease
from fedrap_coordinator.domain.rounds import Round
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.engine import CONNECTIONS
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.plan import Privacy

BATCH = 64  # requests of one transaction, as under load
SEPARATION, CAP = 2, 10


def device_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


async def fill(store: SqlStore, population: int) -> None:
    """Enrol everybody at once; how they enrolled is not what is measured."""
    for start in range(0, population, 5000):
        rows = [
            {"id": device_id(number), "public_key": b"k" * 65, "enrolled_at": 0.0}
            for number in range(start, min(start + 5000, population))
        ]
        await store.transact(_insert, rows)


def _insert(db: sa.Connection, rows: list[dict[str, object]]) -> None:
    db.execute(t.device.insert(), rows)


async def one_round(store: SqlStore, step: int, devices: range) -> tuple[float, float]:
    """Seconds of admitting these devices to a round, and of the release that settles it."""
    round_ = Round(os.urandom(16), step, step, float(step))
    await store.open_round(round_, b"plan")
    rule = SlotRule(step, len(devices), Privacy(separation=SEPARATION, cap=CAP))
    admitted = 0
    begun = time.perf_counter()
    for start in range(0, len(devices), BATCH):
        asks = [SlotRequest(device_id(number), step) for number in devices[start : start + BATCH]]
        places, _ = await store.assign_slots(round_.id, asks, rule, float(step))
        admitted += sum(place.is_new for place in places)
    asked = time.perf_counter() - begun
    if admitted != len(devices):
        raise AssertionError(f"{admitted} of {len(devices)} were admitted")
    came = [
        {"round_id": round_.id, "device_id": device_id(number), "digest": b"d", "received_at": 0.0}
        for number in devices[: len(devices) * 3 // 4]  # the others had a place and did not come
    ]
    await store.transact(lambda db: db.execute(t.update.insert(), came))
    begun = time.perf_counter()
    await store.add_release(StoredRelease(step + 1, step, len(came), b"body", None), round_.id)
    return asked, time.perf_counter() - begun


async def measure(url: str, population: int, cohort: int, rounds: int) -> dict[str, float]:
    store = SqlStore(url)
    await store.open()
    try:
        await fill(store, population)
        if store._engine.dialect.name == "postgresql":
            await store.transact(lambda db: db.execute(sa.text("ANALYZE")))
        asked = settled = 0.0
        for step in range(1, rounds + 1):
            first = (step - 1) * cohort % population
            times = await one_round(store, step, range(first, first + cohort))
            asked, settled = asked + times[0], settled + times[1]
        admissions = cohort * rounds
        begun = time.perf_counter()
        rule = Privacy(separation=SEPARATION, cap=CAP)
        await store.device_states(rounds + 1, rule, 0.0)
        await store.counts()
        counted = time.perf_counter() - begun
        return {
            "population": population,
            "admissions": admissions,
            "admissions_per_second": round(admissions / asked, 1),
            "release_microseconds_per_device": round(1e6 * settled / admissions, 2),
            "count_for_the_page_ms": round(1e3 * counted, 1),
            "count_every_seconds": round(max(SLOW_SECONDS, counted / MOST_OF_TIME), 1),
        }
    finally:
        await store.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help="admit 100,000 devices")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    cohort, rounds = (10_000, 10) if arguments.full else (1_000, 2)
    small, large = (100_000, 1_000_000) if arguments.full else (2_000, 20_000)
    found: dict[str, Any] = {
        "separation": SEPARATION, "cap": CAP, "batch": BATCH, "cohort": cohort,
        "rounds": rounds, "postgresql_connections": CONNECTIONS, "cores": os.cpu_count(),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, databases(Path(folder)) as kinds:
        for name, fresh in kinds.items():
            few = asyncio.run(measure(fresh(), small, cohort, rounds))
            many = asyncio.run(measure(fresh(), large, cohort, rounds))
            speed = few["admissions_per_second"] / many["admissions_per_second"]
            release = (
                many["release_microseconds_per_device"] / few["release_microseconds_per_device"]
            )
            found[name] = {
                "small": few, "large": many,
                "growth_of_an_admission": round(speed, 2),
                "growth_of_a_release": round(release, 2),
            }  # fmt: skip
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
