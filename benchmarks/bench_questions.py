"""How sure the answers to a question are: widths of intervals, and how often they hold the truth.

    python benchmarks/bench_questions.py [--repetitions 200]

Gains are planted: a population whose own lists have a mean NDCG@10 of .14 and whose popular list
has .07, each device with one to five interactions. Every repetition draws devices from it and sums
their answers with the product's own code and noise.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from fedrap_core.privacy.accounting import noise_for
from fedrap_core.questions.answers import Layout
from fedrap_core.questions.estimates import estimates
from fedrap_core.questions.gains import gains_of

DEVICES = (200, 1000, 5000, 20_000)
EPSILONS = (None, 4.0, 1.0, 0.3)
POPULATION = 100_000
DELTA = 1e-5


def population(rng: np.random.Generator) -> np.ndarray:
    """Mean gains (own, popular) of each device: (POPULATION, 2)."""
    table = np.array([gains_of(rank)[1] for rank in range(100)])
    counts = rng.integers(1, 6, POPULATION)
    found = np.zeros((POPULATION, 2))
    for column, share in enumerate((0.30, 0.15)):  # of interactions within the first ten
        ranks = np.where(
            rng.random((POPULATION, 5)) < share, rng.integers(0, 10, (POPULATION, 5)), 99
        )
        counted = np.arange(5) < counts[:, None]
        found[:, column] = (table[ranks] * counted).sum(axis=1) / counts
    return found


def measure(
    people: np.ndarray, devices: int, epsilon: float | None, repetitions: int
) -> dict[str, Any]:
    """Half widths, and how often the truth was held."""
    rng = np.random.default_rng([devices, int(1000 * (epsilon or 0))])
    layout = Layout(1, 1, 1)
    noise = 0.0 if epsilon is None else noise_for(epsilon, DELTA, 1)
    stddev = noise * layout.clip
    truth = people[:, 0].mean(), (people[:, 1] - people[:, 0]).mean()
    widths, held, shown = np.zeros((repetitions, 2)), np.zeros((repetitions, 2)), 0
    first, difference = people[:, 0], people[:, 1] - people[:, 0]
    ones = np.full(len(people), 0.25)
    vectors = np.stack(
        [ones, first, first**2 / 4, difference, difference**2 / 4], axis=1
    )  # (POPULATION, 5), what `Layout.vector` gives
    check = layout.vector([tuple(people[0])], 0)
    assert np.allclose(vectors[0], check)
    for place in range(repetitions):
        total = vectors[rng.integers(0, len(people), devices)].sum(axis=0)
        total = total + rng.normal(0.0, stddev, layout.size)
        [[found]] = estimates(total, layout, stddev, 100)
        if found is None:
            continue
        shown += 1
        for column, one in enumerate((found.first, found.differences[0])):
            widths[place, column] = (one.high - one.low) / 2
            held[place, column] = one.low <= truth[column] <= one.high
    return {
        "devices": devices,
        "epsilon": epsilon,
        "noise": round(noise, 3),
        "shown": shown,
        "half_width": round(float(widths[:, 0].sum() / max(1, shown)), 4),
        "half_width_uplift": round(float(widths[:, 1].sum() / max(1, shown)), 4),
        "held": round(float(held[:, 0].sum() / max(1, shown)), 3),
        "held_uplift": round(float(held[:, 1].sum() / max(1, shown)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=200)
    repetitions = parser.parse_args().repetitions
    people = population(np.random.default_rng(0))
    rows = [measure(people, n, epsilon, repetitions) for n in DEVICES for epsilon in EPSILONS]
    truth = {"own": float(people[:, 0].mean()), "popular": float(people[:, 1].mean())}
    print(json.dumps({"repetitions": repetitions, "truth": truth, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
