"""STAN (Garg et al. 2019): users whose histories hold the same recent items, and what is near them.

    like(u, v)  = sum over items of both of exp(-l_u/tau)·1 / sqrt(n_u·n_v)
    score_j     = sum over the nearest v of like(u, v)·exp(-|place of j in v - place of the newest
                  shared item in v|/near)

Every user's whole history is the session, so the decay between sessions has nothing to act on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numba
import numpy as np
import numpy.typing as npt

from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.recency import Fading, ages, weigh
from fedrap_simulation.methods.protocol import FREE, Cost, OnProgress, Scores, touched
from fedrap_simulation.methods.tuning import choose

Singles = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class StanFitted:
    """Everybody's histories; neighbours are found when they are asked for."""

    train: Histories
    fresh: Any  # CSR (U, m): weights of recent items
    holders: Any  # CSR (m, U): who holds an item, over the root of the length of the history
    items: int
    neighbours: int
    near: float
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        """(len(users), m)."""
        like = (self.fresh[users] @ self.holders).toarray()  # (b, U)
        like[np.arange(len(users)), users] = 0.0  # nobody is their own neighbour
        count = min(self.neighbours, like.shape[1] - 1)
        nearest = np.argpartition(-like, count, axis=1)[:, :count]  # (b, n)
        scores = np.zeros((len(users), self.items), dtype=np.float32)
        newest = ages(self.train)
        _add_neighbours(
            users, nearest, np.take_along_axis(like, nearest, axis=1), self.train.starts,
            self.train.items, newest, self.items, self.near, scores,
        )  # fmt: skip
        return scores


@dataclass(frozen=True)
class Stan:
    """Nearest histories with decay."""

    neighbours: int = 200
    tau: float = 4.0  # items of the user's own history that count
    near: float = 4.0  # how far from the newest shared item a neighbour's items count
    name: ClassVar[str] = "stan"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """One setting after the other."""
        best = self
        ladder: dict[str, tuple[float, ...]] = {
            "tau": (1.0, 2.0, 4.0, 8.0), "near": (1.0, 2.0, 4.0, 8.0, 30.0),
            "neighbours": (100, 200, 500, 1000),
        }  # fmt: skip
        for done, (name, values) in enumerate(ladder.items()):
            tries = [replace(best, **{name: value}) for value in values]  # type: ignore[arg-type]
            best = choose(tries, task, seed, lambda share, words, done=done:  # type: ignore[misc]
                          on_progress((done + share) / len(ladder), words))  # fmt: skip
        return best

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> StanFitted:
        """Nothing is learnt: the histories are the model."""
        length = np.maximum(1, task.train.lengths)
        holders = touched(task).T.tocsr()  # (m, U)
        holders.data = holders.data / np.sqrt(length[holders.indices]).astype(np.float32)
        on_progress(1.0, self.name)
        return StanFitted(
            task.train, weigh(task, Fading(self.tau, 0.0)), holders, task.items,
            self.neighbours, self.near,
        )  # fmt: skip


@numba.njit(cache=True)
def _add_neighbours(
    users: Rows,
    nearest: Rows,
    like: Singles,
    starts: Rows,
    items: Rows,
    ages: Rows,
    size: int,
    near: float,
    scores: Singles,
) -> None:
    """What the neighbours of each user touched, by how near it is to what is shared."""
    age = np.empty(size, dtype=np.int64)
    for row in range(len(users)):
        age[:] = -1
        for place in range(starts[users[row]], starts[users[row] + 1]):
            age[items[place]] = ages[place]
        for column in range(nearest.shape[1]):
            weight = like[row, column]
            if weight <= 0.0:
                continue
            first, last = starts[nearest[row, column]], starts[nearest[row, column] + 1]
            shared, youngest = -1, 1 << 60
            for place in range(first, last):
                mine = age[items[place]]
                if mine >= 0 and mine < youngest:
                    shared, youngest = place, mine
            if shared < 0:
                continue
            for place in range(first, last):
                scores[row, items[place]] += weight * np.exp(-abs(place - shared) / near)
