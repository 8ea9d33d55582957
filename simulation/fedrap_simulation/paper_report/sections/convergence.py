"""How quality grows with the rounds, as the paper's figure of convergence shows it."""

from __future__ import annotations

import msgspec

from fedrap_simulation.paper_report.bench import Bench
from fedrap_simulation.paper_report.curves import Course, Measure, follow
from fedrap_simulation.paper_report.document import LEAK, Drawn, Picture, Section, Table
from fedrap_simulation.paper_report.plots import draw_curves, new_axes, to_svg
from fedrap_simulation.paper_report.request import Ask, Frame
from fedrap_simulation.paper_report.tables import PROTOCOLS

PANELS: tuple[tuple[Measure, str], ...] = (
    ("hr10", "HR@10, 99 negatives"),
    ("ndcg10", "NDCG@10, 99 negatives"),
    ("ndcg10_full", "NDCG@10, full ranking"),
)


class Convergence(msgspec.Struct, frozen=True):
    """One course for each method and protocol."""

    courses: list[Course]


def compute(bench: Bench) -> Convergence:
    """The paper's method with its leak and without, and ours, which has no part in it."""
    scale = bench.frame.scale
    paper = Ask("fedrap-paper")
    ours = Ask("fedrap", changes={"schedule.rounds": scale.rounds})
    return Convergence(
        [
            follow(bench, paper, "clean", scale.rounds, scale.every),
            follow(bench, paper, "paper", scale.rounds, scale.every),
            follow(bench, ours, "clean", scale.rounds, scale.every),
        ]
    )


def draw(found: Convergence, frame: Frame) -> Drawn:
    """One panel for each measure; a table with a few rounds of every course."""
    figure, axes = new_axes(3, 1, height=8.4)
    for panel, (measure, words) in zip(axes, PANELS, strict=True):
        draw_curves(panel, [one.curve(measure) for one in found.courses], "round", words)
    return Drawn(
        words=[
            "Quality on the test after each round, with built-in settings. Nothing was chosen by "
            "these curves. In fedrap-paper every device takes part in every round; in fedrap a "
            "tenth of them does.",
            LEAK,
        ],
        tables=[table for one in PROTOCOLS if (table := _table(found, frame, one))],
        pictures=[Picture(title="Quality by round", svg=to_svg(figure, "convergence"), leaky=True)],
    )


def _table(found: Convergence, frame: Frame, protocol: str) -> Table | None:
    courses = [one for one in found.courses if one.protocol == protocol]
    if not courses:
        return None
    names: tuple[Measure, ...] = ("hr10", "ndcg10", "hr10_full", "ndcg10_full")
    words = ("HR@10, 99 neg.", "NDCG@10, 99 neg.", "HR@10 full", "NDCG@10 full")
    return Table(
        title=f"Quality by round, protocol {protocol}",
        protocol=courses[0].protocol,
        columns=("method", "round", *words),
        rows=[
            [course.label, course.rounds[place], *(getattr(course, name)[place] for name in names)]
            for course in courses
            for place in _some(len(course.rounds))
        ],
        command=frame.reproduce("convergence"),
        seeds=(0,),
        settings={"rounds": frame.scale.rounds, "looks every": frame.scale.every},
    )


def _some(count: int) -> list[int]:
    """At most six places, from the first to the last."""
    return sorted({round(step * (count - 1) / 5) for step in range(6)})


SECTION = Section("convergence", "Convergence", compute, draw)
