"""What `split` costs in quality: the engine with its numbers, beside sealed updates.

    python benchmarks/bench_split_quality.py --data ml-100k --seeds 3 --noises 4 --json OUT

Three lines for each set, the same preset, cohorts and seeds (`fedrap-sim evaluate --epsilon 8`):

    sealed          one server, noise z
    split, z/√2     two servers, together as much noise as sealed: what rounding and steps cost
    split, z        two servers with all of the noise each: what a guarantee against each costs

Devices' shares are rounded as reports are (`engine.solve_kernels.round_reports`, which a test holds
to the numbers of `fedrap_core.split.numbers`), each server's noise to whole steps. All lines have
the same noise: what two servers draw, times 1 or 1/sqrt(2), and for `sealed` the sum of both. Luck
with noise, many times what lines differ by on small sets, falls out of their differences.
NDCG@10 in full ranking of everybody's last item; differences are paired over users, with a 95 %
interval by the bootstrap over users of the mean over seeds and noises.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from fedrap_core.plan import Split
from fedrap_core.split.numbers import SERVERS
from fedrap_simulation.data.load import load
from fedrap_simulation.engine import solve_rounds
from fedrap_simulation.engine.solve_rounds import Bands, Schedule
from fedrap_simulation.evaluation.metrics import gains, measure
from fedrap_simulation.evaluation.splits import make_split
from fedrap_simulation.methods.solve import Solve

DELTA, DRAWS = 1e-5, 2000
Gains = npt.NDArray[np.float64]


def lines(epsilon: float, split: Split, row_clip: float | None) -> dict[str, Solve]:
    """The methods that are compared."""
    sealed = Solve().private(epsilon, DELTA, banded=True)
    if row_clip is not None:
        sealed = replace(sealed, schedule=replace(sealed.schedule, row_clip=row_clip))
    full = replace(sealed.schedule, split=split)
    less = replace(full, noise=full.noise / math.sqrt(2.0))
    return {
        "sealed": sealed,
        "split, z/sqrt 2 each": replace(sealed, name="split", schedule=less),
        "split, z each": replace(sealed, name="split", schedule=full),
    }


def shared_noise(number: int) -> type[Bands]:
    """Noise from a stream of its own, in the shape that two servers draw, whoever adds it."""

    class Shared(Bands):
        def __init__(self, schedule: Schedule, items: int, dim: int, _: Any) -> None:
            super().__init__(schedule, items, dim, np.random.default_rng([number, 0x5EED]))
            if schedule.split is None:
                self._servers, self._stddev = SERVERS, self._stddev / math.sqrt(SERVERS)

    return Shared


def measure_lines(
    data: str, methods: dict[str, Solve], seeds: range, noises: int, least: int, validation: bool
) -> dict[str, Gains]:
    """NDCG@10 of each user, by seed and noise: (seeds·noises, users) for each line."""
    interactions = load(data)
    found: dict[str, list[Gains]] = {name: [] for name in methods}
    for seed, noise, name in itertools.product(seeds, range(noises), methods):
        cut = make_split(interactions, seed, least=least)
        task = cut.validation if validation else cut.test
        began, common = time.perf_counter(), np.zeros((0, 0))
        with patch.object(solve_rounds, "Bands", shared_noise(1000 * seed + noise)):
            for released in methods[name].released(task, seed):
                common = released.common
        mine = gains(measure(methods[name].view(task, common), task).full)
        found[name].append(mine)
        seconds = time.perf_counter() - began
        sys.stderr.write(
            f"{data} seed {seed} noise {noise} {name}: {mine.mean():.4f} {seconds:.0f} s\n"
        )
    return {name: np.stack(values) for name, values in found.items()}


def summary(found: dict[str, Gains]) -> list[dict[str, Any]]:
    """Means, and paired differences to the first line."""
    rng, first = np.random.default_rng(0), next(iter(found.values()))
    rows = []
    for name, values in found.items():
        apart = (values - first).mean(axis=0)  # (users,)
        drawn = [apart[rng.integers(0, len(apart), len(apart))].mean() for _ in range(DRAWS)]
        low, high = np.quantile(drawn, [0.025, 0.975])
        rows.append({
            "line": name,
            "ndcg10": round(float(values.mean()), 4),
            "each": [round(float(one), 4) for one in values.mean(axis=1)],
            "difference": round(float(apart.mean()), 4),
            "low": round(float(low), 4),
            "high": round(float(high), 4),
        })  # fmt: skip
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", action="append", required=True)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--rows", type=int, default=Split().rows, help="H")
    parser.add_argument("--peak", type=float, default=Split().peak)
    parser.add_argument("--gram-scale", type=float, default=Split().gram_scale)
    parser.add_argument("--validation", action="store_true", help="to choose settings by")
    parser.add_argument("--row-clip", type=float, help="that honest devices keep to")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--noises", type=int, default=1, help="draws of noise for each seed")
    parser.add_argument("--min-interactions", type=int, default=10)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    split = Split(rows=arguments.rows, peak=arguments.peak, gram_scale=arguments.gram_scale)
    methods = lines(arguments.epsilon, split, arguments.row_clip)
    result: dict[str, Any] = {
        "epsilon": arguments.epsilon, "delta": DELTA, "split": split, "seeds": list(seeds),
        "noises": arguments.noises,
        "settings": {name: one.settings for name, one in methods.items()}, "sets": {},
    }  # fmt: skip
    for data in arguments.data:
        found = measure_lines(
            data,
            methods,
            seeds,
            arguments.noises,
            arguments.min_interactions,
            arguments.validation,
        )
        result["sets"][data] = summary(found)
        for row in result["sets"][data]:
            sys.stderr.write(f"{data}: {row}\n")
    text = json.dumps(result, indent=2, default=str)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
