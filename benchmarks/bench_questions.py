"""How sure the answers to a question are: widths of intervals, how often they hold the truth, and
what a roll-out to a share of the devices could see.

    python benchmarks/bench_questions.py [--repetitions 200] [--data ml-100k [--data-dir DIRECTORY]]
                                         [--json FILE] [--plot FILE.svg]

Without `--data` gains are planted: own lists have a mean NDCG@10 of .14 and the popular list .07,
each device with one to five interactions. With it they are those of all users of a set: `fedrap`
learnt by federated rounds and popularity, the item of the test asked once for each user. Every
repetition draws devices from that population and sums their answers with the product's own layout,
noise and estimates.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrap_core.privacy.accounting import noise_for
from fedrap_core.questions.answers import ROUGH, Layout
from fedrap_core.questions.estimates import estimates
from fedrap_core.questions.gains import gains_of

Gains = npt.NDArray[np.float64]
DEVICES = (200, 1000, 5000, 20_000)
EPSILONS = (None, 4.0, 1.0, 0.3)
SHARES = (0.01, 0.1, 0.5)
POPULATION = 100_000
DELTA = 1e-5


def planted(rng: np.random.Generator) -> Gains:
    """Mean gains (own, popular) of each device: (POPULATION, 2)."""
    table = np.array([gains_of(rank)[1] for rank in range(100)])
    counts = rng.integers(1, 6, POPULATION)
    found = np.zeros((POPULATION, 2))
    for column, share in enumerate((0.30, 0.15)):  # of interactions within the first ten
        hit = rng.random((POPULATION, 5)) < share
        ranks = np.where(hit, rng.integers(0, 10, (POPULATION, 5)), 99)
        counted = np.arange(5) < counts[:, None]
        found[:, column] = (table[ranks] * counted).sum(axis=1) / counts
    return found


def of_data(name: str, folder: Path | None) -> Gains:
    """Gains (own, popular) of each user of a data set: (U, 2)."""
    from fedrap_simulation.evaluation.metrics import gains, measure
    from fedrap_simulation.evaluation.runner import Evaluation, Request
    from fedrap_simulation.methods.protocol import no_progress
    from fedrap_simulation.methods.registry import make_method

    task = Evaluation(Request(name, ("fedrap", "popularity"), data_dir=folder)).split(0).test
    columns = []
    for method in ("fedrap", "popularity"):
        fitted = make_method(method, {}).fit(task, 0, no_progress)
        columns.append(gains(measure(fitted, task, top=0).full))
    return np.stack(columns, axis=1)


def rows_of(people: Gains) -> Gains:
    """Every device's answer, as `Layout.vector` lays it out: (U, 5)."""
    first, difference = people[:, 0], people[:, 1] - people[:, 0]
    columns = [np.full(len(people), ROUGH), first, ROUGH * first**2, difference]
    made = np.stack([*columns, ROUGH * difference**2], axis=1)
    assert np.allclose(made[0], Layout(1, 1, 1).vector([tuple(people[0])], 0))
    return made


def held(people: Gains, devices: int, epsilon: float | None, repetitions: int) -> dict[str, Any]:
    """Half widths, and how often the truth was held."""
    rng = np.random.default_rng([devices, int(1000 * (epsilon or 0))])
    layout, rows = Layout(1, 1, 1), rows_of(people)
    noise = 0.0 if epsilon is None else noise_for(epsilon, DELTA, 1)
    truth = people[:, 0].mean(), (people[:, 1] - people[:, 0]).mean()
    widths, inside = [], []
    for _ in range(repetitions):
        total = rows[rng.integers(0, len(rows), devices)].sum(axis=0)
        total = total + rng.normal(0.0, noise * layout.clip, layout.size)
        [[found]] = estimates(total, layout, noise * layout.clip, 100)
        if found is None:
            continue
        both = (found.first, found.differences[0])
        widths.append([(one.high - one.low) / 2 for one in both])
        inside.append([one.low <= true <= one.high for one, true in zip(both, truth, strict=True)])
    (width, uplift), (mean, difference) = np.mean(widths, axis=0), np.mean(inside, axis=0)
    return {
        "devices": devices, "epsilon": epsilon, "noise": round(noise, 3), "shown": len(widths),
        "half_width": round(float(width), 4), "half_width_uplift": round(float(uplift), 4),
        "held": round(float(mean), 3), "held_uplift": round(float(difference), 3),
    }  # fmt: skip


