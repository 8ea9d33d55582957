"""What settings of the sequence part are worth: NDCG@10 on validation, alone and beside `solve`.

    python benchmarks/bench_sequence_settings.py --data ml-100k --targets 100 --decoys 4 --dim 64
        [--longest 200] [--rounds 100] [--part .1] [--rate .08] [--adapt .25] [--seed 0] [--solve]
        [--data-dir DIRECTORY] [--json PATH]

One run of federated rounds on the validation task of a seed; a table of the mixtures that a vote
could choose from, and with `--solve` those with `solve` in them. Minutes on ml-100k and a quarter
of an hour on ml-1m on two cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedrap_coordinator.privacy.recipe import ADAPT, solve_learning
from fedrap_simulation.evaluation.metrics import gains, measure
from fedrap_simulation.evaluation.runner import Evaluation, Request
from fedrap_simulation.methods.protocol import no_progress
from fedrap_simulation.methods.sequence import BETAS, KAPPAS, Sequence


def look(given: argparse.Namespace) -> dict[str, Any]:
    """NDCG@10 in full ranking by mixture."""
    name = "fedrap-sequence" if given.solve else "sequence"
    request = Request(given.data, (name,), data_dir=given.data_dir)
    task = Evaluation(request).split(given.seed).validation
    plain = Sequence(name=name, mixed=given.solve)
    method = replace(
        plain,
        capacity=False,
        method=msgspec.structs.replace(
            plain.method, targets=given.targets, decoys=given.decoys, dim=given.dim,
            longest=given.longest,
        ),
        learning=msgspec.structs.replace(plain.learning, rate=given.rate),
        schedule=replace(plain.schedule, rounds=given.rounds, part=given.part),
        scoring=msgspec.structs.replace(plain.scoring, adapt=given.adapt),
        solve=replace(plain.solve, learning=solve_learning(given.part, given.rounds)),
    )  # fmt: skip
    start = time.perf_counter()
    fitted = method.fit(task, given.seed, no_progress)
    found: dict[str, float] = {}
    for beta in BETAS if given.solve else (0.0,):
        for kappa in KAPPAS:
            mix = msgspec.structs.replace(fitted.scoring, solve=beta, kappa=kappa)
            ranks = measure(replace(fitted, scoring=mix), task, top=0).full
            found[f"solve {beta:g}, kappa {kappa:g}"] = round(float(np.mean(gains(ranks))), 4)
    return {
        "data": given.data,
        "seed": given.seed,
        "settings": method.settings,
        "seconds": round(time.perf_counter() - start, 1),
        "bytes_up": round(fitted.cost.bytes_up),
        "ndcg10_full": found,
    }


def main(argv: list[str] | None = None) -> int:
    """Print or write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", type=int, default=100)
    parser.add_argument("--decoys", type=int, default=4)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.08)
    parser.add_argument("--longest", type=int, default=200, help="newest items that count")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--part", type=float, default=0.1, help="share of the devices in a round")
    parser.add_argument("--adapt", type=float, default=ADAPT, help="how far queries are adapted")
    parser.add_argument("--solve", action="store_true", help="also the mixtures with `solve`")
    given = parser.parse_args(argv)
    text = json.dumps(look(given), indent=2)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
