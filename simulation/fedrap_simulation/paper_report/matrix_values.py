"""What is in a matrix: exact zeros, small and large entries, and how they are spread."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_simulation.evaluation.task import ProtocolName, Task
from fedrap_simulation.methods.paper import FedRap
from fedrap_simulation.methods.solve import Solve
from fedrap_simulation.paper_report.bench import Bench
from fedrap_simulation.paper_report.request import Ask

BINS = 81
DEVICES = 100  # at most, whose D are looked at

Numbers = npt.NDArray[Any]


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of one matrix, in numbers that can be kept."""

    label: str
    matrix: str  # C or D
    protocol: ProtocolName
    zeros: float  # share of exact zeros
    above_hundredth: float  # share with |x| > 0.01
    above_tenth: float  # share with |x| > 0.1
    edges: list[float]  # (BINS + 1,)
    density: list[float]  # (BINS,)


def describe(entries: Numbers, label: str, matrix: str, protocol: ProtocolName) -> Values:
    """Shares, and a histogram between the quantiles that leave out one entry in 500."""
    size = np.abs(entries)
    reach = float(np.quantile(size, 0.998)) or 1.0
    counts, edges = np.histogram(entries, BINS, (-reach, reach))
    return Values(
        label=label,
        matrix=matrix,
        protocol=protocol,
        zeros=float(np.mean(entries == 0.0)),
        above_hundredth=float(np.mean(size > 0.01)),
        above_tenth=float(np.mean(size > 0.1)),
        edges=[round(float(one), 6) for one in edges],
        density=[float(one) for one in counts / max(1, counts.sum()) / np.diff(edges)],
    )


def last_common(method: Solve, bench: Bench, task: Task, seed: int = 0) -> Numbers:
    """C after all rounds of `solve`: (m, k)."""
    for release in method.released(task, seed):
        bench.on_progress(
            release.step / method.schedule.rounds, f"{method.name} round {release.step}"
        )
        common = release.common
    return common


def last_matrices(method: FedRap, bench: Bench, task: Task) -> tuple[Numbers, Numbers]:
    """C (m, k) and the D of all devices (U, m, k) after `epochs` rounds of the paper's method."""
    for people in islice(method.learn(task, 0), method.epochs):
        rounds, model = people.people.rounds, people.people.model
        bench.on_progress(rounds / method.epochs, f"{method.name}, {task.protocol}, round {rounds}")
    return model.common, model.personal


def paper_values(bench: Bench, ask: Ask, protocol: ProtocolName) -> list[Values]:
    """C and D of one of the paper's methods."""
    method = bench.paper(ask)
    config = {"method": ask.method, "settings": method.settings, "protocol": protocol}

    def make() -> list[Values]:
        common, personal = last_matrices(method, bench, bench.split(protocol, 0).test)
        some = np.linspace(0, len(personal) - 1, min(DEVICES, len(personal))).astype(np.int64)
        return [
            describe(common, ask.name, "C", protocol),
            describe(personal[some], ask.name, "D", protocol),
        ]

    return bench.piece("values", config, list[Values], make)


def solve_values(bench: Bench, ask: Ask) -> Values:
    """C of `solve`."""
    method = bench.solve(ask)
    config = {"method": ask.method, "settings": method.settings}

    def make() -> Values:
        common = last_common(method, bench, bench.split("clean", 0).test)
        return describe(common, ask.name, "C", "clean")

    return bench.piece("values", config, Values, make)
