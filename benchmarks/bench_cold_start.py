"""How good recommendations are after 1, 2, 5, … interactions, beside popularity.

C is learnt by federated rounds of the core over a part of the users. Each held-out user then
starts with nothing: only the n interactions before the held-out one are given, u is solved from
them, and the held-out item is ranked among all items that the user had not seen, the same ones for
every n. `--leave-out given` leaves out only what the device was told. No round, no training.

python benchmarks/bench_cold_start.py [--data RATINGS.csv.gz] [--json PATH]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedrap_core.model import CommonItems, History
from fedrap_core.plan import Scoring, SolveMethod
from fedrap_core.quantize import quantize_rows
from fedrap_core.ranking import rank
from fedrap_core.solve.device_share import compute_share, pose_share
from fedrap_core.solve.server_step import Learner, Learning, RoundSum, learn_step
from fedrap_core.solve.user import UserRepresentation, derive_user
from fedrap_core.sparse import packed_size
from fedrap_simulation.data.synthetic import Shape, make_population
from fedrap_simulation.evaluation.metrics import hit, ndcg, rank_of

Rows = npt.NDArray[np.int64]
COUNTS = (1, 2, 5, 10, 20, 50)
SEEDS = (0, 1, 2, 3, 4)
SCORING = Scoring()


@dataclass(frozen=True)
class Settings:
    """What a run is made of; written into the JSON."""

    dim: int = 32
    rounds: int = 12
    learners: float = 0.8  # share of the users that C is learnt from
    top: int = 10
    eta: float = 0.5
    leave_out: str = "seen"


@dataclass(frozen=True, eq=False)
class Data:
    """Whole histories, oldest first, the last item the one to be found."""

    name: str
    items: int
    users: list[Rows]


def read_ratings(path: Path, seed: int) -> Data:
    """user,item,rating,timestamp of a CSV; equal times in an order drawn by the seed."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        table = csv.DictReader(file)
        lines = [(one["user"], one["item"], float(one["timestamp"])) for one in table]
    order = np.random.default_rng(seed).permutation(len(lines))
    shuffled = sorted((lines[place] for place in order), key=lambda line: line[2])
    row_of: dict[str, int] = {item: row for row, item in enumerate(sorted({x[1] for x in lines}))}
    users: dict[str, dict[int, None]] = {}
    for user, item, _ in shuffled:
        users.setdefault(user, {})[row_of[item]] = None  # an item counts once, at its first time
    histories = [np.array(list(users[user]), dtype=np.int64) for user in sorted(users)]
    return Data(path.parent.name, len(row_of), [one for one in histories if len(one) > 1])


def make_synthetic(seed: int) -> Data:
    """People who browse, with planted tastes; long enough for fifty interactions."""
    shape = Shape(users=400, items=600, tastes=12, shortest=20, longest=80)
    made = make_population(shape, seed)
    users = [np.append(a, b) for a, b in zip(made.histories, made.held_out, strict=True)]
    return Data("synthetic", shape.items, users)


def learn(data: Data, learners: Sequence[int], settings: Settings, seed: int) -> CommonItems:
    """C after rounds in which everybody takes part, without noise, int8 as it is published."""
    histories = [data.users[user][:-1] for user in learners]
    density = float(np.mean([len(one) for one in histories])) / data.items
    learning = Learning(eta=settings.eta, population=len(learners), density=density)
    method = SolveMethod(dim=settings.dim)
    rng = np.random.default_rng(seed)
    start = rng.normal(0.0, learning.spread, (data.items, settings.dim))
    common = CommonItems(1, quantize_rows(start))
    state = Learner(common.items.to_float().astype(np.float64))
    for step in range(1, settings.rounds + 1):
        gram = common.gram()
        values = np.zeros((data.items, settings.dim))
        triangle = np.zeros(packed_size(settings.dim))
        for rows in histories:
            history = History(rows, np.ones(len(rows)))
            share = compute_share(pose_share(common, gram, history, method)).update
            values[share.rows] += share.values
            triangle += share.packed_gram
        total = RoundSum(np.arange(data.items), values, triangle, len(histories))
        learnt = learn_step(state, total, method, learning, step)
        common = CommonItems(step + 1, quantize_rows(learnt.common))
        state = Learner(common.items.to_float().astype(np.float64), learnt.gram)
    return common