def seen(people: Gains, devices: int, share: float, repetitions: int) -> dict[str, Any]:
    """How often a release that is 10 % worse, on a share of the devices, is seen to be worse.

    At epsilon 1 for the answer: the new arm's interval of the difference lies below zero. And how
    often one that is as good as the old is taken for worse.
    """
    rng = np.random.default_rng([devices, int(1000 * share)])
    layout = Layout(2, 1, 1)
    stddev = noise_for(1.0, DELTA, 1) * layout.clip
    worse = people.copy()
    worse[:, 0] *= 0.9
    arms = {"worse": rows_of(worse), "as_good": rows_of(people)}
    old, new = round(devices * (1 - share)), round(devices * share)
    found = dict.fromkeys(arms, 0)
    for name, rows in arms.items():
        for _ in range(repetitions):
            total = np.concatenate(
                [
                    rows_of(people)[rng.integers(0, len(people), old)].sum(axis=0),
                    rows[rng.integers(0, len(rows), new)].sum(axis=0),
                ]
            )
            total = total + rng.normal(0.0, stddev, layout.size)
            [[before], [after]] = estimates(total, layout, stddev, 20)
            if before is None or after is None:
                continue
            error = np.hypot(before.first.error, after.first.error)
            found[name] += after.first.value - before.first.value + 1.96 * error < 0
    return {
        "devices": devices,
        "share": share,
        **{name: count / repetitions for name, count in found.items()},
    }


def plot(rows: list[dict[str, Any]]) -> str:
    """Half widths of the mean's interval over devices, by epsilon; both axes in logarithms."""
    wide, high, left, foot = 620, 340, 60, 40
    widths = [row["half_width"] for row in rows]
    low, top = np.log10(min(widths)) - 0.05, np.log10(max(widths)) + 0.05
    few, many = np.log10(min(DEVICES)), np.log10(max(DEVICES))

    def place(devices: float, width: float) -> tuple[float, float]:
        right = left + (wide - left - 110) * (np.log10(devices) - few) / (many - few)
        return float(right), float((high - foot) * (top - np.log10(width)) / (top - low))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for width in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2):
        if low <= np.log10(width) <= top:
            _, y = place(DEVICES[0], width)
            parts.append(f'<path d="M{left},{y:.1f} H{wide - 110}" stroke="#ddd"/>')
            parts.append(
                f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">±{width:g}</text>'
            )
    for devices in DEVICES:
        x, _ = place(devices, widths[0])
        parts.append(f'<text x="{x:.1f}" y="{high - 18}" text-anchor="middle">{devices:,}</text>')
    parts.append(
        f'<text x="{(left + wide - 110) / 2}" y="{high - 3}" text-anchor="middle">devices</text>'
    )
    for epsilon, colour in zip(EPSILONS, ("#555", "#1a7f5a", "#1f5fbf", "#b5471b"), strict=True):
        line = [place(r["devices"], r["half_width"]) for r in rows if r["epsilon"] == epsilon]
        path = " L".join(f"{x:.1f},{y:.1f}" for x, y in line)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in line]
    for number, (epsilon, colour) in enumerate(
        zip(EPSILONS, ("#555", "#1a7f5a", "#1f5fbf", "#b5471b"), strict=True)
    ):
        name = "no noise" if epsilon is None else f"epsilon {epsilon:g}"
        parts.append(f'<text x="{wide - 100}" y="{30 + 18 * number}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="an SVG of the widths, to write")
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--data", help="a set that fedrap-sim knows by name")
    parser.add_argument("--data-dir", type=Path)
    given = parser.parse_args()
    people = planted(np.random.default_rng(0))
    if given.data is not None:
        people = of_data(given.data, given.data_dir)
    many = given.repetitions
    result: dict[str, Any] = {
        "data": given.data or "planted",
        "repetitions": many,
        "truth": {"own": float(people[:, 0].mean()), "popular": float(people[:, 1].mean())},
        "intervals": [held(people, n, epsilon, many) for n in DEVICES for epsilon in EPSILONS],
        "roll_out": [seen(people, n, share, many) for n in (5000, 20_000) for share in SHARES],
    }
    if given.plot is not None:
        given.plot.write_text(plot(result["intervals"]), encoding="utf-8")
    text = json.dumps(result, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
