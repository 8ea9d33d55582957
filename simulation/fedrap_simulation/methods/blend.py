"""A diagnostic: how much better `fedrap-sequence` would be if it had the table of counts, too.

    z_j = unit(ours)_j + weight·unit(log(counts + floor))_j

`unit` takes the mean over items away and divides by the deviation, user by user. `transitions`
needs everybody's histories in one place, so this is nothing that could be shipped: what it gains
over `fedrap-sequence` is what the shared model still misses.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.transitions import Transitions
from fedrap_simulation.methods.protocol import Cost, Fitted, OnProgress, Scores, no_progress
from fedrap_simulation.methods.sequence import FEDRAP_SEQUENCE, Sequence
from fedrap_simulation.methods.tuning import quality, require_validation

WEIGHTS: Several[float] = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
FLOOR = 1e-4  # of the largest count of a user: what nobody followed is far away, not infinitely


@dataclass(frozen=True, eq=False)
class BlendFitted:
    """Both, as they were fitted."""

    ours: Fitted
    counted: Fitted
    weight: float

    @property
    def cost(self) -> Cost:
        """Ours: the table costs a device nothing but its history."""
        return self.ours.cost

    def scores(self, users: Rows) -> Scores:
        """(len(users), m)."""
        counts = self.counted.scores(users)
        counts = np.log(np.maximum(counts, 0.0) + FLOOR * counts.max(axis=1, keepdims=True) + 1e-30)
        mixed = unit(self.ours.scores(users)) + np.float32(self.weight) * unit(counts)
        return np.asarray(mixed, dtype=np.float32)


def unit(scores: Scores) -> Scores:
    """Mean zero and deviation one over the items of each user."""
    away = scores - scores.mean(axis=1, keepdims=True)
    return np.asarray(away / (away.std(axis=1, keepdims=True) + np.float32(1e-12)))


@dataclass(frozen=True)
class Blend:
    """`fedrap-sequence` and `transitions`, added up."""

    ours: Sequence = FEDRAP_SEQUENCE
    counted: Transitions = Transitions()  # noqa: RUF009
    weight: float = 0.2
    name: str = "blend-transitions"

    @property
    def settings(self) -> dict[str, Any]:
        """Of both."""
        return {
            "weight": self.weight,
            "ours": self.ours.settings,
            "counted": self.counted.settings,
        }

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Each on its own, then the weight."""
        require_validation(task)
        ours = self.ours.tune(task, seed, lambda done, words: on_progress(0.6 * done, words))
        counted = self.counted.tune(
            task, seed, lambda done, words: on_progress(0.6 + 0.3 * done, words)
        )
        tuned = replace(self, ours=ours, counted=counted)
        fitted = tuned.fit(task, seed, no_progress)
        found = [quality(replace(fitted, weight=one), task) for one in WEIGHTS]
        on_progress(1.0, self.name)
        return replace(tuned, weight=WEIGHTS[int(np.argmax(found))])

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> BlendFitted:
        """Both."""
        ours = self.ours.fit(task, seed, lambda done, words: on_progress(0.9 * done, words))
        counted = self.counted.fit(task, seed, no_progress)
        on_progress(1.0, self.name)
        return BlendFitted(ours, counted, self.weight)
