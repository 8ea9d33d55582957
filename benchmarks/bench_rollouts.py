"""What a roll-out sees: how often a release that is 10 % worse is halted, and at which stage.

    python benchmarks/bench_rollouts.py [--seeds 20] [--json FILE]
    python benchmarks/bench_rollouts.py --data ml-100k [--data-dir DIRECTORY]

5,000 devices, stages of 1 % and 10 %, epsilon 1 for the questions of a device: for the two answers
that a roll-out takes, or for the ten of the default settings. Without `--data` ranks are planted: a
device has one to five interactions at a stage. With it they are those of the users of a set, one
each, under a release that `fedrap` learnt and under releases that are spoilt in four ways until
their NDCG@10 is a tenth lower: noise on C, rows of C set to zero, rows of C in each other's places,
popular items pushed down. Beside them stand releases that are as good: learnt from other seeds.

`leads` compares what could have been asked: for each spoilt release how many standard errors the
mean of a device's difference lies below zero, at 500 devices, by measure.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrap_core.privacy.accounting import noise_for
from fedrap_simulation.scenarios.staging import (
    DELTA,
    LAYOUT,
    Population,
    Ranks,
    drawn,
    ndcg10,
    planted,
    roll_out,
    shift_for,
)

DEVICES, SHARES, WORSE = 5000, (0.01, 0.1), 0.9
BUDGETS: tuple[tuple[float | None, int], ...] = ((None, 2), (1.0, 2), (1.0, 10))
Draw = Callable[[int, np.random.Generator], Population]
Floats = npt.NDArray[np.float64]


def ends(name: str, draw: Draw, seeds: int, devices: int = DEVICES) -> list[dict[str, Any]]:
    """How roll-outs of one release ended, by budget."""
    rows = []
    for epsilon, answers in BUDGETS:
        found: list[str] = []
        for seed in range(seeds):
            rng = np.random.default_rng([seed, answers, int(epsilon or 0)])
            people = draw(devices, rng)
            row = roll_out(people, SHARES, rng, epsilon=epsilon, answers=answers)
            halted = row.state.value == "halting"
            found.append(f"halted at {SHARES[row.stage]:.0%}" if halted else "promoted")
        rows.append(
            {
                "release": name, "devices": devices, "epsilon": epsilon, "answers": answers,
                "ends": {one: found.count(one) for one in sorted(set(found))},
            }
        )  # fmt: skip
    return rows


def spoilt(name: str, folder: Path | None) -> dict[str, Ranks]:
    """Ranks of each user's next item under a release, under spoilt ones and others as good."""
    from fedrap_simulation.engine.solve_scoring import derive_users
    from fedrap_simulation.evaluation.metrics import measure
    from fedrap_simulation.evaluation.runner import Evaluation, Request
    from fedrap_simulation.methods.protocol import no_progress
    from fedrap_simulation.methods.registry import make_method
    from fedrap_simulation.methods.solve import SolveFitted

    task = Evaluation(Request(name, ("fedrap",), data_dir=folder)).split(0).test
    method = make_method("fedrap", {})
    fitted = method.fit(task, 0, no_progress)
    assert isinstance(fitted, SolveFitted)
    common, scoring = fitted.tastes.common, fitted.tastes.scoring
    rng = np.random.default_rng(0)
    noise = rng.normal(size=common.shape) * np.linalg.norm(common) / np.sqrt(common.size)
    order = rng.permutation(len(common))
    popular = np.argsort(-np.bincount(task.train.items, minlength=len(common)))[:200]

    def ranks(changed: Floats) -> Ranks:
        tastes = derive_users(changed, task.train, scoring)
        return measure(SolveFitted(tastes, fitted.cost, fitted.personal), task, top=0).full

    def noisy(much: float) -> Floats:
        return np.asarray(common + 3 * much * noise)

    def zeroed(much: float) -> Floats:
        changed = common.copy()
        changed[order[: int(much * len(order))]] = 0
        return changed

    def misplaced(much: float) -> Floats:
        changed, some = common.copy(), order[: int(much * len(order))]
        changed[some] = common[np.roll(some, 1)]
        return changed

    def pushed_down(much: float) -> Floats:
        changed = common.copy()
        changed[popular] *= 1 - much
        return changed

    found = {"before": ranks(common)}
    wanted = WORSE * ndcg10(found["before"])
    for make in (noisy, zeroed, misplaced, pushed_down):
        low, high, tried = 0.0, 1.0, []
        for _ in range(9):
            middle = (low + high) / 2
            tried.append(ranks(make(middle)))
            low, high = (middle, high) if ndcg10(tried[-1]) > wanted else (low, middle)
        found[make.__name__] = min(tried, key=lambda one: abs(ndcg10(one) - wanted))
    for seed in (1, 2):
        other = method.fit(task, seed, no_progress)
        found[f"another seed {seed}"] = measure(other, task, top=0).full
    return found


def leads(ranks: Mapping[str, Ranks], devices: int = 500) -> list[dict[str, Any]]:
    """Standard errors below zero of each release, by what a device could say of one item."""
    noise = noise_for(1.0, DELTA, 2) * LAYOUT.clip / devices

    def gain(one: Ranks) -> Floats:
        return np.asarray(1.0 / np.log2(one + 2.0))

    def bits(before: Ranks, after: Ranks) -> Floats:
        return np.asarray(np.log2((before + 2.0) / (after + 2.0)))

    measures: dict[str, Callable[[Ranks, Ranks], Floats]] = {
        "difference of NDCG@10": lambda b, a: gain(a) * (a < 10) - gain(b) * (b < 10),
        "difference of NDCG": lambda b, a: gain(a) - gain(b),
        "sign": lambda b, a: np.sign(b - a).astype(np.float64),
        "bits, to 1": bits,
        "bits, to 2": lambda b, a: bits(b, a) / 2,
        "bits, to 4": lambda b, a: bits(b, a) / 4,
    }
    rows = []
    for name, measure in measures.items():
        row: dict[str, Any] = {"measure": name}
        for release, after in ranks.items():
            if release != "before":
                said = np.clip(measure(ranks["before"], after), -1.0, 1.0)
                error = np.hypot(said.std() / np.sqrt(devices), noise)
                row[release] = round(float(said.mean() / error), 1)
        rows.append(row)
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--data", help="a set that fedrap-sim knows by name")
    parser.add_argument("--data-dir", type=Path)
    given = parser.parse_args()
    result: dict[str, Any] = {
        "data": given.data or "planted", "devices": DEVICES, "shares": SHARES, "seeds": given.seeds
    }  # fmt: skip
    if given.data is None:
        shift = shift_for(WORSE)
        result["shift"] = shift
        result["ends"] = [
            *ends("a tenth worse", lambda n, rng: planted(n, shift, rng), given.seeds),
            *ends("as good", lambda n, rng: planted(n, 0.0, rng), given.seeds),
            *ends("a third worse", lambda n, rng: planted(n, shift_for(2 / 3), rng), given.seeds),
        ]
    else:
        ranks = spoilt(given.data, given.data_dir)
        result["ndcg10"] = {name: round(ndcg10(one), 4) for name, one in ranks.items()}
        result["leads"] = leads(ranks)
        result["ends"] = [
            row
            for name, after in ranks.items()
            if name != "before"
            for row in ends(name, drawn(ranks["before"], after), given.seeds)
        ]
    text = json.dumps(result, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
