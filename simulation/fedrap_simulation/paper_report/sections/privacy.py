"""What noise costs: the paper's FedRAP-noise, and `solve` in a few large rounds, by epsilon."""

from __future__ import annotations

import msgspec
import numpy as np

from fedrap_core.paper.variants import NOISE as PAPER_NOISE
from fedrap_core.privacy.accounting import charged_epsilon
from fedrap_simulation.evaluation.metrics import measure
from fedrap_simulation.paper_report.bench import Bench, Line
from fedrap_simulation.paper_report.document import LEAK, Cell, Drawn, Picture, Section, Table
from fedrap_simulation.paper_report.plots import AMBER, BLUE, GREY, LEAKY_RED, new_axes, to_svg
from fedrap_simulation.paper_report.published import NOISE, published
from fedrap_simulation.paper_report.request import Ask, Frame
from fedrap_simulation.paper_report.tables import PROTOCOLS, both_protocols, line_table, under

DELTA = 1e-5
PAPER = (Ask("fedrap-paper"), Ask("fedrap-noise"))
ALONE = (Ask("fedrap-noise", tune=False),)  # on a large set
OPEN = (
    Ask("popularity"),
    Ask("ease"),
    Ask("ials"),
)  # without any privacy, as lines to compare with
LARGEST = 10_000_000  # rows in all D of the paper's method; above that all of it takes hours
NAMES = ("hr10", "ndcg10", "hr10_full", "ndcg10_full")


class Noised(msgspec.Struct, frozen=True, kw_only=True):
    """`solve` under one privacy guarantee, mean over the seeds."""

    epsilon: float
    banded: bool
    noise: float  # z
    participations: int  # K
    separation: int  # b
    dim: int
    hr10: float
    ndcg10: float
    hr10_full: float
    ndcg10_full: float
    deviation: float  # of ndcg10_full between seeds


class PrivacyCost(msgspec.Struct, frozen=True):
    """Quality with privacy and without it."""

    paper: list[Line]
    ours: list[Noised]
    others: list[Line]


def compute(bench: Bench) -> PrivacyCost:
    """The paper's method under both protocols; ours on the honest one, nothing chosen."""
    ours = [
        _noised(bench, epsilon, banded)
        for banded in (False, True)
        for epsilon in bench.frame.scale.epsilons
    ]
    others = [ask for ask in OPEN if ask.method in bench.frame.scale.clean]
    small = bench.frame.users * bench.frame.items <= LARGEST
    paper = both_protocols(bench, PAPER) if small else bench.lines(ALONE, "clean")
    return PrivacyCost(paper, ours, bench.lines(others, "clean"))


def _noised(bench: Bench, epsilon: float, banded: bool) -> Noised:
    method = bench.solve(Ask("fedrap")).private(epsilon, DELTA, banded)
    found: list[dict[str, float]] = []
    for seed in bench.frame.seeds:

        def make(seed: int = seed) -> dict[str, float]:
            task = bench.split("clean", seed).test
            return measure(method.fit(task, seed, bench.on_progress), task).summary()

        config = {"settings": method.settings, "seed": seed, "clipped": "after rounding, too"}
        found.append(bench.piece("promise", config, dict[str, float], make))
    charged = method.epsilon
    assert charged is not None
    return Noised(
        epsilon=charged,
        banded=banded,
        noise=method.schedule.noise,
        participations=method.schedule.participations,
        separation=method.schedule.separation,
        dim=method.method.dim,
        deviation=float(np.std([one["ndcg10_full"] for one in found])),
        **{name: float(np.mean([one[name] for one in found])) for name in NAMES},
    )


def paper_epsilon(line: Line) -> float | None:
    """What FedRAP-noise charges: everybody is in every round, and kept or not, all were run."""
    if line.method != "fedrap-noise" or line.mean is None:
        return None
    rounds = line.settings["longest" if line.leaky else "rounds"]
    return charged_epsilon(int(rounds), PAPER_NOISE, DELTA)


