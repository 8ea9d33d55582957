"""A field of devices over HTTP with both servers of `split`: does every sum hold, and how long?

    python benchmarks/bench_split_field.py [--devices 1000] [--rounds 2] [--json OUT]

The coordinator and the helper are processes of their own; devices are clients in this one that
make whole reports (one row in three of the catalogue's, at most H) and send them over HTTP. The
sum that each release was learnt from is recomputed from the devices' own whole numbers and has to
be the same to the last one. There is no noise, so that it can be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedrap_core.plan import Plan, SolveMethod
from fedrap_core.sparse import RowUpdate, pack_gram
from fedrap_core.split.layout import assign_slots
from fedrap_core.split.numbers import Terms, to_numbers, uniform_count
from fedrap_core.split.report import make_report
from fedrap_core.wire.codec import decode_value, encode
from fedrap_core.wire.messages import Offer
from fedrap_core.wire.shares import seal_report
from fedrap_simulation.scenarios.helper_process import helper_process
from testkit.crash_host import Site, start
from testkit.crash_walk import prepare, settings_for, two_servers, until_released
from testkit.load_client import Connection, PairDevice

DIM, ROWS, OPEN = 16, 20, 32


@dataclass
class Played:
    """What devices put into each step, in whole numbers, and what it took."""

    items: int
    sums: dict[int, dict[str, Any]] = field(default_factory=dict)
    without_slot: int = 0  # rows that cuckoo hashing had no place for
    report_seconds: float = 0.0
    bytes: int = 0


def report_of(device: PairDevice, offer: Offer, played: Played) -> bytes:
    """A whole report of made-up numbers, which are added to the expected sum."""
    plan = decode_value(Plan, offer.plan)
    terms = Terms(offer.round, plan, played.items)
    rng = np.random.default_rng([device.number, offer.step])
    rows = np.sort(rng.choice(played.items, ROWS, replace=False))
    user = rng.normal(0.0, 0.3, DIM)
    update = RowUpdate(rows, rng.normal(0.0, 0.3, (ROWS, DIM)), pack_gram(np.outer(user, user)))
    began = time.process_time()
    numbers = to_numbers(update, terms, rng.random(uniform_count(terms)))
    made = make_report(terms, numbers, os.urandom(32))
    assert offer.helper is not None
    body = encode(seal_report(offer, offer.helper, device.id, made))  # type: ignore[arg-type]
    played.report_seconds += time.process_time() - began
    played.bytes += len(body)
    mine = played.sums.setdefault(offer.step, {
        "rows": np.zeros((played.items, DIM), dtype=np.int64),
        "gram": np.zeros(terms.whole, dtype=np.int64), "devices": 0, "step": terms.step,
        "scale": plan.split.gram_scale,  # type: ignore[union-attr]
    })  # fmt: skip
    layout = terms.shape.layout
    longest = np.argsort(-np.sum(numbers.values**2, axis=1), kind="stable")
    slots, _ = layout.places(numbers.rows[longest])
    placed = np.array(assign_slots(slots.T.tolist(), layout.slots)) >= 0
    played.without_slot += int((~placed).sum())  # a device leaves such a row out
    kept = longest[placed]
    mine["rows"][numbers.rows[kept]] += numbers.values[kept]
    mine["gram"] += numbers.whole
    mine["devices"] += 1
    return body


async def take_part(device: PairDevice, port: int, step: int, played: Played) -> None:
    """One round of one device."""
    connection = Connection("127.0.0.1", port)
    try:
        while True:
            reply = await connection.send(device.asks(step, wait=2.0))
            if reply.status == 200:
                break
            await asyncio.sleep(0.05)
        offer = device.offer_in(reply.body)
        body = report_of(device, offer, played)
        reply = await connection.send(device.sends(offer.round, body))
        if reply.status != 200:
            raise AssertionError(f"a report was refused: {reply.body!r}")
    finally:
        connection.close()


def differences(folder: Path, played: Played) -> dict[int, float]:
    """The largest difference of each step's sum to that of the devices, in steps of Δ."""
    found = {}
    for step, mine in played.sums.items():
        made = np.load(folder / f"{step}.npz")
        rows = np.zeros((played.items, DIM))
        rows[made["rows"]] = made["values"]
        apart = np.abs(rows / mine["step"] - mine["rows"]).max()
        gram = np.abs(made["gram"] * mine["scale"] / mine["step"] - mine["gram"]).max()
        if int(made["devices"]) != mine["devices"]:
            raise AssertionError(f"step {step} counted {made['devices']} of {mine['devices']}")
        found[step] = float(max(apart, gram))
    return found


def peak_memory(pid: int | None) -> int:
    """The most that a process had at once, in MB; 0 where the system does not say."""
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) // 1000 for line in lines if line.startswith("VmHWM"))


async def play(devices: int, rounds: int, folder: Path) -> dict[str, Any]:
    """All rounds, and what became of them."""
    with helper_process(folder / "helper", least=20) as helper:
        url = f"sqlite:///{folder / 'c.sqlite'}"
        settings = two_servers(settings_for(url, devices, rounds), helper.server())
        change = msgspec.structs.replace
        assert settings.split is not None
        settings = change(
            settings, method=SolveMethod(dim=DIM), split=change(settings.split, rows=ROWS)
        )
        site = Site(settings, folder)
        site.whole.mkdir()
        known = prepare(url, devices, split=True)
        played = Played(items=devices + 2)
        running = start(site)
        assert running is not None
        try:
            seconds = []
            for step in range(1, rounds + 1):
                began = time.perf_counter()
                turn = asyncio.Semaphore(OPEN)

                async def one(device: Any, step: int = step, turn: Any = turn) -> None:
                    async with turn:
                        await take_part(device, running.port, step, played)

                await asyncio.gather(*(one(device) for device in known))
                collected = time.perf_counter() - began
                await until_released(step, lambda: running)
                seconds.append({"collected": round(collected, 1),
                                "released": round(time.perf_counter() - began, 1)})  # fmt: skip
            memory = {
                name: peak_memory(one.process.pid)
                for name, one in (("leader", running), ("helper", helper))
                if one.process is not None
            }
        finally:
            running.kill()
        apart = differences(site.whole, played)
    return {
        "devices": devices, "rounds": rounds, "items": played.items, "k": DIM, "rows": ROWS,
        "seconds": seconds, "bytes_per_report": played.bytes // (devices * rounds),
        "device_ms": round(1e3 * played.report_seconds / (devices * rounds), 1),
        "memory_mb": memory, "rows_without_slot": played.without_slot,
        "largest_difference_in_steps": apart,
        "every_sum_holds": max(apart.values()) < 1e-6,
    }  # fmt: skip


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(play(arguments.devices, arguments.rounds, Path(folder)))
    print(json.dumps(found, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if not found["every_sum_holds"]:
        raise SystemExit("a sum is not that of its devices")


if __name__ == "__main__":
    main()
