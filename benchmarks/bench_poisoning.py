"""How many people are shown a promoted item, with and without what stands against it.

    python benchmarks/bench_poisoning.py --json OUT          a small planted population
    python benchmarks/bench_poisoning.py --full --json OUT   scenario `poisoned` whole; and ml-100k,
                                                             where FEDRAP_DATA has it
    … --full --seeds 3 --only ml-100k                        more seeds, one of the two
    … --full --first-seed 1 --only poisoned                  the planted values were found on seed 0
    … --shipped ml-1m --users 2000                           what `init` writes for such a set
    … --split ml-100k                                        the same with two servers

Attackers send all that the clip allows, on the row of the least liked item, towards where most
users are. `exposure` is the share of people who would be shown it among their ten, `ndcg10` the
quality for everybody. `poisoned` runs in the field on the virtual clock, all invariants checked;
its numbers are means of the later half of the looks. ml-100k runs on the engine, where a cell takes
seconds, and is asked after the last round (poisoned_rounds.py). Its bounds are chosen by `choose`
on validation items; the table is on test items.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from poisoned_rounds import Aim, Cell, play_rounds

from fedrap_coordinator.domain.rounds import RoundLimits
from fedrap_coordinator.privacy.recipe import Expected, derive
from fedrap_coordinator.settings import Settings
from fedrap_core import aggregate
from fedrap_core.plan import Privacy, Scoring, SolveMethod, Split
from fedrap_core.solve.server_step import Learning
from fedrap_core.sparse import RowUpdate
from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.data.load import load
from fedrap_simulation.scenarios.compute import LocalEngine
from fedrap_simulation.scenarios.runner import run_scenario
from fedrap_simulation.scenarios.scenario import load_scenario

ROW_CLIP = "coordinator.privacy.row_clip"
SUPPORT = "coordinator.learning.min_support"
STEP = "coordinator.learning.row_step"
NONE: dict[str, Any] = {ROW_CLIP: None, SUPPORT: 0.0, STEP: None}
ATTACKERS = (0.0, 0.01, 0.05)

# The planted least liked item is liked by many more than 1 %: a support that hid it would hide
# honest items, too, so what support is for shows on ml-100k, where it has one fan.
PLANTED = {"row_clip": 1.0, "min_support": 20.0, "row_step": 0.1}
ROW_CLIPS, ROW_STEPS = (1.0, 2.0, 5.0), (None, 0.3, 0.1, 0.05)
NOBODY = 0.01  # of the people: exposure that a choice may leave
MOVIES_SUPPORT = 100.0  # above what 1 % of the devices, 9 of them with K 10, can ever fake
SMALL = {
    "days": 4,
    "population.data": "synthetic:users=200,items=120",
    "population.arrive_days": 0.5,
    "looks.every_hours": 24,
    "coordinator.method.prefixes": 10,
    "coordinator.round.min_updates": 20,
    "coordinator.round.max_updates": 30,
    "coordinator.round.total": 16,
}
# Fewer days and tries than the scenario has, so that fourteen of them fit in one run.
WHOLE = {
    "days": 5,
    "phones.period": 7200,
    "looks.every_hours": 24,
    "coordinator.method.prefixes": 20,
    "coordinator.round.total": 40,
}
MOVIES_COHORT, MOVIES_ROUNDS = 88, 60
AIMS: tuple[Aim, ...] = ("plain", "knowing", "few", "histories")
Epsilons = tuple[float | None, ...]
CHOOSING = range(100, 103)  # seeds for choosing; tables have others


def defences(values: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Keys of the scenario for each line of the table; each adds one thing to the line above."""
    row = NONE | {ROW_CLIP: values["row_clip"]}
    support = row | {SUPPORT: values["min_support"]}
    return {
        "none": NONE,
        "row bound": row,
        "+ support": support,
        "+ capped step": support | {STEP: values["row_step"]},
    }


