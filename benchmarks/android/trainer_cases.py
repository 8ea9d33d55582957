"""The same least-squares problems for every trainer, in Python and in Java, and Python's own times.

python trainer_cases.py numpy|onnx SECONDS ANSWERS     prints what TrainerTimes prints in Java
"""

from __future__ import annotations

import json
import statistics
import struct
import sys
import time
from pathlib import Path

import numpy as np

from fedrap.trainers import make_trainer
from fedrap_core.model import CommonItems, History
from fedrap_core.plan import SolveMethod
from fedrap_core.quantize import quantize_rows
from fedrap_core.solve.device_share import ShareProblem, pose_round

SEED, CATALOGUE = 0, 4000
# A name, k, items of the history, and whether what came next is part of it.
CASES = (
    ("a round, k 32, 100 items and what came next", 32, 100, True),
    ("a round, k 32, 30 items and what came next", 32, 30, True),
    ("one problem, k 32, 30 items", 32, 30, False),
    ("one problem, k 64, 100 items", 64, 100, False),
    ("one problem, k 64, 1000 items", 64, 1000, False),
)


def make_cases() -> list[list[ShareProblem]]:
    """What a device solves in a round, from a release whose spectrum falls as a trained one's."""
    found = []
    for _, dim, items, ordered in CASES:
        rng = np.random.default_rng(SEED)
        rows = rng.normal(0, 0.12, size=(CATALOGUE, dim)) * np.geomspace(4, 0.25, dim)
        common = CommonItems(1, quantize_rows(rows))
        history = History(rng.permutation(CATALOGUE)[:items], np.ones(items))
        method = SolveMethod(dim=dim, order=0.5 if ordered else 0.0)
        found.append(pose_round(common, common.gram(), history, method).problems)
    return found


def write_cases(path: Path, cases: list[list[ShareProblem]]) -> None:
    """As TrainerTimes reads them: big-endian, a k of 0 at the end."""
    with path.open("wb") as file:
        for problems in cases:
            base = problems[0].base
            file.write(struct.pack(">ii", len(base), len(problems)))
            file.write(base.astype(">f8").tobytes())
            for problem in problems:
                file.write(struct.pack(">i", len(problem.rows)))
                file.write(problem.own.astype(">f8").tobytes())
                file.write(problem.weights.astype(">f8").tobytes())
        file.write(struct.pack(">i", 0))


def main() -> int:
    """Times of one of Python's trainers."""
    name, seconds, answers = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    cases = make_cases()
    start = time.perf_counter()
    trainer = make_trainer(name)
    opened = 1e3 * (time.perf_counter() - start)
    times = []
    with answers.open("w") as file:
        for problems in cases:
            start = time.perf_counter()
            shares = trainer.solve(problems)
            first = 1e6 * (time.perf_counter() - start)
            file.writelines(" ".join(map(repr, one.user.tolist())) + "\n" for one in shares)
            took: list[float] = []
            end = time.perf_counter() + seconds
            while len(took) < 5 or time.perf_counter() < end:
                start = time.perf_counter()
                trainer.solve(problems)
                took.append(1e6 * (time.perf_counter() - start))
            times.append(
                {
                    "first_us": round(first, 1),
                    "min_us": round(min(took), 2),
                    "median_us": round(statistics.median(took), 2),
                    "runs": len(took),
                }
            )
    print(json.dumps({"open_ms": opened, "cases": times}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
