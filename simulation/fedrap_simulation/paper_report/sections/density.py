"""How quality falls when less of each history is known, for the same questions."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from fedrap_simulation.data.interactions import Histories
from fedrap_simulation.evaluation.metrics import measure
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.registry import make_method
from fedrap_simulation.paper_report.bench import Bench
from fedrap_simulation.paper_report.document import Cell, Drawn, Picture, Section, Table
from fedrap_simulation.paper_report.plots import Curve, draw_curves, new_axes, to_svg
from fedrap_simulation.paper_report.published import SPARSITY_LEVELS
from fedrap_simulation.paper_report.request import Ask, Frame


class Thinned(msgspec.Struct, frozen=True):
    """One method by the share of each history that it learnt from."""

    method: str
    kept: list[float]
    cells: list[float]  # share of the user-item cells that are filled
    hr10: list[float]
    ndcg10_full: list[float]


class Density(msgspec.Struct, frozen=True):
    """All methods, mean over the seeds."""

    methods: list[Thinned]


def thin(task: Task, kept: float, seed: int) -> Task:
    """The same questions with a random part of each training history, at least one item, in order.

    What is not kept may be drawn as a negative: nobody knows of it.
    """
    if kept >= 1.0:
        return task
    train = task.train
    owners, lengths = train.owners, train.lengths
    draws = np.random.default_rng([seed, 0x7417]).random(len(train.items))
    place = np.empty(len(draws), dtype=np.int64)  # among the draws of the same user
    place[np.lexsort((draws, owners))] = np.arange(len(draws)) - train.starts[owners]
    wanted = np.maximum(1, np.rint(kept * lengths).astype(np.int64))
    keep = place < wanted[owners]
    counts = np.bincount(owners[keep], minlength=len(lengths))
    fewer = Histories(np.concatenate([[0], np.cumsum(counts)]), train.items[keep])
    return replace(task, train=fewer, barred=fewer)


def compute(bench: Bench) -> Density:
    """Settings are chosen once, on validation with whole histories, and kept."""
    return Density([_method(bench, name) for name in bench.frame.scale.thinned])


def _method(bench: Bench, name: str) -> Thinned:
    scale = bench.frame.scale
    found: list[Thinned] = []
    start = make_method(name, bench.frame.changes(Ask(name)))
    for seed in bench.frame.seeds:

        def make(seed: int = seed) -> Thinned:
            split, method = bench.split("clean", seed), start
            if scale.tune:
                first = bench.split("clean", 0).validation
                method = method.tune(
                    first, 0, lambda done, words: bench.on_progress(done / 2, words)
                )
            out = Thinned(name, list(scale.kept), [], [], [])
            for place, kept in enumerate(scale.kept):
                fewer = thin(split.test, kept, seed)
                bench.on_progress(
                    (1 + place / len(scale.kept)) / 2, f"{name}, {kept:.0%} of each history"
                )
                # Asked on the whole task, so that the candidates are the same for every share.
                summary = measure(method.fit(fewer, seed, _silent), split.test).summary()
                out.cells.append(len(fewer.train.items) / fewer.users / fewer.items)
                out.hr10.append(summary["hr10"])
                out.ndcg10_full.append(summary["ndcg10_full"])
            return out

        config = {
            "method": name,
            "settings": start.settings,
            "tune": scale.tune,
            "kept": list(scale.kept),
            "seed": seed,
        }
        found.append(bench.piece("density", config, Thinned, make))
    columns = {
        column: [float(one) for one in np.mean([getattr(each, column) for each in found], axis=0)]
        for column in ("cells", "hr10", "ndcg10_full")
    }
    return Thinned(name, list(scale.kept), **columns)


def _silent(_done: float, _words: str) -> None:
    """The bar moves by share kept, not by round."""


def draw(found: Density, frame: Frame) -> Drawn:
    """A table and a panel for each measure."""
    figure, axes = new_axes(2, 1, height=6.0)
    panels = (("hr10", "HR@10, 99 negatives"), ("ndcg10_full", "NDCG@10, full ranking"))
    for panel, (measure_name, words) in zip(axes, panels, strict=True):
        curves = [
            Curve(one.method, [100 * share for share in one.kept], getattr(one, measure_name))
            for one in found.methods
        ]
        draw_curves(panel, curves, "% of each training history that is kept", words)
    tables = [_table(found, frame)]
    if frame.request.data == "ml-1m":
        tables.append(_published(frame))
    return Drawn(
        words=[
            "Interactions are left out at random from each training history. Questions and "
            "candidates stay the same; settings are those chosen with whole histories.",
        ],
        tables=tables,
        pictures=[Picture(title="Quality by density", svg=to_svg(figure, "density"))],
    )


def _table(found: Density, frame: Frame) -> Table:
    rows: list[list[Cell]] = [
        [one.method, f"{share:.0%}", f"{1 - cells:.2%}", hr, ndcg]
        for one in found.methods
        for share, cells, hr, ndcg in zip(
            one.kept, one.cells, one.hr10, one.ndcg10_full, strict=True
        )
    ]
    return Table(
        title="Quality by density of the training data, protocol clean",
        protocol="clean",
        columns=("method", "kept", "empty cells", "HR@10, 99 neg.", "NDCG@10 full"),
        rows=rows,
        command=frame.reproduce("density"),
        seeds=frame.seeds,
    )


def _published(frame: Frame) -> Table:
    return Table(
        title="FedRAP on parts of ML-1M as published, protocol paper",
        protocol="paper",
        columns=("part", "empty cells", "HR@10", "NDCG@10"),
        rows=[
            [part, f"{empty:.2%}", quality.hr10, quality.ndcg10]
            for part, empty, quality in SPARSITY_LEVELS
        ],
        command=frame.reproduce("density"),
        seeds=frame.seeds,
        note="Copied from the paper.",
        digits={"HR@10": 4, "NDCG@10": 4},
    )


SECTION = Section("density", "Density of the data", compute, draw)