def place_of(
    common: CommonItems, taste: UserRepresentation, hidden: Rows, target: int, top: int
) -> int:
    """The held-out item's place in what a device would show, without the `hidden` items."""
    allowed = np.ones(common.size, dtype=np.bool_)
    allowed[hidden] = False
    shown = rank(common, taste, SCORING, top, allowed).rows
    found = np.flatnonzero(shown == target)
    return int(found[0]) if len(found) else common.size


def place_by_popularity(counts: npt.NDArray[np.float64], hidden: Rows, target: int) -> int:
    """Its place among the most popular items without the `hidden`; ties count against it."""
    scores = counts.copy()
    scores[hidden] = -np.inf
    return rank_of(scores, target)


def run_seed(data: Data, settings: Settings, seed: int) -> dict[int, list[tuple[int, int]]]:
    """For each n the places (ours, popularity) of every held-out user."""
    order = np.random.default_rng(seed).permutation(len(data.users))
    split = int(settings.learners * len(order))
    learners, held_out = [int(one) for one in order[:split]], order[split:]
    common = learn(data, learners, settings, seed)
    counts = np.zeros(data.items)
    for user in learners:
        counts[data.users[user][:-1]] += 1
    gram = common.gram()
    places: dict[int, list[tuple[int, int]]] = {n: [] for n in COUNTS}
    for user in held_out:
        seen, target = data.users[user][:-1], int(data.users[user][-1])
        for n in COUNTS:
            given = seen[-n:]
            history = History(given[::-1].copy(), np.ones(len(given)))  # newest first
            taste = derive_user(common, gram, history, SCORING)
            hidden = seen if settings.leave_out == "seen" else given
            ours = place_of(common, taste, hidden, target, settings.top)
            places[n].append((ours, place_by_popularity(counts, hidden, target)))
    return places


def summary(places: list[tuple[int, int]], top: int) -> dict[str, float]:
    """Means over users and seeds, and the standard error of HR over them."""
    hits = np.array([hit(ours, top) for ours, _ in places])
    return {
        "users": len(places),
        f"hr{top}": float(hits.mean()),
        f"hr{top}_error": float(hits.std() / np.sqrt(len(hits))),
        f"ndcg{top}": float(np.mean([ndcg(ours, top) for ours, _ in places])),
        f"hr{top}_popularity": float(np.mean([hit(pop, top) for _, pop in places])),
        f"ndcg{top}_popularity": float(np.mean([ndcg(pop, top) for _, pop in places])),
    }


def main(argv: list[str] | None = None) -> int:
    """Print the curve as JSON, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="user,item,rating,timestamp; default: made up")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=Settings.rounds)
    parser.add_argument("--dim", type=int, default=Settings.dim)
    parser.add_argument("--leave-out", choices=["seen", "given"], default=Settings.leave_out)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    arguments = parser.parse_args(argv)
    settings = Settings(dim=arguments.dim, rounds=arguments.rounds, leave_out=arguments.leave_out)
    pooled: dict[int, list[tuple[int, int]]] = {n: [] for n in COUNTS}
    for seed in arguments.seeds:
        path = arguments.data
        data = make_synthetic(seed) if path is None else read_ratings(path, seed)
        for n, places in run_seed(data, settings, seed).items():
            pooled[n] += places
    result = {
        "data": data.name,
        "items": data.items,
        "users": len(data.users),
        "seeds": arguments.seeds,
        "settings": asdict(settings),
        "protocol": "users apart; last item held out; the n interactions before it are given; "
        "full ranking without the items that settings.leave_out names; ties in time drawn by "
        "seed; ties in score count against popularity, and by row number for ours",
        "curve": {str(n): summary(places, settings.top) for n, places in pooled.items()},
    }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
