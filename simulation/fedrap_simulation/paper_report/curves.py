"""Quality by round: the model after each round, asked now and then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal

import msgspec

from fedrap_simulation.evaluation.metrics import measure
from fedrap_simulation.evaluation.task import ProtocolName, Stage, Task
from fedrap_simulation.methods.protocol import Fitted
from fedrap_simulation.paper_report.bench import Bench
from fedrap_simulation.paper_report.plots import Curve
from fedrap_simulation.paper_report.request import PAPER_METHODS, Ask

Measure = Literal["hr10", "ndcg10", "hr10_full", "ndcg10_full"]
MEASURES: tuple[Measure, ...] = ("hr10", "ndcg10", "hr10_full", "ndcg10_full")


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """What a method reached after how many rounds."""

    label: str
    protocol: ProtocolName
    leaky: bool
    rounds: list[int]
    hr10: list[float]
    ndcg10: list[float]
    hr10_full: list[float]
    ndcg10_full: list[float]

    def curve(self, name: Measure) -> Curve:
        """One measure as a line to draw."""
        words = f"{self.label}\nLEAKY" if self.leaky else self.label
        return Curve(words, [float(one) for one in self.rounds], getattr(self, name), self.leaky)


def looks(rounds: int, every: int) -> list[int]:
    """When to ask: the first rounds one by one, then every few, and at the end."""
    early = [one for one in (1, 2, 3) if one < every]
    return sorted({*early, *range(every, rounds, every), rounds})


def follow(
    bench: Bench,
    ask: Ask,
    protocol: ProtocolName,
    rounds: int,
    every: int,
    stage: Stage = "test",
) -> Course:
    """The course of a method, by the first seed; from the cache where it is known."""
    method = bench.paper(ask) if ask.method in PAPER_METHODS else bench.solve(ask)
    config = {
        "method": ask.method,
        "settings": method.settings,
        "protocol": protocol,
        "stage": stage,
        "looks": looks(rounds, every),
    }

    def make() -> Course:
        split = bench.split(protocol, 0)
        task = split.test if stage == "test" else split.validation
        return _course(bench, ask, task, looks(rounds, every))

    course = bench.piece("course", config, Course, make)
    return msgspec.structs.replace(course, label=ask.name)


def _course(bench: Bench, ask: Ask, task: Task, wanted: list[int]) -> Course:
    found: dict[Measure, list[float]] = {name: [] for name in MEASURES}
    for step, fitted in _states(bench, ask, task, wanted):
        summary = measure(fitted, task).summary()
        for name in MEASURES:
            found[name].append(summary[name])
        bench.on_progress(step / wanted[-1], f"{ask.name}, {task.protocol}, round {step}")
    leaky = task.protocol == "paper"
    return Course(label=ask.name, protocol=task.protocol, leaky=leaky, rounds=wanted, **found)


def _states(bench: Bench, ask: Ask, task: Task, wanted: list[int]) -> Iterator[tuple[int, Fitted]]:
    """The model at the rounds that are wanted."""
    if ask.method in PAPER_METHODS:
        states: Iterable[Fitted] = islice(bench.paper(ask).learn(task, 0), wanted[-1])
        yield from ((step, one) for step, one in enumerate(states, 1) if step in wanted)
        return
    solve = bench.solve(ask)
    for release in solve.released(task, 0):
        if release.step in wanted:
            yield release.step, solve.view(task, release.common)