def play(name: str, keys: dict[str, Any], seeds: range) -> dict[str, Any]:
    """One cell of the table: the mean over seeds."""
    exposure, quality, popular, rounds = [], [], [], 0
    for seed in seeds:
        scenario = load_scenario(name, keys | {"seed": seed, "looks.central": False})
        with tempfile.TemporaryDirectory() as folder:
            outcome = run_scenario(scenario, LocalEngine(), Path(folder), lambda done, words: None)
        later = outcome.looks[len(outcome.looks) // 2 :]
        exposure.append(float(np.mean([look.exposure for look in later])))
        quality.append(float(np.mean([look.ndcg10 for look in later])))
        popular.append(float(np.mean([look.ndcg10_popularity for look in later])))
        rounds += len(outcome.released)
    return {
        "exposure": round(float(np.mean(exposure)), 4),
        "exposure_by_seed": [round(one, 4) for one in exposure],
        "ndcg10": round(float(np.mean(quality)), 4),
        "ndcg10_popularity": round(float(np.mean(popular)), 4),
        "releases": rounds,
    }


def table(
    name: str, keys: dict[str, Any], values: dict[str, float], seeds: range, lines: list[str]
) -> dict[str, Any]:
    """Every defence against every share of attackers, all in one run."""
    cells = []
    for attackers in ATTACKERS:
        for line in lines:
            chosen = keys | defences(values)[line] | {"behaviours.poisoning": attackers}
            cell = {"attackers": attackers, "defence": line, **play(name, chosen, seeds)}
            cells.append(cell)
            _on_progress(name, cell)
    return {"scenario": name, "keys": keys, "values": values, "seeds": list(seeds), "cells": cells}


def bounded(row_clip: float | None, min_support: float, row_step: float | None) -> Settings:
    """The settings of the ml-100k table under these bounds."""
    return Settings(
        round=RoundLimits(max_updates=MOVIES_COHORT, total=MOVIES_ROUNDS),
        method=SolveMethod(dim=32, prefixes=20),
        privacy=Privacy(clip=30.0, row_clip=row_clip),
        learning=Learning(
            eta=0.2, decay=0.985, settled=MOVIES_ROUNDS, min_support=min_support, row_step=row_step
        ),
        scoring=Scoring(),
    )


def choose(data: Interactions, seeds: range) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The bounds with the best quality among those that show the item to next to nobody.

    On validation items, means over seeds: quality without attackers, exposure at 5 %, which has to
    stay below `NOBODY`. Also returns everything that was tried.
    """
    tried: list[dict[str, Any]] = []
    for row_clip, row_step in itertools.product(ROW_CLIPS, ROW_STEPS):
        rule = bounded(row_clip, MOVIES_SUPPORT, row_step)
        calm, attacked = (
            [play_rounds(data, share, rule, one, validation=True) for one in seeds]
            for share in (0.0, ATTACKERS[-1])
        )
        tried.append({
            "row_clip": row_clip, "row_step": row_step,
            "ndcg10": round(float(np.mean([one.ndcg10 for one in calm])), 4),
            "exposure": round(float(np.mean([one.exposure for one in attacked])), 4),
        })  # fmt: skip
        _on_progress("ml-100k, validation", tried[-1])
    good = [one for one in tried if one["exposure"] <= NOBODY] or tried
    best = max(good, key=lambda one: float(one["ndcg10"]))
    values = {name: best[name] for name in ("row_clip", "row_step")}
    return values | {"min_support": MOVIES_SUPPORT}, tried


def movies(seeds: range) -> dict[str, Any]:
    """ml-100k: histories of a hundred items, and a promoted item with a single fan."""
    data, cells = load("ml-100k"), []
    values, tried = choose(data, CHOOSING)
    lines = {"none": NONE, "row bound 5": NONE | {ROW_CLIP: 5.0}} | defences(values)
    for attackers in ATTACKERS:
        for line, keys in lines.items():
            rule = bounded(keys[ROW_CLIP], keys[SUPPORT], keys[STEP])
            found = [play_rounds(data, attackers, rule, seed) for seed in seeds]
            cells.append({"attackers": attackers, "defence": line, **_means(found)})
            _on_progress("ml-100k", cells[-1])
    return {"data": "ml-100k", "values": values, "seeds": list(seeds),
            "settings": msgspec.to_builtins(bounded(None, 0.0, None)),
            "chosen_from": tried, "chosen_on_seeds": list(CHOOSING), "nobody": NOBODY,
            "cells": cells}  # fmt: skip


def shipped(name: str, seeds: range, users: int | None, epsilons: Epsilons) -> dict[str, Any]:
    """What `fedrap-coordinator init` writes for a set of this size, against every aim.

    The same settings without any bound, and without the score cap alone, stand beside it, so that
    their price shows; `kept` is quality under noise over quality without.
    """
    data = load(name)
    if users is not None:
        mine = data.user < users
        data = replace(
            data, user=data.user[mine], item=data.item[mine], users=data.users[:users],
            time=None if data.time is None else data.time[mine],
        )  # fmt: skip
    size = Expected(len(data.users), len(data.items), 8.0, len(data) / len(data.users))
    cells: list[dict[str, Any]] = []
    nobody, every = (0.0, AIMS[0]), tuple(itertools.product(ATTACKERS[1:], AIMS))
    for epsilon in epsilons:
        found = derive(replace(size, epsilon=epsilon), anyway=True)
        for line, settings, attacks in (
            ("as init writes it", found.settings, (nobody, *every)),
            ("without score cap", _without_cap(found.settings), (nobody, (0.05, "plain"))),
            ("without bounds", _without_bounds(found.settings), (nobody, (0.01, "plain"))),
        ):
            for attackers, aim in attacks:
                played = [play_rounds(data, attackers, settings, one, aim=aim) for one in seeds]
                cells.append({"epsilon": epsilon, "settings": line, "attackers": attackers,
                              "aim": aim, "signal": found.signal, **_means(played)})  # fmt: skip
                _on_progress(name, cells[-1])
    calm = {(one["epsilon"], one["settings"]): one["ndcg10"] for one in cells
            if not one["attackers"]}  # fmt: skip
    whole = calm.get((None, "as init writes it"))
    kept = None if whole is None else calm.get((8.0, "as init writes it"), whole) / whole
    return {"data": name, "users": size.devices, "items": size.items, "seeds": list(seeds),
            "kept": kept and round(kept, 3), "cells": cells}  # fmt: skip


def split_table(name: str, seeds: range, epsilons: Epsilons) -> dict[str, Any]:
    """What `init` writes, in rounds of two servers: no row bound, cone or counts of touches.

    One device, 1 % and 5 %, by every aim; beside it with rows that move by their usual length at
    most.
    """
    data = load(name)
    size = Expected(len(data.users), len(data.items), 8.0, len(data) / len(data.users))
    one = 1.0 / len(data.users)
    cells: list[dict[str, Any]] = []
    for epsilon in epsilons:
        found = derive(replace(size, epsilon=epsilon), anyway=True).settings
        aims: tuple[Aim, ...] = ("plain", "knowing", "few", "histories", "shrinking")
        every: list[tuple[float, Aim]] = [(0.0, "plain"), (one, "plain"), (one, "knowing")]
        every += list(itertools.product(ATTACKERS[1:], aims))
        some: list[tuple[float, Aim]] = [(share, "plain") for share in ATTACKERS]
        for line, settings, attacks in (
            ("as init writes it", found, every),
            ("rows step by 1 at most", _capped(found), some),
        ):
            for attackers, aim in attacks:
                played = [
                    play_rounds(data, attackers, settings, seed, aim=aim, split=Split())
                    for seed in seeds
                ]
                cells.append({"epsilon": epsilon, "settings": line, "attackers": attackers,
                              "aim": aim, **_means(played)})  # fmt: skip
                _on_progress(name, cells[-1])
    return {"data": name, "aggregation": "split", "users": size.devices, "items": size.items,
            "seeds": list(seeds), "cells": cells}  # fmt: skip


def _capped(settings: Settings) -> Settings:
    change = msgspec.structs.replace
    return change(settings, learning=change(settings.learning, row_step=1.0))


def _without_cap(settings: Settings) -> Settings:
    change = msgspec.structs.replace
    return change(settings, learning=change(settings.learning, score_cap=None))


def _without_bounds(settings: Settings) -> Settings:
    change = msgspec.structs.replace
    return change(
        settings,
        privacy=change(settings.privacy, row_clip=None),
        learning=change(settings.learning, row_step=None, min_support=0.0, score_cap=None),
    )


def _means(cells: list[Cell]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("exposure", "ndcg10", "withheld", "support"):
        numbers = [round(getattr(one, name), 4) for one in cells]
        found |= {name: round(float(np.mean(numbers)), 4), f"{name}_by_seed": numbers}
    return found


def shrinking(keys: dict[str, Any], values: dict[str, float], seeds: range) -> list[dict[str, Any]]:
    """A negative triangle beside the push: row bound only, without and with the check of 5.8."""
    chosen = keys | defences(values)["row bound"]
    chosen |= {"behaviours.poisoning": 0.05, "behaviours.attack": "shrink"}
    cells = []
    for checked in (False, True):
        with _cone_unchecked() if not checked else _as_it_is():
            cell = {"triangles_checked": checked, **play("poisoned", chosen, seeds)}
        cells.append(cell)
        _on_progress("shrink", cell)
    return cells


@contextmanager
def _cone_unchecked() -> Iterator[None]:
    """The aggregator as it would be without 5.8."""

    def through(update: RowUpdate, dim: int) -> RowUpdate:
        return update

    with patch.object(aggregate, "keep_semidefinite", through):
        yield


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


def _on_progress(name: str, cell: dict[str, Any]) -> None:
    words = " ".join(f"{key}={value}" for key, value in cell.items())
    sys.stderr.write(f"{name}: {words}\n")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--full", action="store_true", help="1000 people, and ml-100k")
    parser.add_argument("--only", choices=["poisoned", "ml-100k"], help="with --full")
    parser.add_argument("--shipped", metavar="SET", help="what init writes for this set, alone")
    parser.add_argument("--split", metavar="SET", help="the same with two servers, alone")
    parser.add_argument("--users", type=int, help="with --shipped: only so many of them")
    parser.add_argument("--epsilon", choices=["8", "none"], help="with --shipped: only this one")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    every = list(defences(PLANTED))
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    result: dict[str, Any] = {"tables": []}
    epsilons: Epsilons = {"8": (8.0,), "none": (None,), None: (8.0, None)}[arguments.epsilon]
    if arguments.split:
        result["tables"] = [split_table(arguments.split, seeds, epsilons)]
    elif arguments.shipped:
        result["tables"] = [shipped(arguments.shipped, seeds, arguments.users, epsilons)]
    elif not arguments.full:
        result["tables"] = [table("poisoned", SMALL, PLANTED, seeds, [every[0], every[-1]])]
    elif arguments.only != "ml-100k":
        result["tables"] = [table("poisoned", WHOLE, PLANTED, seeds, every)]
        result["shrink"] = shrinking(WHOLE, PLANTED, seeds)
    if arguments.full and arguments.only != "poisoned" and os.environ.get("FEDRAP_DATA"):
        result["tables"].append(movies(seeds))
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
