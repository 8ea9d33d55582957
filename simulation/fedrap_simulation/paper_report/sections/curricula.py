"""Whether it matters how lambda and mu grow: the paper's five curricula."""

from __future__ import annotations

from typing import get_args

import msgspec

from fedrap_core.paper.curriculum import Curriculum, curriculum_share
from fedrap_simulation.paper_report.bench import Bench, Line
from fedrap_simulation.paper_report.document import LEAK, Drawn, Picture, Section
from fedrap_simulation.paper_report.plots import PALETTE, new_axes, to_svg
from fedrap_simulation.paper_report.request import Ask, Frame
from fedrap_simulation.paper_report.tables import both_protocols, line_picture, line_tables

ASKS = (
    Ask("fedrap-paper", "tanh"),
    Ask("fedrap-fixed", "fixed"),
    Ask("fedrap-sin", "sin"),
    Ask("fedrap-square", "square"),
    Ask("fedrap-frac", "frac"),
)
ROUNDS = 100  # of the drawing of the weights, as in the paper


class Curricula(msgspec.Struct, frozen=True):
    """All curricula under both protocols, and the weights they give."""

    lines: list[Line]
    weights: dict[str, list[float]]  # by curriculum, of rounds 1 to ROUNDS, largest 1


def compute(bench: Bench) -> Curricula:
    """Every curriculum is tuned for itself."""
    names: tuple[Curriculum, ...] = get_args(Curriculum)
    weights = {
        str(name): [curriculum_share(name, step) for step in range(1, ROUNDS + 1)] for name in names
    }
    return Curricula(both_protocols(bench, ASKS), weights)


def draw(found: Curricula, frame: Frame) -> Drawn:
    """Tables, their bars, and what the weights look like."""
    title = "Curricula of lambda and mu"
    return Drawn(
        words=[
            "The paper finds tanh best and frac worst, and reads from it that additive "
            "personalisation harms early. In the authors' public code the curriculum is computed "
            "and not used.",
            LEAK,
        ],
        tables=line_tables(found.lines, frame, title, ASKS),
        pictures=[line_picture(found.lines, "curricula", title), _weights(found)],
    )


def _weights(found: Curricula) -> Picture:
    figure, axes = new_axes(len(found.weights), 1, height=0.8 * len(found.weights) + 0.4)
    for panel, colour, (name, shares) in zip(axes, PALETTE, found.weights.items(), strict=True):
        panel.plot(range(1, len(shares) + 1), shares, color=colour)
        panel.set_ylim(-0.05, 1.1)
        panel.set_yticks([0, 1])
        panel.set_title(name, loc="left", color=colour, fontsize=9.5)
        if panel is not axes[-1]:
            panel.set_xticklabels([])
    axes[-1].set_xlabel("round")
    title = "Weight of both regularisers by round, as a share of its largest value"
    return Picture(title=title, svg=to_svg(figure, "curricula-weights"))


SECTION = Section("curricula", "Curricula", compute, draw)
