"""Items in two dimensions: rows of C and of one device's D, as in the paper's last figure."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_simulation.evaluation.task import ProtocolName, Task
from fedrap_simulation.paper_report.bench import Bench
from fedrap_simulation.paper_report.document import LEAK, Cell, Drawn, Picture, Section, Table
from fedrap_simulation.paper_report.matrix_values import last_common, last_matrices
from fedrap_simulation.paper_report.plots import INK, LEAKY_RED, new_axes, to_svg
from fedrap_simulation.paper_report.request import Ask, Frame

Numbers = npt.NDArray[Any]


class Map(msgspec.Struct, frozen=True, kw_only=True):
    """Where t-SNE puts a sample of items."""

    label: str
    protocol: ProtocolName
    x: list[float]
    y: list[float]
    popularity: list[int]  # histories with this item
    own: list[bool]  # whether the device's user has it
    apart: float | None  # AUC of telling own and other items apart, in all k dimensions


class Maps(msgspec.Struct, frozen=True):
    """All maps, and whose D they show."""

    maps: list[Map]


def compute(bench: Bench) -> Maps:
    """C, D and C + D of the paper's method under both protocols, and C of ours."""
    paper = [_paper(bench, "clean"), _paper(bench, "paper")]
    return Maps([*paper[0], *paper[1], _ours(bench)])


def sample(task: Task, size: int) -> tuple[int, Numbers]:
    """A user with a history of middling length, and items: half of them the user's if possible."""
    user = int(np.argsort(task.train.lengths, kind="stable")[task.users // 2])
    rng = np.random.default_rng(0)
    own = np.unique(task.train.of(user))
    own = rng.permutation(own)[: size // 2]
    rest = np.setdiff1d(np.flatnonzero(task.counts() > 0), task.train.of(user))
    more = rng.permutation(rest)[: size - len(own)]
    return user, np.sort(np.concatenate([own, more]))


def _paper(bench: Bench, protocol: ProtocolName) -> list[Map]:
    method = bench.paper(Ask("fedrap-paper"))
    config: dict[str, Any] = {"settings": method.settings, "protocol": protocol}
    config["sample"] = bench.frame.scale.sample

    def make() -> list[Map]:
        task = bench.split(protocol, 0).test
        user, items = sample(task, bench.frame.scale.sample)
        common, personal = last_matrices(method, bench, task)
        mine = personal[user]
        matrices = {"C": common, "D": mine, "C + D": common + mine}
        return [
            _place(bench, f"{name} of fedrap-paper", matrix[items], task, user, items)
            for name, matrix in matrices.items()
        ]

    return bench.piece("maps", config, list[Map], make)


def _ours(bench: Bench) -> Map:
    method = bench.solve(Ask("fedrap"))
    config = {"settings": method.settings, "sample": bench.frame.scale.sample}

    def make() -> Map:
        task = bench.split("clean", 0).test
        user, items = sample(task, bench.frame.scale.sample)
        common = last_common(method, bench, task)
        return _place(bench, "C of fedrap", common[items], task, user, items)

    return bench.piece("map", config, Map, make)


def _place(bench: Bench, label: str, rows: Numbers, task: Task, user: int, items: Numbers) -> Map:
    from sklearn.manifold import TSNE

    bench.on_progress(0.99, f"t-SNE of {label}")
    perplexity = min(30.0, (len(rows) - 1) / 3)
    placed = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(
        np.asarray(rows, dtype=np.float64)
    )
    own = np.isin(items, task.train.of(user))
    return Map(
        label=label,
        protocol=task.protocol,
        x=[round(float(one), 3) for one in placed[:, 0]],
        y=[round(float(one), 3) for one in placed[:, 1]],
        popularity=[int(one) for one in task.counts()[items]],
        own=[bool(one) for one in own],
        apart=told_apart(rows, own),
    )


def told_apart(rows: Numbers, own: npt.NDArray[np.bool_]) -> float | None:
    """AUC along the line between the means of own and other items, by halves.

    The line is drawn through one half of the items and judged on the other, so 0.5 is chance.
    """
    from sklearn.metrics import roc_auc_score

    half = np.zeros(len(own), dtype=np.bool_)
    for kind in (np.flatnonzero(own), np.flatnonzero(~own)):
        if len(kind) < 2:
            return None
        half[kind[::2]] = True
    found = []
    for known in (half, ~half):
        direction = rows[known & own].mean(axis=0) - rows[known & ~own].mean(axis=0)  # (k,)
        found.append(float(roc_auc_score(own[~known], rows[~known] @ direction)))
    return float(np.mean(found))


def draw(found: Maps, frame: Frame) -> Drawn:
    """A map for each matrix, and a table of how far own items stand apart."""
    figure, axes = new_axes(
        (len(found.maps) + 1) // 2, 2, height=2.5 * ((len(found.maps) + 1) // 2)
    )
    for panel, one in zip(axes, found.maps, strict=False):
        size = np.log1p(np.array(one.popularity))
        own = np.array(one.own)
        x, y = np.array(one.x), np.array(one.y)
        low, high = float(size.min()), float(size.max())
        panel.scatter(
            x[~own], y[~own], 7, size[~own], cmap="plasma", vmin=low, vmax=high, rasterized=True
        )
        panel.scatter(
            x[own], y[own], 20, size[own], marker="^", cmap="plasma", vmin=low, vmax=high,
            edgecolors="#8a9099", linewidths=0.5, rasterized=True,
        )  # fmt: skip
        leaky = one.protocol == "paper"
        title = f"{one.label}\nLEAKY" if leaky else one.label
        panel.set_title(title, fontsize=9.5, color=LEAKY_RED if leaky else INK)
        panel.set_xticks([])
        panel.set_yticks([])
    for panel in axes[len(found.maps) :]:
        panel.set_axis_off()
    picture = Picture(
        title="Items by t-SNE; triangles: the user's own; colour: dark rare, bright popular",
        svg=to_svg(figure, "tsne"),
        leaky=True,
    )
    words = [
        "One device of middling history. The paper shows that D tells a user's own items from "
        "others while C does not: those were trained as positives and most others as negatives, "
        "so it says nothing about items the user has yet to meet.",
        LEAK,
    ]
    return Drawn(words=words, tables=_tables(found, frame), pictures=[picture])


def _tables(found: Maps, frame: Frame) -> list[Table]:
    protocols: tuple[ProtocolName, ...] = ("clean", "paper")
    out = []
    for protocol in protocols:
        rows: list[list[Cell]] = [
            [one.label, len(one.own), sum(one.own), one.apart]
            for one in found.maps
            if one.protocol == protocol
        ]
        table = Table(
            title=f"How far a user's own items stand apart, protocol {protocol}",
            protocol=protocol,
            columns=("matrix", "items", "the user's own", "AUC"),
            rows=rows,
            command=frame.reproduce("tsne"),
            seeds=(0,),
            note="AUC along the line between the means of own and other items of one half, judged "
            "on the other half; 0.5 is chance.",
        )
        out.append(table)
    return out


SECTION = Section("tsne", "Maps of items", compute, draw)
