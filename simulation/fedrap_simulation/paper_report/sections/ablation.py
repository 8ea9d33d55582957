"""What each part of a method is good for: the method without it."""

from __future__ import annotations

import msgspec

from fedrap_simulation.paper_report.bench import Bench, Line
from fedrap_simulation.paper_report.document import LEAK, Drawn, Section
from fedrap_simulation.paper_report.request import Ask, Frame
from fedrap_simulation.paper_report.tables import (
    both_protocols,
    line_picture,
    line_table,
    line_tables,
)

PAPER = (
    Ask("fedrap-paper"),
    Ask("fedrap-c", "fedrap-c: no D"),
    Ask("fedrap-d", "fedrap-d: no C"),
    Ask("fedrap-no", "fedrap-no: no L1"),
    Ask("fedrap-l2", "fedrap-l2: L2 for L1"),
)
OURS = (
    Ask("fedrap"),
    Ask("c-only", "without D"),
    Ask("fedrap", "without order", {"method.order": 0.0}),
    Ask("fedrap", "without int8", {"schedule.int8": False}),
)


class Ablation(msgspec.Struct, frozen=True):
    """The paper's variants under both protocols, ours under the honest one."""

    paper: list[Line]
    ours: list[Line]


def compute(bench: Bench) -> Ablation:
    """Every variant is tuned for itself, as the whole method is."""
    return Ablation(both_protocols(bench, PAPER), bench.lines(OURS, "clean"))


def draw(found: Ablation, frame: Frame) -> Drawn:
    """Tables of both methods and their bars."""
    title = "Variants of the paper's method"
    ours = line_table(found.ours, frame, "fedrap without its parts", frame.evaluate(OURS, "clean"))
    return Drawn(
        words=[
            "fedrap-d shares nothing at all: whatever it scores, it has from one device's own "
            "history and from its sampler. That makes it the clearest sign of the leak.",
            LEAK,
            "fedrap without order learns from whole histories and not from what came next; "
            "scoring still prefers what is recent.",
        ],
        tables=[*line_tables(found.paper, frame, title, PAPER), ours],
        pictures=[
            line_picture(found.paper, "ablation-paper", title),
            line_picture(found.ours, "ablation-ours", "fedrap without its parts"),
        ],
    )


SECTION = Section("ablation", "Ablation", compute, draw)
