"""The demo many times over, each with another seed, population and noise; its claims must hold.

python benchmarks/soak.py [--runs 10]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from fedrap_simulation.data.synthetic import Shape
from fedrap_simulation.scenarios.demo import DemoPlan, run_demo


def main(argv: list[str] | None = None) -> int:
    """One JSON line a run; 1 when a claim fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args(argv)
    failed = 0
    for seed in range(arguments.runs):
        noise = (0.0, 0.1)[seed % 2]
        plan = DemoPlan(shape=Shape(users=100 + 20 * seed), rounds=40, noise=noise, seed=seed)
        with tempfile.TemporaryDirectory(prefix="fedrap-soak-") as folder:
            result = asyncio.run(run_demo(plan, Path(folder), lambda line: None))
        holds = (
            result.hr10 > result.hr10_popularity
            and result.hr10 > result.hr10_frozen
            and result.participations == plan.rounds // 2
        )
        failed += not holds
        line = {
            "seed": seed, "devices": result.devices, "rounds": result.rounds, "noise": noise,
            "hr10": result.hr10, "hr10_popularity": result.hr10_popularity,
            "hr10_frozen": result.hr10_frozen, "holds": holds,
        }  # fmt: skip
        print(json.dumps(line), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
