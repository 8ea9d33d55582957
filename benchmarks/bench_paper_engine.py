"""How long a round of the paper's method takes when every device is in it.

python benchmarks/bench_paper_engine.py [--data NAME] [--rounds N] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numba
import numpy as np

from fedrap_core.plan import PaperMethod
from fedrap_simulation.data.load import load
from fedrap_simulation.engine.paper_rounds import paper_rounds
from fedrap_simulation.evaluation.splits import make_split

SEED = 0


def _seconds(name: str, rounds: int, threads: int) -> tuple[dict[str, float], dict[str, object]]:
    """Wall and processor seconds of the fastest and of the middle round, after one to warm up."""
    task = make_split(load(name), SEED).test
    method = PaperMethod()
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    steps = paper_rounds(task, method, SEED)
    next(steps)
    wall, used = [], []
    for _ in range(rounds):
        start, start_used = time.perf_counter(), time.process_time()
        next(steps)
        wall.append(time.perf_counter() - start)
        used.append(time.process_time() - start_used)
    numba.set_num_threads(before)
    settings = {
        "data": name,
        "devices": task.users,
        "items": task.items,
        "interactions": len(task.train.items),
        "dim": method.dim,
        "epochs": method.epochs,
        "negatives": method.negatives,
        "batch": method.batch,
        "rounds": rounds,
        "seed": SEED,
    }
    times = {
        "fastest": min(wall),
        "middle": float(np.median(wall)),
        "processor": min(used),
    }
    return times, settings


def measure(name: str, rounds: int) -> dict[str, object]:
    """Seconds of a round with one thread and with all; the fastest, as other jobs may run."""
    threads = numba.get_num_threads()
    alone, settings = _seconds(name, rounds, 1)
    times, _ = _seconds(name, rounds, threads)
    devices = settings["devices"]
    assert isinstance(devices, int)
    return {
        "seconds_per_round": times["fastest"],
        "seconds_per_round_middle": times["middle"],
        "processor_seconds_per_round": times["processor"],
        "seconds_per_round_one_thread": alone["fastest"],
        "devices_per_second": devices / times["fastest"],
        "settings": settings | {"threads": threads},
    }


def main(argv: list[str] | None = None) -> int:
    """Print the result as JSON, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="synthetic:users=1000,items=1500,seed=0")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    text = json.dumps(measure(arguments.data, arguments.rounds), indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
