"""`itemknn-lately`: neighbours, and what was touched lately: all that is simple and knows the time.

    z_j = neighbours_j + weight·t_j

The trend is the one that `fedrap-trend` has, so what is left between the two is the rest.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.recency import ITEMKNN_RECENCY, Recent
from fedrap_simulation.methods.lately import Trends, told_in_time
from fedrap_simulation.methods.protocol import FREE, Cost, Fitted, OnProgress, Scores, no_progress
from fedrap_simulation.methods.solve import voters
from fedrap_simulation.methods.tuning import quality, require_validation

HALVES = (0.5, 1.0, 2.0, 7.0)  # days
CONTRASTS = (0.0, 0.5, 0.9)
WEIGHTS = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)


@dataclass(frozen=True, eq=False)
class LatelyFitted:
    """Both, as they were fitted."""

    inner: Fitted
    trends: Trends
    weight: float
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        """(len(users), m)."""
        scores = np.asarray(self.inner.scores(users), dtype=np.float32)
        return np.asarray(scores + np.float32(self.weight) * self.trends.of(users))


@dataclass(frozen=True)
class Lately:
    """`itemknn-recency` and the trend."""

    inner: Recent = ITEMKNN_RECENCY
    half_days: float = 1.0
    contrast: float = 0.0
    weight: float = 0.02
    name: str = "itemknn-lately"

    @property
    def settings(self) -> dict[str, Any]:
        """Of both."""
        mine = {
            "half_days": self.half_days,
            "contrast": self.contrast,
            "weight": self.weight,
        }
        return {**mine, "inner": {**self.inner.inner.settings, **asdict(self.inner.fading)}}

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Neighbours on their own, then the trend and its weight by as many users as vote."""
        require_validation(task)
        inner = self.inner.tune(task, seed, lambda done, words: on_progress(0.7 * done, words))
        learnt = inner.fit(task, seed, no_progress)
        asked = replace(task, asked=voters(task, seed))
        best, reached = replace(self, inner=inner, weight=0.0), -1.0
        for half, contrast in product(HALVES, CONTRASTS):
            trends = told_in_time(task, half, contrast)
            for weight in WEIGHTS:
                found = quality(LatelyFitted(learnt, trends, weight), asked)
                if found > reached:
                    best, reached = (
                        replace(best, half_days=half, contrast=contrast, weight=weight),
                        found,
                    )
            on_progress(0.7 + 0.3 * (1 + HALVES.index(half)) / len(HALVES), self.name)
        return best

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> LatelyFitted:
        """Learn as neighbours do.

        Raises:
            BadData: there are no times, or they are no times.
        """
        if task.times is None:
            raise BadData(f"{self.name} wants times, and those of {task.dataset} are none")
        learnt = self.inner.fit(task, seed, on_progress)
        return LatelyFitted(learnt, told_in_time(task, self.half_days, self.contrast), self.weight)
