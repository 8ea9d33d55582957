"""How many device rounds a second the field plays, how that grows, and what an idle device weighs.

    python benchmarks/bench_field.py --json OUT          1k and 4k devices on the virtual clock
    python benchmarks/bench_field.py --full --json OUT   up to 100k, and 10k at once over real HTTP

Every run checks its invariants while it goes; a broken one ends it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fedrap.background.scheduler import Pace
from fedrap_simulation.scenarios.behaviours import DeviceTemper, Kind
from fedrap_simulation.scenarios.compute import LocalEngine
from fedrap_simulation.scenarios.device import SimulatedDevice
from fedrap_simulation.scenarios.device_memory import DeviceMemory, SharedReleases
from fedrap_simulation.scenarios.invariants import InvariantChecker
from fedrap_simulation.scenarios.network import InProcess, SimulatedTransport, Trouble
from fedrap_simulation.scenarios.population import load_population
from fedrap_simulation.scenarios.runner import run_scenario
from fedrap_simulation.scenarios.scenario import Drop, Network, load_scenario

SEED = 0
ITEMS = 300


def keys(devices: int, rounds: int) -> dict[str, Any]:
    """A population that is all there within a day, each device with one or two rounds."""
    cohort = max(20, devices // 10)
    return {
        "seed": SEED,
        "days": 2,
        "population.data": f"synthetic:users={devices},items={ITEMS}",
        "population.arrive_days": 0.2,
        "looks.every_hours": 24,
        "looks.users": 500,
        "looks.central": False,
        "coordinator.method.prefixes": 10,
        "coordinator.round.min_updates": cohort // 2,
        "coordinator.round.max_updates": cohort,
        "coordinator.round.min_seconds": 600,
        "coordinator.round.total": rounds,
    }


def virtual(devices: int, rounds: int) -> dict[str, Any]:
    """A run in this process on the virtual clock."""
    scenario = load_scenario("quiet", keys(devices, rounds))
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_scenario(scenario, LocalEngine(), Path(folder), _on_progress)
    updates = sum(one.updates for one in outcome.rounds)
    return {
        "clock": "virtual",
        "devices": outcome.devices,
        "rounds": len(outcome.released),
        "device_rounds": updates,
        "seconds": round(outcome.seconds, 2),
        "device_rounds_per_second": round(updates / outcome.seconds, 1),
        "peak_mb": round(outcome.peak_mb, 1),
        "checked": outcome.checked,
    }


def over_http(devices: int, seconds: float) -> dict[str, Any]:
    """Everybody at once against a real process over real sockets."""
    changes = keys(devices, 1000) | {
        "days": seconds / 86_400,
        "population.arrive_days": 10 / 86_400,
        "looks.every_hours": seconds / 3600 / 2,
        "coordinator.round.min_seconds": 1,
        "coordinator.round.max_updates": devices // 10,
        "coordinator.round.min_updates": devices // 20,
        # Devices and coordinator share two cores here: a thousand shares take their time.
        "coordinator.round.max_seconds": seconds,
        "faults.kills": 0,
        "network.loss": 0.0,
        "phones.period": seconds,
    }
    scenario = load_scenario("coordinator-crashes", changes)
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_scenario(scenario, LocalEngine(), Path(folder), _on_progress)
    updates = sum(one.updates for one in outcome.rounds)
    return {
        "clock": "wall",
        "devices": outcome.devices,
        "took_part": outcome.took_part,
        "rounds": len(outcome.released),
        "device_rounds": updates,
        "seconds": round(outcome.seconds, 2),
        "device_rounds_per_second": round(updates / outcome.seconds, 1),
        "reports": outcome.reports,
        "checked": outcome.checked,
    }


def idle_bytes(devices: int = 20_000) -> float:
    """Resident bytes of one device that waits for its next try."""
    scenario = load_scenario("quiet", keys(1000, 1))
    population = load_population(scenario)
    releases, watch, wire = (
        SharedReleases(population.items),
        InvariantChecker(scenario.coordinator),
        InProcess(),
    )
    gc.collect()
    before = _resident()
    kept = []
    for number in range(devices):
        rng = np.random.default_rng([SEED, number])
        state = DeviceMemory(number % len(population), population, releases, lambda: 0.0, 0.0)
        temper = DeviceTemper(
            Kind.HONEST, 1.0, Drop(), rng, 0, LocalEngine(), (SEED, number), watch
        )
        transport = SimulatedTransport(wire, Network(), rng, Trouble())
        kept.append(
            SimulatedDevice(number, state, transport, temper, [f"token-{number}"], Pace(), 1e9)
        )
    gc.collect()
    return (_resident() - before) / len(kept)


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _on_progress(done: float, words: str) -> None:
    sys.stderr.write(f"{done:4.0%} {words}\n")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--full", action="store_true", help="100k devices, and 10k over HTTP")
    arguments = parser.parse_args()
    sizes = (1_000, 10_000, 100_000) if arguments.full else (250, 1_000)
    result: dict[str, Any] = {
        "seed": SEED,
        "items": ITEMS,
        "method": "solve, k 16, 10 prefixes",
        "idle_device_bytes": round(idle_bytes()),
        "virtual": [virtual(devices, 6) for devices in sizes],
    }
    if arguments.full:
        result["http"] = over_http(10_000, 300.0)
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
