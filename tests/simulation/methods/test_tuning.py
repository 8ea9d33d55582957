"""Choosing: the best on validation, of equals the first, and as many steps as were best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pytest

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.itemknn import ItemKNN
from fedrap_simulation.methods.protocol import Cost, Fitted, OnProgress, Scores, no_progress
from fedrap_simulation.methods.tuning import Patience, choose, choose_epochs, run

from .planted import planted_split


@dataclass(frozen=True)
class Oracle:
    """Knows the answers of the planted validation task and gives away some of them."""

    share: float
    cost: Cost = Cost(rounds=1)  # noqa: RUF009

    def scores(self, users: Rows) -> Scores:
        task = planted_split().validation
        scores = np.zeros((len(users), task.items), dtype=np.float32)
        known = users < self.share * task.users
        scores[np.flatnonzero(known), task.targets[users[known]]] = 1.0
        return scores


@dataclass(frozen=True)
class Scripted:
    """After step i it knows `script[i]` of the answers."""

    script: tuple[float, ...]
    tag: str = ""
    epochs: int = 1
    name: ClassVar[str] = "scripted"

    @property
    def settings(self) -> dict[str, Any]:
        return {}

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        return self

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        return run(self, task, seed, on_progress)

    def learn(self, task: Task, seed: int) -> Iterator[Oracle]:
        yield from (Oracle(share) for share in self.script)
        raise AssertionError("went on after patience was out")


def test_keeps_the_best_and_of_equals_the_first() -> None:
    task = planted_split().validation
    candidates = [Scripted((0.2,)), Scripted((0.5,), "a"), Scripted((0.5,), "b")]
    assert choose(candidates, task, 0, no_progress).tag == "a"


def test_stops_when_patience_is_out_and_keeps_the_best_step() -> None:
    task = planted_split().validation
    script = Scripted((0.1, 0.3, 0.2, 0.3, 0.1))
    chosen = choose_epochs([script], task, 0, no_progress, Patience(longest=50, wait=3))
    assert chosen.epochs == 2


def test_stops_at_the_longest_and_looks_only_as_often_as_asked() -> None:
    task = planted_split().validation
    script = Scripted((0.1, 0.9, 0.2, 0.3, 0.2, 0.4))
    chosen = choose_epochs([script], task, 0, no_progress, Patience(longest=6, wait=3, every=3))
    assert chosen.epochs == 6  # steps 3 and 6 were looked at, so 0.9 was never seen


def test_candidates_compete_at_their_own_best_step() -> None:
    task = planted_split().validation
    candidates = [Scripted((0.4, 0.2, 0.2), "a"), Scripted((0.1, 0.5, 0.2, 0.2), "b")]
    patience = Patience(longest=10, wait=2)
    chosen = choose_epochs(candidates, task, 0, no_progress, patience)
    assert (chosen.tag, chosen.epochs) == ("b", 2)
    fitted = chosen.fit(task, 0, no_progress)
    assert isinstance(fitted, Oracle)
    assert fitted.share == 0.5


def test_refuses_a_test_task() -> None:
    with pytest.raises(ValueError, match="this is the test task of planted"):
        choose([Scripted((0.2,))], planted_split().test, 0, no_progress)


def test_a_real_method_comes_back_with_settings_of_its_grid() -> None:
    shares: list[float] = []
    chosen = ItemKNN(neighbours=1, shrinkage=99.0).tune(
        planted_split().validation, 0, lambda share, _words: shares.append(share)
    )
    assert chosen.neighbours in (20, 50, 100, 200)
    assert chosen.shrinkage in (0.0, 10.0, 50.0)
    assert len(shares) == 12
    assert shares[-1] == 1.0