def draw(found: PrivacyCost, frame: Frame) -> Drawn:
    """Tables, and NDCG over epsilon."""
    words = [
        "Epsilon is for a whole user over all rounds, delta 1e-5, zero-out adjacency, by the "
        "number of rounds a device took part in, without amplification. It is charged as "
        "fedrap_core.privacy.accounting charges it. Settings are the built-in ones for that "
        "epsilon.",
        "Noise is shared by all devices of a round, so it weighs more the fewer they are: here "
        f"there are {frame.users}.",
        LEAK
        if under(found.paper, "paper")
        else f"With {frame.users * frame.items:,} rows of D the paper's method is run only once, "
        "with noise and published settings.",
    ]
    tables = [_paper(found, frame, one) for one in PROTOCOLS if under(found.paper, one)]
    if frame.request.data == "ml-100k":
        tables.append(_published(frame))
    tables.append(_ours(found, frame))
    return Drawn(words=words, tables=tables, pictures=[_picture(found)])


def _paper(found: PrivacyCost, frame: Frame, protocol: str) -> Table:
    lines = [line for line in found.paper if line.protocol == protocol]
    known = [published(frame.request.data, line.method) for line in lines]
    more: dict[str, list[Cell]] = {"epsilon": [paper_epsilon(line) for line in lines]}
    if any(known):
        more["NDCG@10 published, LEAKY"] = [one and one.ndcg10 for one in known]
    command = frame.evaluate(PAPER if len(lines) > 1 else ALONE, lines[0].protocol)
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


def _ours(found: PrivacyCost, frame: Frame) -> Table:
    rows: list[list[Cell]] = [
        [
            "banded" if one.banded else "independent", one.epsilon, one.noise, one.participations,
            one.separation, one.dim, one.hr10, one.ndcg10, one.hr10_full, one.ndcg10_full,
        ]
        for one in found.ours
    ]  # fmt: skip
    for line in found.others:
        if line.mean is not None:
            quality: list[Cell] = [line.mean[name] for name in NAMES]
            rows.append([f"{line.label}, no privacy", None, None, None, None, None, *quality])
    heads = ("HR@10, 99 neg.", "NDCG@10, 99 neg.", "HR@10 full", "NDCG@10 full")
    return Table(
        title="fedrap by epsilon, protocol clean",
        protocol="clean",
        columns=("noise", "epsilon", "z", "K", "b", "k", *heads),
        rows=rows,
        command=frame.reproduce("privacy"),
        seeds=frame.seeds,
        settings={"delta": DELTA},
        digits={"z": 2, "epsilon": 1},
    )


def _picture(found: PrivacyCost) -> Picture:
    figure, (axes,) = new_axes(height=3.8)
    for banded, style in ((True, "-"), (False, "--")):
        points = [(one.epsilon, one.ndcg10_full) for one in found.ours if one.banded == banded]
        axes.plot(
            *zip(*sorted(points), strict=True),
            color=BLUE,
            marker="o",
            markersize=4,
            linestyle=style,
        )
        words = "fedrap, banded" if banded else "fedrap, independent"
        shift = (6, 6) if banded else (6, -12)
        axes.annotate(words, max(points), shift, textcoords="offset points", color=BLUE)
    for line in found.others:
        if line.mean is None:
            continue
        level = line.mean["ndcg10_full"]
        axes.axhline(level, color=GREY, linestyle=":", linewidth=1)
        axes.annotate(
            f"{line.label}, no privacy", (0.01, level), (0, 3), xycoords=("axes fraction", "data"),
            textcoords="offset points", color=GREY, fontsize=8.5,
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
    return Picture(
        title="Quality by epsilon",
        svg=to_svg(figure, "privacy"),
        leaky=bool(under(found.paper, "paper")),
    )


SECTION = Section("privacy", "Differential privacy", compute, draw)
