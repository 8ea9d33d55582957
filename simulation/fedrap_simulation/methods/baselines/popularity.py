"""Methods without learning: what everybody takes, what is taken lately, what the user took."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Histories, Numbers, Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import FREE, Cost, OnProgress, Scores
from fedrap_simulation.methods.tuning import choose


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
class RecentFitted:
    """Interactions in the order of time; counts as of a moment are added up when it is asked."""

    items: Rows  # (n,)
    times: Numbers  # (n,) ascending
    now: Numbers  # (U,) when each user is asked: the time of the newest item of the history
    size: int  # m
    half: float
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        """(len(users), m): what was taken up to each user's moment, counted with decay."""
        scores = np.empty((len(users), self.size), dtype=np.float32)
        counts, done, at = np.zeros(self.size), 0, -np.inf  # (m,) as of `at`
        for row in np.argsort(self.now[users], kind="stable"):
            now = self.now[users[row]]
            end = int(np.searchsorted(self.times, now, side="right"))
            if now > at:
                counts *= 0.5 ** ((now - at) / self.half)
            age = (now - self.times[done:end]) / self.half
            counts += np.bincount(self.items[done:end], 0.5**age, minlength=self.size)
            scores[row], done, at = counts, end, now
        return scores


@dataclass(frozen=True)
class PopularityRecent:
    """Items by what was taken lately, as of the moment of the question, or the newest of the user.

        score_j = sum over interactions with j up to then of 2^-(age/half)

    Half of a whole is `half` of the span of the data. It needs times that can be compared
    between users.
    """

    half: float = 0.02
    name: ClassVar[str] = "popularity-recent"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """The half-life."""
        halves = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
        return choose([replace(self, half=one) for one in halves], task, seed, on_progress)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> RecentFitted:
        """Sort by time.

        Raises:
            BadData: there are no times, or they are no times.
        """
        if task.times is None:
            raise BadData(f"{self.name} wants times, and those of {task.dataset} are none")
        order = np.argsort(task.times, kind="stable")
        span = float(np.ptp(task.times)) if len(order) else 0.0
        now = np.full(task.users, -np.inf if task.asked_at is None else task.asked_at)
        if task.asked_at is None:
            np.maximum.at(now, task.train.owners, task.times)
        on_progress(1.0, self.name)
        return RecentFitted(
            task.train.items[order], task.times[order], now, task.items, self.half * span or 1.0
        )


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
