"""What dislikes and diversity do to lists, on data with explicit low ratings.

Ratings of 3 and more speak for an item, 1 and 2 against it. C is learnt by federated rounds from
what speaks for items alone, as in the product. For each user with enough low ratings the newest
liked item is held out as the one to be found, and a fifth of the low-rated ones as those nobody
wants to see; the rest is given. Full ranking among everything that was not given.

How much a dislike counts is chosen on validation: with the newest liked item and all that came
later left out of everything, the one before it is to be found, and C is learnt without both. The
rule: of the weights that cost no NDCG there (its mean change lies above minus a standard error) the
one with the fewest disliked neighbours in the first ten. Then that one is measured on the test.

python benchmarks/bench_feedback.py RATINGS.csv.gz [--choose] [--json PATH]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrap_core.model import CommonItems, History
from fedrap_core.plan import Scoring, SolveMethod
from fedrap_core.quantize import quantize_rows
from fedrap_core.ranking import diversified, rank
from fedrap_core.solve import user as solve_user
from fedrap_core.solve.server_step import Learning
from fedrap_core.solve.user import derive_user
from fedrap_simulation.data.interactions import make_histories
from fedrap_simulation.engine.solve_rounds import Schedule, run_rounds
from fedrap_simulation.evaluation.metrics import ndcg

Rows = npt.NDArray[np.int64]
LOW = 2.0  # ratings up to here speak against an item
LEAST = 5  # low ratings of a user who is asked
TOP, FAR = 10, 50
NEAR = 10  # items most like a disliked one: its neighbourhood
SCORING = Scoring()
WEIGHTS = (0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)  # of a dislike, in units of alpha


@dataclass(frozen=True, eq=False)
class Person:
    """One user: everything in order of time, and what is held out."""

    given: Rows  # oldest first
    liked: npt.NDArray[np.bool_]  # which of them
    target: int
    unwanted: Rows


def read(
    path: Path, seed: int, validation: bool = False, people: int | None = None
) -> tuple[int, list[Person], list[Rows]]:
    """The number of items, who is asked, and what everybody's C is learnt from."""
    with gzip.open(path, "rt") as file:
        lines = [
            (one["user"], one["item"], float(one["rating"]), float(one["timestamp"]))
            for one in csv.DictReader(file)
        ]
    row_of = {item: row for row, item in enumerate(sorted({line[1] for line in lines}))}
    rng = np.random.default_rng(seed)
    lines = [lines[place] for place in rng.permutation(len(lines))]  # ties in time by the seed
    users = defaultdict(list)
    for user, item, rating, _ in sorted(lines, key=lambda line: line[3]):
        users[user].append((row_of[item], rating))
    asked, histories = [], []
    for user in sorted(users):
        rows = np.array([row for row, _ in users[user]], dtype=np.int64)
        good = np.array([rating > LOW for _, rating in users[user]])
        if good.sum() < 2 + validation:
            continue
        if validation:  # nothing from the newest liked item on is looked at
            newest = int(np.flatnonzero(good)[-1])
            rows, good = rows[:newest], good[:newest]
        last = int(np.flatnonzero(good)[-1])
        histories.append(rows[good][:-1])
        bad = np.flatnonzero(~good)
        if len(bad) < LEAST:
            continue
        hidden = rng.choice(bad, max(1, len(bad) // 5), replace=False)
        kept = np.ones(len(rows), dtype=np.bool_)
        kept[[last, *hidden]] = False
        asked.append(Person(rows[kept], good[kept], int(rows[last]), rows[hidden]))
    if people is not None and people < len(asked):
        asked = [asked[place] for place in rng.choice(len(asked), people, replace=False)]
    return len(row_of), asked, histories


def learn(histories: list[Rows], items: int, rounds: int, dim: int, seed: int) -> CommonItems:
    """C as it is published after so many rounds of a tenth of the devices, without noise."""
    owners = np.repeat(np.arange(len(histories)), [len(one) for one in histories])
    train = make_histories(owners, np.concatenate(histories), len(histories))
    learning = Learning(
        eta=0.2, decay=0.985, memory=0.9, population=len(histories),
        density=float(train.lengths.mean()) / items, settled=rounds,
    )  # fmt: skip
    schedule = Schedule(rounds=rounds, part=0.1)
    for released in run_rounds(train, items, SolveMethod(dim=dim), learning, schedule, seed):
        last = released
    return CommonItems(1, quantize_rows(last.common))


Weigh = Callable[[Person], Iterator[tuple[int, float]]]


def only_liked(person: Person) -> Iterator[tuple[int, float]]:
    """Dislikes are not told to the device."""
    return ((int(row), 1.0) for row, good in zip(person.given, person.liked, strict=True) if good)


def all_alike(person: Person) -> Iterator[tuple[int, float]]:
    """A dislike counts like a view, as in version 0.1."""
    return ((int(row), 1.0) for row in person.given)


def with_dislikes(person: Person) -> Iterator[tuple[int, float]]:
    """A dislike speaks against its item."""
    pairs = zip(person.given, person.liked, strict=True)
    return ((int(row), 1.0 if good else -1.0) for row, good in pairs)


def measure(
    common: CommonItems, people: list[Person], weigh: Weigh, diversity: float = 0.0
) -> dict[str, list[float]]:
    """What each list is worth, one number for each person."""
    gram = common.gram()
    found: dict[str, list[float]] = defaultdict(list)
    units = common.take(np.arange(common.size))  # (m, k)
    units /= np.maximum(np.linalg.norm(units, axis=1, keepdims=True), 1e-12)
    near: dict[int, Rows] = {}
    for person in people:
        told = list(weigh(person))[::-1]
        history = History(np.array([row for row, _ in told]), np.array([much for _, much in told]))
        taste = derive_user(common, gram, history.settled(), SCORING)
        allowed = np.ones(common.size, dtype=np.bool_)
        allowed[person.given] = False
        ranked = rank(common, taste, SCORING, FAR, allowed)
        if diversity:
            units_of = common.take(ranked.rows)
            ranked = ranked.taken(diversified(units_of, ranked.scores, FAR, diversity))
        top = ranked.rows[:TOP]
        place = np.flatnonzero(ranked.rows == person.target)
        found["ndcg@10"].append(ndcg(int(place[0]), TOP) if len(place) else 0.0)
        found["unwanted@50"].append(float(np.isin(person.unwanted, ranked.rows).mean()))
        neighbours: set[int] = set()
        for row in person.given[~person.liked].tolist():
            if row not in near:
                near[row] = np.argsort(-(units @ units[row]), kind="stable")[1 : NEAR + 1]
            neighbours.update(near[row].tolist())
        found["neighbours@10"].append(float(np.mean([row in neighbours for row in top.tolist()])))
        alike = units[top] @ units[top].T  # (10, 10)
        found["alike@10"].append(float(alike[np.triu_indices(len(top), 1)].mean()))
    return found


def _error(differences: npt.NDArray[np.float64]) -> float:
    return float(np.std(differences) / len(differences) ** 0.5)


def choose(arguments: argparse.Namespace) -> dict[str, Any]:
    """The weight of a dislike that costs nothing on validation and moves lists most."""
    changes: dict[float, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for seed in arguments.seeds:
        items, people, histories = read(arguments.data, seed, True, arguments.people)
        common = learn(histories, items, arguments.rounds, arguments.dim, seed)
        base = measure(common, people, only_liked)
        for much in WEIGHTS:
            usual, solve_user.AGAINST = solve_user.AGAINST, much
            found = measure(common, people, with_dislikes)
            solve_user.AGAINST = usual
            for metric, values in found.items():
                changes[much][metric] += np.subtract(values, base[metric]).tolist()
    table = {
        much: {
            metric: (float(np.mean(one)), _error(np.array(one))) for metric, one in found.items()
        }
        for much, found in changes.items()
    }
    harmless = [much for much in WEIGHTS if sum(table[much]["ndcg@10"]) >= 0] or [WEIGHTS[0]]
    best = min(harmless, key=lambda much: table[much]["neighbours@10"][0])
    shown = {
        str(much): {metric: [round(one, 4) for one in pair] for metric, pair in found.items()}
        for much, found in table.items()
    }
    return {"weight": best, "changes": shown}


def main(argv: list[str] | None = None) -> int:
    """Print the table as JSON, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="user,item,rating,timestamp")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--against", type=float, nargs="*", help="other weights of a dislike")
    parser.add_argument("--people", type=int, help="how many are asked, at random; all unless said")
    parser.add_argument("--choose", action="store_true", help="the weight, on validation, first")
    arguments = parser.parse_args(argv)
    chosen = choose(arguments) if arguments.choose else None
    if chosen is not None:
        arguments.against = [chosen["weight"]]
    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(name: str, found: dict[str, list[float]]) -> None:
        for metric, values in found.items():
            rows[name][metric] += values

    for seed in arguments.seeds:
        items, people, histories = read(arguments.data, seed, people=arguments.people)
        common = learn(histories, items, arguments.rounds, arguments.dim, seed)
        add("dislikes not told", measure(common, people, only_liked))
        add("dislikes as views (0.1)", measure(common, people, all_alike))
        add("dislikes against", measure(common, people, with_dislikes))
        for diversity in (0.1, 0.3, 0.5) if arguments.choose or not arguments.against else ():
            found = measure(common, people, with_dislikes, diversity)
            add(f"dislikes against, diversity {diversity}", found)
        for much in arguments.against or ():
            usual, solve_user.AGAINST = solve_user.AGAINST, much
            add(f"against {much}", measure(common, people, with_dislikes))
            solve_user.AGAINST = usual
    base = rows["dislikes not told"]
    table = {
        name: {
            metric: {
                "mean": round(float(np.mean(values)), 4),
                "change": round(float(np.mean(np.subtract(values, base[metric]))), 4),
                "error": round(_error(np.subtract(values, base[metric])), 4),
            }
            for metric, values in found.items()
        }
        for name, found in rows.items()
    }
    result = {
        "data": arguments.data.parent.name, "people": len(people), "seeds": arguments.seeds,
        "rounds": arguments.rounds, "dim": arguments.dim, "chosen": chosen, "table": table,
    }  # fmt: skip
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
