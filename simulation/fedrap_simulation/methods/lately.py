"""What was touched lately as each user's device has it: t of core/fedrap_core/trend.py, on a task.

Every touch is told once, in its own moment. Where all are asked at one moment it is one vector;
where each is asked at the own end, that of the last midnight before the user was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from fedrap_core.trend import TrendState, trend_of_items
from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.engine.trend_rounds import daily_trends, told_at_once
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import Scores


class Trends(Protocol):
    """What users' devices know of what was touched lately."""

    @property
    def size(self) -> int:
        """m."""

    def of(self, users: Rows) -> Scores:
        """t: (len(users), m), or (1, m) where it is the same for all."""


@dataclass(frozen=True, eq=False)
class SameForAll:
    """One moment."""

    row: npt.NDArray[np.float32]  # (m,)

    @classmethod
    def of_state(cls, state: TrendState, size: int) -> Self:
        """As it would be published; zeros where nothing is heard."""
        found = trend_of_items(state)
        return cls((np.zeros(size) if found is None else found).astype(np.float32))

    @property
    def size(self) -> int:
        """m."""
        return len(self.row)

    def of(self, users: Rows) -> Scores:
        """(1, m)."""
        return self.row[None]


def told_in_time(task: Task, half_days: float, contrast: float = 0.0) -> Trends:
    """Of a task; zeros where times say nothing."""
    if task.times is None or not len(task.times):
        return SameForAll(np.zeros(task.items, dtype=np.float32))
    if task.asked_at is None:
        return daily_trends(task.train, task.times, task.items, half_days, contrast)
    state = told_at_once(task.train, task.times, task.items, half_days, task.asked_at)
    return SameForAll.of_state(
        TrendState(state.touches, 0.0, state.at, state.usual, contrast), task.items
    )
