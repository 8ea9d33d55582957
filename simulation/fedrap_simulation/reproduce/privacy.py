"""What noise costs: the paper's FedRAP-noise, and `solve` in a few large rounds, by epsilon."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from fedrap_core.accounting import charged_epsilon
from fedrap_core.paper.variants import NOISE as PAPER_NOISE
from fedrap_simulation.protocols.measure import measure
from fedrap_simulation.reproduce.bench import Bench, Line
from fedrap_simulation.reproduce.document import LEAK, Cell, Drawn, Picture, Section, Table
from fedrap_simulation.reproduce.order import Ask, Frame
from fedrap_simulation.reproduce.plots import (
    AMBER,
    BLUE,
    GREY,
    LEAKY_RED,
    new_axes,
    to_svg,
)
from fedrap_simulation.reproduce.published import NOISE, published
from fedrap_simulation.reproduce.tables import PROTOCOLS, both_protocols, line_table, under

DELTA = 1e-5
ROUNDS, PART = 6, 0.5  # a device takes part three times in all
PAPER = (Ask("fedrap-paper"), Ask("fedrap-noise"))
SETTINGS = {
    "schedule.rounds": ROUNDS,
    "schedule.part": PART,
    "method.dim": 24,
    "learning.eta": 0.5,
    "learning.decay": 0.8,
    "learning.ridge": 50.0,
}
CLIP = 3.0


class Noised(msgspec.Struct, frozen=True, kw_only=True):
    """`solve` with one amount of noise, mean over the seeds."""

    noise: float  # z
    clipped: bool
    epsilon: float | None  # None without noise
    hr10: float
    ndcg10: float
    hr10_full: float
    ndcg10_full: float


class Cost(msgspec.Struct, frozen=True):
    """Quality with privacy and without it."""

    paper: list[Line]
    ours: list[Noised]
    popularity: Line


def compute(bench: Bench) -> Cost:
    """The paper's method under both protocols; ours on the honest one, built-in scoring."""
    noises = bench.frame.scale.noises
    ours = [_noised(bench, 0.0, clipped=False), *(_noised(bench, one) for one in noises)]
    popularity = bench.lines([Ask("popularity")], "clean")[0]
    return Cost(both_protocols(bench, PAPER), ours, popularity)


def _noised(bench: Bench, noise: float, *, clipped: bool = True) -> Noised:
    changes = SETTINGS | {"schedule.noise": noise}
    if clipped:
        changes |= {"schedule.clip": CLIP}
    method = bench.solve(Ask("fedrap", changes=changes))
    found: list[dict[str, float]] = []
    for seed in bench.frame.seeds:

        def make(seed: int = seed) -> dict[str, float]:
            task = bench.split("clean", seed).test
            return measure(method.fit(task, seed, bench.say), task).summary()

        config = {"settings": method.settings, "seed": seed}
        found.append(bench.piece("noise", config, dict[str, float], make))
    names = ("hr10", "ndcg10", "hr10_full", "ndcg10_full")
    return Noised(
        noise=noise,
        clipped=clipped,
        epsilon=charged_epsilon(math.ceil(ROUNDS * PART), noise, DELTA) if noise else None,
        **{name: float(np.mean([one[name] for one in found])) for name in names},
    )


def paper_epsilon(line: Line) -> float | None:
    """What FedRAP-noise charges: everybody is in every round, and kept or not, all were run."""
    if line.method != "fedrap-noise" or line.mean is None:
        return None
    rounds = line.settings["longest" if line.leaky else "rounds"]
    return charged_epsilon(int(rounds), PAPER_NOISE, DELTA)


def draw(found: Cost, frame: Frame) -> Drawn:
    """Tables, and NDCG over epsilon."""
    words = [
        "Epsilon is for a whole user, delta 1e-5, by the number of rounds a device took part in, "
        "without amplification. It is charged as fedrap_core.accounting charges it.",
        f"fedrap: {ROUNDS} rounds of half the devices, so each takes part "
        f"{math.ceil(ROUNDS * PART)} times; update clipped to {CLIP:g}, k 24. Noise is shared by "
        f"all devices of a round, so it weighs more the fewer they are: here there are "
        f"{frame.users}.",
        LEAK,
    ]
    tables = [_paper(found, frame, one) for one in PROTOCOLS if under(found.paper, one)]
    if frame.order.data == "ml-100k":
        tables.append(_published(frame))
    tables.append(_ours(found, frame))
    return Drawn(words=words, tables=tables, pictures=[_picture(found)])


