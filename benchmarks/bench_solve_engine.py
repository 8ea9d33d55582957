"""Devices per second of a round of `solve` in the engine, and how that grows.

python benchmarks/bench_solve_engine.py [--full] [--data NAME --rounds N] [--json PATH]

Made-up histories of 40 items each: the number of devices grows with 10,000 items, the number of
items with 10,000 devices, k 64 and 32 as named. A round is measured as a whole: shares with their
prefixes, int8 rounding, the sum, the learning step, the published C. With --data also whole runs
on a named set, a tenth of the devices in each round, evaluation aside.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np

from fedrap_core.plan import SolveMethod
from fedrap_core.solve.server_step import Learning
from fedrap_simulation.data.interactions import Histories
from fedrap_simulation.data.load import load
from fedrap_simulation.engine.solve_rounds import Schedule, run_rounds
from fedrap_simulation.engine.solve_scoring import once
from fedrap_simulation.evaluation.splits import make_split
from fedrap_simulation.methods.solve import METHOD, SCHEDULE, Solve

SEED, LENGTH = 0, 40


def made_up(devices: int, items: int) -> Histories:
    """Histories of LENGTH items each, popular ones more often, none twice in one."""
    rng = np.random.default_rng([SEED, devices, items])
    drawn = (items * rng.random((devices, 2 * LENGTH)) ** 3).astype(np.int64)
    starts, pieces = [0], []
    for row in drawn:
        _, first = np.unique(row, return_index=True)
        mine = row[np.sort(first)][:LENGTH]
        pieces.append(mine)
        starts.append(starts[-1] + len(mine))
    return Histories(np.array(starts), np.concatenate(pieces))


def one_round(devices: int, items: int, dim: int) -> dict[str, Any]:
    """A round in which everybody takes part, after one to warm up."""
    histories = made_up(devices, items)
    learning = Learning(population=devices, density=LENGTH / items)
    steps = run_rounds(
        histories, items, SolveMethod(dim=dim), learning, Schedule(rounds=3, part=1.0), SEED
    )
    next(steps)
    next(steps)
    started = time.perf_counter()
    next(steps)
    seconds = time.perf_counter() - started
    return {
        "devices": devices,
        "items": items,
        "dim": dim,
        "seconds": seconds,
        "devices_per_second": devices / seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def whole_run(name: str, rounds: int) -> dict[str, Any]:
    """`rounds` rounds of the preset on a named set."""
    task = make_split(load(name), SEED).test
    preset = Solve(schedule=Schedule(rounds=rounds, part=SCHEDULE.part))
    train, _ = once(task.train, task.items)
    steps = preset.released(task, SEED)
    next(steps)
    started = time.perf_counter()
    for _ in steps:
        pass
    seconds = time.perf_counter() - started
    asked = SCHEDULE.part * task.users * rounds
    return {
        "data": name,
        "devices": task.users,
        "items": task.items,
        "interactions": len(train.items),
        "rounds": rounds,
        "part": SCHEDULE.part,
        "dim": METHOD.dim,
        "prefixes": METHOD.prefixes,
        "seconds": seconds,
        "devices_per_second": asked / seconds,
    }


def measure(full: bool, name: str | None, rounds: int) -> dict[str, Any]:
    """All of it; in the short form up to 10,000 devices and 100,000 items."""
    devices = (1_000, 10_000, 100_000) if full else (1_000, 10_000)
    items = (1_000, 10_000, 100_000, 1_000_000) if full else (1_000, 10_000, 100_000)
    result: dict[str, Any] = {
        "settings": {
            "seed": SEED,
            "history": LENGTH,
            "prefixes": SolveMethod().prefixes,
            "threads": numba.get_num_threads(),
        },
        "by_devices": [one_round(one, 10_000, 64) for one in devices],
        # k 32, so that a million items fit beside their sums: 256 MB each in float64
        "by_items": [one_round(10_000, one, 32) for one in items],
    }
    if name is not None:
        result["whole_run"] = whole_run(name, rounds)
    return result


def main(argv: list[str] | None = None) -> int:
    """Print the result as JSON, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--full", action="store_true", help="to 100,000 devices and 1,000,000 items"
    )
    parser.add_argument("--data", help="also rounds of the preset on this set")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    text = json.dumps(measure(arguments.full, arguments.data, arguments.rounds), indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
