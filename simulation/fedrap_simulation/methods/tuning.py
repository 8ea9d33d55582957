"""How settings are chosen: always on a validation task, always by NDCG@10 over all items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from fedrap_simulation.evaluation.metrics import gains, measure
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import Fitted, Method, OnProgress, no_progress


class Learner(Method, Protocol):
    """A method that learns step by step and can be asked after each step."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def epochs(self) -> int:
        """How many steps `fit` takes."""

    def learn(self, task: Task, seed: int) -> Iterator[Fitted]:
        """The state after each step, without end; only the newest state is valid."""


M = TypeVar("M", bound=Method)
L = TypeVar("L", bound=Learner)


@dataclass(frozen=True)
class Patience:
    """When to stop: after `longest` steps, or when `wait` looks in a row brought no better."""

    longest: int
    wait: int = 5
    every: int = 1  # steps between two looks


def is_large(task: Task) -> bool:
    """Whether a step of a learner takes so long that fewer settings can be tried.

    Two cores need about half a minute for an epoch over a million interactions.
    """
    return len(task.train.items) > 500_000


def require_validation(task: Task) -> None:
    """Refuse to choose settings by looking at the answers that are reported.

    Raises:
        ValueError: the task is a test.
    """
    if task.stage != "validation":
        raise ValueError(
            f"settings are chosen on a validation task, but this is the {task.stage} task"
            f" of {task.dataset}"
        )


def quality(fitted: Fitted, task: Task) -> float:
    """What settings are chosen by: NDCG@10 among all items not seen."""
    return float(gains(measure(fitted, task, top=0).full).mean())


def choose(candidates: Sequence[M], task: Task, seed: int, on_progress: OnProgress) -> M:
    """The candidate that does best on a validation task; of equals the first.

    Where the task has earlier ones, by all their answers together.
    """
    require_validation(task)
    best, best_quality = candidates[0], -1.0
    for place, candidate in enumerate(candidates):
        found = [
            gains(measure(candidate.fit(one, seed, no_progress), one, top=0).full)
            for one in (task, *task.earlier)
        ]
        reached = float(np.concatenate(found).mean())
        if reached > best_quality:
            best, best_quality = candidate, reached
        on_progress((place + 1) / len(candidates), f"{candidate.name}: {best_quality:.4f}")
    return best


def choose_epochs(
    candidates: Sequence[L], task: Task, seed: int, on_progress: OnProgress, patience: Patience
) -> L:
    """The candidate and the number of steps that do best; of equals the first and shortest."""
    require_validation(task)
    best, best_quality = candidates[0], -1.0
    for place, candidate in enumerate(candidates):

        def tell(share: float, words: str, place: int = place) -> None:
            on_progress((place + share) / len(candidates), words)

        epochs, reached = _stop_early(candidate, task, seed, tell, patience)
        if reached > best_quality:
            best, best_quality = replace(candidate, epochs=epochs), reached
    return best


def _stop_early(
    learner: Learner, task: Task, seed: int, on_progress: OnProgress, patience: Patience
) -> tuple[int, float]:
    """How many steps were best, and how good that was."""
    best, best_quality = patience.every, -1.0
    for step, fitted in enumerate(learner.learn(task, seed), start=1):
        if step % patience.every == 0:
            reached = quality(fitted, task)
            if reached > best_quality:
                best, best_quality = step, reached
            words = f"{learner.name} step {step}: {reached:.4f}, best {best_quality:.4f}"
            on_progress(min(1.0, step / patience.longest), words)
        if step >= patience.longest or step - best >= patience.wait * patience.every:
            break
    on_progress(1.0, f"{learner.name}: {best_quality:.4f} after {best} steps")
    return best, best_quality


def run(learner: Learner, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
    """The state after `learner.epochs` steps."""
    steps = learner.learn(task, seed)
    fitted = next(steps)
    for step in range(1, learner.epochs):
        on_progress(step / learner.epochs, f"{learner.name} step {step} of {learner.epochs}")
        fitted = next(steps)
    on_progress(1.0, f"{learner.name}: {learner.epochs} steps")
    return fitted