def _paper(found: Cost, frame: Frame, protocol: str) -> Table:
    lines = [line for line in found.paper if line.protocol == protocol]
    known = [published(frame.order.data, line.method) for line in lines]
    more: dict[str, list[Cell]] = {"epsilon": [paper_epsilon(line) for line in lines]}
    if any(known):
        more["NDCG@10 published, LEAKY"] = [one and one.ndcg10 for one in known]
    command = frame.evaluate(PAPER, lines[0].protocol)
    table = line_table(lines, frame, "The paper's method and noise", command, more)
    return msgspec.structs.replace(table, digits={"epsilon": 1})


def _published(frame: Frame) -> Table:
    return Table(
        title="Noise as published, protocol paper",
        protocol="paper",
        columns=("method", "HR@10", "HR@10 with noise", "NDCG@10", "NDCG@10 with noise"),
        rows=[
            [name, plain.hr10, noised.hr10, plain.ndcg10, noised.ndcg10]
            for name, (plain, noised) in NOISE.items()
        ],
        command=frame.reproduce("privacy"),
        seeds=frame.seeds,
        note="Copied from the paper, whose heads of the two columns are swapped; put right here.",
        digits=dict.fromkeys(("HR@10", "HR@10 with noise", "NDCG@10", "NDCG@10 with noise"), 4),
    )


def _ours(found: Cost, frame: Frame) -> Table:
    rows: list[list[Cell]] = []
    for one in found.ours:
        kind = "noised" if one.noise else ("clipped" if one.clipped else "neither")
        quality: list[Cell] = [one.hr10, one.ndcg10, one.hr10_full, one.ndcg10_full]
        rows.append([kind, one.noise, one.epsilon, *quality])
    heads = ("HR@10, 99 neg.", "NDCG@10, 99 neg.", "HR@10 full", "NDCG@10 full")
    return Table(
        title="fedrap by epsilon, protocol clean",
        protocol="clean",
        columns=("update", "noise z", "epsilon", *heads),
        rows=rows,
        command=frame.reproduce("privacy"),
        seeds=frame.seeds,
        settings=dict(SETTINGS) | {"schedule.clip": CLIP, "delta": DELTA},
        digits={"noise z": 2, "epsilon": 1},
    )


def _picture(found: Cost) -> Picture:
    figure, (axes,) = new_axes(height=3.8)
    noised = [(one.epsilon, one.ndcg10_full) for one in found.ours if one.epsilon is not None]
    axes.plot(*zip(*sorted(noised), strict=True), color=BLUE, marker="o", markersize=4)
    axes.annotate("fedrap", max(noised), (6, 4), textcoords="offset points", color=BLUE)
    levels = [("fedrap, same rounds, no privacy", found.ours[0].ndcg10_full, BLUE)]
    if found.popularity.mean is not None:
        levels.append(("popularity", found.popularity.mean["ndcg10_full"], GREY))
    for words, level, colour in levels:
        axes.axhline(level, color=colour, linestyle=":", linewidth=1)
        axes.annotate(
            words, (0.01, level), (0, 3), xycoords=("axes fraction", "data"),
            textcoords="offset points", color=colour, fontsize=8.5,
        )  # fmt: skip
    for line in found.paper:
        epsilon = paper_epsilon(line)
        if epsilon is not None and line.mean is not None:
            colour = LEAKY_RED if line.leaky else AMBER
            place = (epsilon, line.mean["ndcg10_full"])
            axes.plot(*place, color=colour, marker="X" if line.leaky else "s", linestyle="none")
            words = "fedrap-noise\nLEAKY" if line.leaky else "fedrap-noise"
            axes.annotate(
                words, place, (0, 6), textcoords="offset points", color=colour, ha="right"
            )
    axes.set_xscale("log")
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("epsilon (log), delta 1e-5")
    axes.set_ylabel("NDCG@10, full ranking")
    return Picture(title="Quality by epsilon", svg=to_svg(figure, "privacy"), leaky=True)


SECTION = Section("privacy", "Differential privacy", compute, draw)
