"""Whether C is sparse, as the paper says of its own, and what zeros cost in `solve`."""

from __future__ import annotations

import msgspec

from fedrap_simulation.protocols.measure import measure
from fedrap_simulation.reproduce.bench import Bench
from fedrap_simulation.reproduce.document import LEAK, Cell, Drawn, Picture, Section, Table
from fedrap_simulation.reproduce.order import Ask, Frame
from fedrap_simulation.reproduce.plots import (
    BLUE,
    GREEN,
    LEAKY_RED,
    Curve,
    draw_curves,
    new_axes,
    to_svg,
)
from fedrap_simulation.reproduce.published import LARGER_THAN
from fedrap_simulation.reproduce.tables import PROTOCOLS
from fedrap_simulation.reproduce.values import Values, last_common, paper_values, solve_values


class Thresholded(msgspec.Struct, frozen=True):
    """What one soft threshold gave."""

    threshold: float  # a multiple of the median |C|, per step and eta
    zeros: float
    ndcg10_full: float  # on validation


class Sparsity(msgspec.Struct, frozen=True):
    """Entries of C and D, and quality against zeros."""

    values: list[Values]
    curve: list[Thresholded]


def compute(bench: Bench) -> Sparsity:
    """C and D of the paper's method with L1 and with L2; C of ours, and ours with thresholds."""
    values = [
        *paper_values(bench, Ask("fedrap-paper"), "clean"),
        *paper_values(bench, Ask("fedrap-l2"), "clean"),
        *paper_values(bench, Ask("fedrap-paper"), "paper"),
        solve_values(bench, Ask("fedrap")),
    ]
    curve = [_thresholded(bench, one) for one in bench.frame.scale.thresholds]
    return Sparsity(values, curve)


def _thresholded(bench: Bench, threshold: float) -> Thresholded:
    method = bench.solve(Ask("c-only", changes={"learning.threshold": threshold}))

    def make() -> Thresholded:
        task = bench.split("clean", 0).validation
        fitted = method.view(task, last_common(method, bench, task))
        found = measure(fitted, task).summary()["ndcg10_full"]
        return Thresholded(threshold, fitted.cost.zeros or 0.0, found)

    config = {"settings": method.settings, "stage": "validation"}
    return bench.piece("threshold", config, Thresholded, make)


def draw(found: Sparsity, frame: Frame) -> Drawn:
    """A table of shares, histograms, and the curve of `solve`."""
    leaky = [one for one in found.values if one.protocol == "paper"]
    return Drawn(
        words=[
            "The paper calls C sparse when entries are small. Here a zero is exactly zero: only "
            "those need not be sent. In the authors' code L1 works by sub-gradient steps and "
            "leaves none; here it is a soft threshold.",
            *([LEAK] if leaky else []),
            "For fedrap the coordinator's soft threshold buys zeros for quality; measured on "
            "validation, without personal items.",
        ],
        tables=[
            *(_table(found, frame, one) for one in PROTOCOLS if _some(found, one)),
            _curve_table(found, frame),
        ],
        pictures=[_histograms(found), _curve(found)],
    )


def _some(found: Sparsity, protocol: str) -> list[Values]:
    return [one for one in found.values if one.protocol == protocol]


def _table(found: Sparsity, frame: Frame, protocol: str) -> Table:
    some = _some(found, protocol)
    rows: list[list[Cell]] = []
    for one in some:
        told = LARGER_THAN.get(one.label, {}) if one.matrix == "C" else {}
        if frame.order.data != "ml-100k":
            told = {}
        shares: list[Cell] = [one.zeros, one.above_hundredth, one.above_tenth]
        rows.append([one.label, one.matrix, *shares, told.get("0.01"), told.get("0.1")])
    return Table(
        title=f"Entries of C and D, protocol {protocol}",
        protocol=some[0].protocol,
        columns=(
            "method",
            "matrix",
            "exact zeros",
            "|x| > 0.01",
            "|x| > 0.1",
            "> 0.01 published, LEAKY",
            "> 0.1 published, LEAKY",
        ),
        rows=rows,
        command=frame.reproduce("sparsity"),
        seeds=(0,),
    )


def _curve_table(found: Sparsity, frame: Frame) -> Table:
    start = found.curve[0].ndcg10_full or 1.0
    return Table(
        title="fedrap: zeros in C against quality, protocol clean, validation",
        protocol="clean",
        columns=("threshold", "exact zeros", "NDCG@10 full", "change"),
        rows=[
            [one.threshold, one.zeros, one.ndcg10_full, f"{one.ndcg10_full / start - 1:+.1%}"]
            for one in found.curve
        ],
        command=frame.reproduce("sparsity"),
        seeds=(0,),
        note="The threshold is a multiple of the median |C|, times eta, in every step.",
        digits={"threshold": 2},
    )


def _histograms(found: Sparsity) -> Picture:
    figure, axes = new_axes(len(found.values), 1, height=1.25 * len(found.values) + 0.5)
    for panel, one in zip(axes, found.values, strict=True):
        leaky = one.protocol == "paper"
        colour = LEAKY_RED if leaky else (BLUE if one.matrix == "C" else GREEN)
        panel.stairs(
            one.density, one.edges, color=colour, fill=not leaky, hatch="////" if leaky else None
        )
        label = f"{one.matrix} of {one.label}{' LEAKY' if leaky else ''}: {one.zeros:.1%} zeros"
        panel.set_title(label, loc="left", color=colour, fontsize=9.5)
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
    axes[-1].set_xlabel("value of an entry (height: how dense)")
    leaky = any(one.protocol == "paper" for one in found.values)
    return Picture(title="Entries of C and D", svg=to_svg(figure, "sparsity"), leaky=leaky)


def _curve(found: Sparsity) -> Picture:
    figure, axes = new_axes()
    x, y = [one.zeros for one in found.curve], [one.ndcg10_full for one in found.curve]
    label = "NDCG@10 full, validation"
    draw_curves(axes[0], [Curve("fedrap", x, y)], "share of exact zeros in C", label)
    return Picture(title="What zeros cost in fedrap", svg=to_svg(figure, "zeros"))


SECTION = Section("sparsity", "Sparsity of C", compute, draw)
