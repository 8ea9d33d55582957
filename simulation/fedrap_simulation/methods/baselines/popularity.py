"""The two methods without learning: what everybody takes, and what the user took before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import FREE, Cost, OnProgress, Scores


@dataclass(frozen=True, eq=False)
class _Same:
    """The same scores for everybody."""

    row: Scores  # (m,)
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        return np.tile(self.row, (len(users), 1))


@dataclass(frozen=True)
class Popularity:
    """Items by the number of training histories that hold them; equals stay equal."""

    name: ClassVar[str] = "popularity"

    @property
    def settings(self) -> dict[str, Any]:
        """There is nothing to set."""
        return {}

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Itself."""
        return self

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> _Same:
        """Count."""
        counts = task.counts().astype(np.float32)  # (m,)
        on_progress(1.0, self.name)
        return _Same(counts)


@dataclass(frozen=True, eq=False)
class _Own:
    """A user's own items first."""

    histories: Histories
    popular: npt.NDArray[np.float64]  # (m,) in [0, 1)
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        scores = np.tile(self.popular, (len(users), 1))  # (b, m)
        for row, user in enumerate(users):
            mine = self.histories.of(int(user))
            if len(mine) == 0:
                continue
            newest_first, last, counts = np.unique(
                mine[::-1], return_index=True, return_counts=True
            )
            # Ranks instead of sums of scaled parts: float32 cannot hold a count, a place and a
            # popularity at once, and a lost digit would be a tie.
            order = np.lexsort((self.popular[newest_first], -last, counts))
            scores[row, newest_first[order]] = 1.0 + np.arange(len(order))
        return scores.astype(np.float32)


@dataclass(frozen=True)
class Frequency:
    """A user's own items by how often, then how lately; the others after them by popularity."""

    name: ClassVar[str] = "frequency"

    @property
    def settings(self) -> dict[str, Any]:
        """There is nothing to set."""
        return {}

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Itself."""
        return self

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> _Own:
        """Count."""
        counts = task.counts()  # (m,)
        on_progress(1.0, self.name)
        return _Own(task.train, counts / (counts.max(initial=0) + 1.0))
