"""How many rounds `solve` needs when few devices come, some, or all; measured on validation."""

from __future__ import annotations

import msgspec

from fedrap_simulation.paper_report.bench import Bench
from fedrap_simulation.paper_report.curves import Course, follow
from fedrap_simulation.paper_report.document import Cell, Drawn, Picture, Section, Table
from fedrap_simulation.paper_report.plots import Curve, draw_curves, new_axes, to_svg
from fedrap_simulation.paper_report.request import Ask, Frame, Regime

ENOUGH = 0.95  # of the final quality


class Participation(msgspec.Struct, frozen=True):
    """One course for each share of the devices, in the order of the scale's regimes."""

    courses: list[Course]


def compute(bench: Bench) -> Participation:
    """C alone, without D: this is about how fast C is learnt."""
    return Participation(
        [
            follow(bench, _ask(one), "clean", one.rounds, one.every, "validation")
            for one in bench.frame.scale.regimes
        ]
    )


def _ask(regime: Regime) -> Ask:
    changes = {
        "schedule.part": regime.part,
        "schedule.rounds": regime.rounds,
        "learning.eta": regime.eta,
        "learning.decay": regime.decay,
    }
    return Ask("c-only", f"{regime.part:.0%} of the devices", changes)


def rounds_to(course: Course, target: float) -> int | None:
    """The first round at which full-ranking NDCG@10 was seen to reach `target`."""
    pairs = zip(course.rounds, course.ndcg10_full, strict=True)
    return next((step for step, reached in pairs if reached >= target), None)


def draw(found: Participation, frame: Frame) -> Drawn:
    """Curves over rounds, and over what it costs each device."""
    regimes = frame.scale.regimes
    figure, axes = new_axes(2, 1, height=6.0)
    pairs = list(zip(found.courses, regimes, strict=True))
    draw_curves(axes[0], [one.curve("ndcg10_full") for one, _ in pairs], "round", "NDCG@10 full")
    axes[0].set_xscale("log")
    spent = [
        Curve(one.label, [step * regime.part for step in one.rounds], one.ndcg10_full)
        for one, regime in pairs
    ]
    draw_curves(axes[1], spent, "times each device has taken part", "NDCG@10 full")
    return Drawn(
        words=[
            "Rounds until the common items are learnt, by the share of devices that takes part in "
            f"a round. Enough means {ENOUGH:.0%} of the final NDCG@10 in full ranking, on "
            "validation, without personal items."
        ],
        tables=[_table(found, frame)],
        pictures=[Picture(title="Rounds and participation", svg=to_svg(figure, "participation"))],
    )


def _table(found: Participation, frame: Frame) -> Table:
    best = max(course.ndcg10_full[-1] for course in found.courses)
    rows: list[list[Cell]] = []
    for course, regime in zip(found.courses, frame.scale.regimes, strict=True):
        own = rounds_to(course, ENOUGH * course.ndcg10_full[-1])
        common = rounds_to(course, ENOUGH * best)
        times = None if own is None else own * regime.part
        last = course.ndcg10_full[-1]
        rows.append([course.label, regime.rounds, last, own, times, common])
    return Table(
        title="Rounds of fedrap by participation, protocol clean, validation",
        protocol="clean",
        columns=(
            "participation",
            "rounds run",
            "NDCG@10 full at the end",
            "rounds to 95 % of that",
            "times a device took part until then",
            "rounds to 95 % of the best end",
        ),
        rows=rows,
        command=frame.reproduce("participation"),
        seeds=(0,),
        settings={
            course.label: {"eta": one.eta, "decay": one.decay, "looks every": one.every}
            for course, one in zip(found.courses, frame.scale.regimes, strict=True)
        },
        digits={"times a device took part until then": 1},
    )


SECTION = Section("participation", "Rounds and participation", compute, draw)
