"""Whether C is sparse, as the paper says of its own, and what zeros cost in `solve`."""

from __future__ import annotations

import msgspec
import numpy as np

from fedrap_simulation.evaluation.metrics import gains, measure
from fedrap_simulation.paper_report.bench import Bench
from fedrap_simulation.paper_report.document import LEAK, Cell, Drawn, Picture, Section, Table
from fedrap_simulation.paper_report.matrix_values import (
    Values,
    last_common,
    paper_values,
    solve_values,
)
from fedrap_simulation.paper_report.plots import (
    BLUE,
    GREEN,
    LEAKY_RED,
    Curve,
    draw_curves,
    new_axes,
    to_svg,
)
from fedrap_simulation.paper_report.published import LARGER_THAN
from fedrap_simulation.paper_report.request import Ask, Frame
from fedrap_simulation.paper_report.tables import PROTOCOLS


class Zeroed(msgspec.Struct, frozen=True):
    """What one share of zeros gave, on validation, mean over the seeds."""

    zeros: float  # share that was asked for
    found: float  # exact zeros in C
    ndcg10_full: float
    ndcg_full: float  # without a cut, which tells small differences apart with fewer users


class Sparsity(msgspec.Struct, frozen=True):
    """Entries of C and D, and quality against zeros."""

    values: list[Values]
    curve: list[Zeroed]


def compute(bench: Bench) -> Sparsity:
    """C and D of the paper's method with L1 and with L2; C of ours, and ours by zeros."""
    values = [
        *paper_values(bench, Ask("fedrap-paper"), "clean"),
        *paper_values(bench, Ask("fedrap-l2"), "clean"),
        *paper_values(bench, Ask("fedrap-paper"), "paper"),
        solve_values(bench, Ask("fedrap")),
    ]
    curve = [_zeroed(bench, one) for one in bench.frame.scale.zeros]
    return Sparsity(values, curve)


def _zeroed(bench: Bench, zeros: float) -> Zeroed:
    method = bench.solve(Ask("c-only", changes={"learning.zeros": zeros}))
    seen: list[Zeroed] = []
    for seed in bench.frame.seeds:

        def make(seed: int = seed) -> Zeroed:
            task = bench.split("clean", seed).validation
            fitted = method.view(task, last_common(method, bench, task, seed))
            ranks = measure(fitted, task).full
            uncut = float(gains(ranks, task.items).mean())
            return Zeroed(zeros, fitted.cost.zeros or 0.0, float(gains(ranks).mean()), uncut)

        config = {"settings": method.settings, "stage": "validation", "seed": seed}
        seen.append(bench.piece("zeros", config, Zeroed, make))
    names = ("found", "ndcg10_full", "ndcg_full")
    return Zeroed(zeros, *(float(np.mean([getattr(one, name) for one in seen])) for name in names))


def draw(found: Sparsity, frame: Frame) -> Drawn:
    """A table of shares, histograms, and the curve of `solve`."""
    leaky = [one for one in found.values if one.protocol == "paper"]
    return Drawn(
        words=[
            "The paper calls C sparse when entries are small. Here a zero is exactly zero: only "
            "those need not be sent. In the authors' code L1 works by sub-gradient steps and "
            "leaves none; in our fedrap-paper it is a soft threshold.",
            *([LEAK] if leaky else []),
            "In fedrap the coordinator sets the smallest entries of C to zero, from the middle of "
            "the rounds on. What that costs is measured on validation, without personal items.",
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
        if frame.request.data != "ml-100k":
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
    dense = found.curve[0]

    def change(now: float, before: float) -> str:
        return f"{now / (before or 1.0) - 1:+.1%}"

    return Table(
        title="fedrap: zeros in C against quality, protocol clean, validation",
        protocol="clean",
        columns=("asked", "exact zeros", "NDCG@10 full", "change", "NDCG full, no cut", "change "),
        rows=[
            [
                one.zeros,
                one.found,
                one.ndcg10_full,
                change(one.ndcg10_full, dense.ndcg10_full),
                one.ndcg_full,
                change(one.ndcg_full, dense.ndcg_full),
            ]
            for one in found.curve
        ],
        command=frame.reproduce("sparsity"),
        seeds=frame.seeds,
        note="NDCG without a cut counts every rank, so it varies less between seeds.",
        digits={"asked": 2},
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
    x = [one.found for one in found.curve]
    curves = [
        Curve("NDCG@10", x, [one.ndcg10_full for one in found.curve]),
        Curve("NDCG, no cut", x, [one.ndcg_full for one in found.curve]),
    ]
    draw_curves(axes[0], curves, "share of exact zeros in C", "full ranking, validation")
    return Picture(title="What zeros cost in fedrap", svg=to_svg(figure, "zeros"))


SECTION = Section("sparsity", "Sparsity of C", compute, draw)
