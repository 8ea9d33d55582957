"""How soon items are found that came when all others had settled.

    python benchmarks/bench_new_items.py --json OUT                    a small planted population
    python benchmarks/bench_new_items.py --data ml-100k --seeds 3 --json OUT
    … --share 0.2                                                      another share of new items

A tenth of the items, drawn, is unknown for the first 100 rounds: nobody has them in a history. Then
they come, with rows drawn as all rows were at the start, and learning goes on, a tenth of the
devices in each round. NDCG@10 in full ranking of the questions whose answer is a new item, and of
the others, on the test of leave-last-out. In one run, with the same devices in the same rounds:
`by age` (what the coordinator does: each row at its own place in the schedule, zeros hide numbers),
`one age` (new rows at the small steps of the old ones), `forgetful zeros` (by age; zeros hide
nothing), and `all along` (nothing was ever new). Settings are those of `fedrap`, none was chosen.

And after it as many items are retired: questions about the others, ranked among those, with C'C of
all items and with what devices do, C'C without the retired ones.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedrap_core.solve.server_step import Learner, learn_step
from fedrap_simulation.data.interactions import Histories, Rows, make_histories
from fedrap_simulation.data.load import load
from fedrap_simulation.engine.compiled import Matrix
from fedrap_simulation.engine.solve_rounds import Schedule, cohorts, publish_rows, sum_shares
from fedrap_simulation.engine.solve_scoring import derive_users
from fedrap_simulation.evaluation.metrics import gains, measure
from fedrap_simulation.evaluation.splits import make_split
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import Cost
from fedrap_simulation.methods.sequence import Ready
from fedrap_simulation.methods.solve import LEARNING, METHOD, SCORING, Solve, SolveFitted

LINES = ("by age", "one age", "forgetful zeros", "all along")
AFTER = (0, 5, 10, 20, 40)  # rounds with the new items


def without(histories: Histories, hidden: Rows) -> Histories:
    """What histories were before these items came."""
    kept = ~np.isin(histories.items, hidden)
    return make_histories(histories.owners[kept], histories.items[kept], len(histories))


def quality(task: Task, common: Matrix, new: Rows) -> dict[str, float]:
    """NDCG@10 of questions about new items and about the others."""
    ranks = measure(Solve().view(task, common), task, top=0).full
    found, asked = gains(ranks), np.isin(task.targets[task.asked_users], new)
    return {"new": float(found[asked].mean()), "others": float(found[~asked].mean())}


def play(task: Task, line: str, new: Rows, schedule: Schedule, seed: int) -> list[dict[str, Any]]:
    """One line, asked at each of AFTER."""
    rng = np.random.default_rng([seed, 0xA6E])
    first = rng.normal(0.0, LEARNING.spread, (task.items, METHOD.dim))
    people = cohorts(task.users, replace(schedule, rounds=schedule.rounds + AFTER[-1]), rng)
    known = without(task.train, new) if line != "all along" else task.train
    learning = msgspec.structs.replace(
        LEARNING,
        population=task.users,
        density=float(task.train.lengths.mean()) / task.items,
        settled=schedule.rounds,
    )
    old = np.setdiff1d(np.arange(task.items), new)
    state = Learner(publish_rows(first, schedule))
    if line != "all along":  # the rows are not there yet
        state = Learner(np.where(np.isin(np.arange(task.items), old)[:, None], state.common, 0.0))
    found = []
    for step, users in enumerate(people):
        if step == schedule.rounds and line != "all along":
            common = state.common.copy()
            common[new] = publish_rows(first, schedule)[new]
            born = np.zeros(task.items, dtype=np.int64)
            born[new] = step
            state = replace(state, common=common, born=None if line == "one age" else born)
            known = task.train
        if step - schedule.rounds in AFTER:
            at = {"line": line, "seed": seed, "after": step - schedule.rounds}
            found.append(at | quality(task, state.common, new))
        total = sum_shares(known.some(users), state.common, METHOD, int8_seed=step)
        learnt = learn_step(state, total, METHOD, learning, step)
        hidden = None if line == "forgetful zeros" else learnt.hidden
        state = replace(learnt, common=publish_rows(learnt.common, schedule), hidden=hidden)
    last = {"line": line, "seed": seed, "after": AFTER[-1]} | quality(task, state.common, new)
    if line == "all along":
        last |= retire(task, state.common, new)
    return [*found, last]


def retire(task: Task, common: Matrix, gone: Rows) -> dict[str, float]:
    """NDCG@10 of questions about what is left, by what C'C has."""
    asked = ~np.isin(task.targets[task.asked_users], gone)
    found = {}
    for what, left_out in (("C'C of all", None), ("without retired", gone)):
        users = derive_users(common, task.train, SCORING, left_out)
        scores = SolveFitted(users, Cost(), True).scores(task.asked_users)
        scores[:, gone] = -np.inf
        found[what] = float(gains(measure(Ready(scores), task, top=0).full)[asked].mean())
    return found


def main() -> None:
    """All lines and seeds; JSON to a file or standard output."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", default="synthetic:users=300,items=200")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.1, help="of the items that is new")
    parser.add_argument("--rounds", type=int, default=100, help="before they come")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    schedule, data = Schedule(rounds=options.rounds), load(options.data, options.data_dir)
    rows: list[dict[str, Any]] = []
    for seed in range(options.seeds):
        task = make_split(data, seed, kind="last" if data.time is not None else "random").test
        new = np.random.default_rng([seed, 0x4E3]).permutation(task.items)
        new = np.sort(new[: max(1, round(options.share * task.items))])
        for line in LINES:
            rows += play(task, line, new, schedule, seed)
            print(rows[-1], flush=True)
    means = [
        {"line": line, "after": after}
        | {
            group: float(
                np.mean([r[group] for r in rows if (r["line"], r["after"]) == (line, after)])
            )
            for group in ("new", "others")
        }
        for line in LINES
        for after in AFTER
    ]
    told = {
        "data": data.name, "share": options.share, "seeds": options.seeds,
        "method": msgspec.to_builtins(METHOD), "learning": msgspec.to_builtins(LEARNING),
        "schedule": asdict(schedule), "means": means, "rows": rows,
    }  # fmt: skip
    text = json.dumps(told, indent=1)
    if options.json is None:
        print(text)
    else:
        options.json.write_text(text)


if __name__ == "__main__":
    main()
