"""The seam: a method is fitted to a task and then scores items for users.

What most methods have learnt when they are done: factors, or weights between items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.metrics import Scores as Scores
from fedrap_simulation.evaluation.task import Task

OnProgress = Callable[[float, str], None]  # share of the work done, and a few words


def no_progress(_done: float, _words: str) -> None:
    """A watch that shows nothing."""


@dataclass(frozen=True)
class Cost:
    """What a federated method asks of a device; zero for a centralised one."""

    rounds: int = 0
    bytes_up: float = 0.0  # per device and round
    bytes_down: float = 0.0  # per device and round
    zeros: float | None = None  # share of exact zeros in the shared matrix
    epsilon: float | None = None  # charged to a device; None where nothing is guaranteed
    spared: float = 0.0  # seconds of learning that an earlier fit had already spent


class Fitted(Protocol):
    """A recommender that has learnt."""

    @property
    def cost(self) -> Cost:
        """What learning cost each device."""

    def scores(self, users: Rows) -> Scores:
        """Scores of all items for some users, higher is better: (len(users), m)."""


@runtime_checkable
class InForce(Protocol):
    """Fitted with settings that followed from the sizes of the task."""

    @property
    def in_force(self) -> dict[str, Any]:
        """Those that did, printed beside the method's own."""


@runtime_checkable
class Private(Protocol):
    """A method that can guarantee differential privacy."""

    def private(self, epsilon: float, delta: float, banded: bool) -> Method:
        """This method with the noise that keeps the guarantee, and settings that suit it."""


class Method(Protocol):
    """A recommender before it has learnt: a frozen dataclass of its settings."""

    @property
    def name(self) -> str:
        """As the command line knows it."""

    @property
    def settings(self) -> dict[str, Any]:
        """Every hyper-parameter, printed with each result."""

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """This method with settings chosen on a validation task; itself if it has no choice."""

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Learn from `task.train`. The same seed gives the same result."""


Floats = npt.NDArray[np.float32]
FREE = Cost()  # a centralised method asks nothing of a device


@dataclass(frozen=True, eq=False)
class Factors:
    """A score is the product of a user's and an item's vector, plus the item's bias."""

    user: Floats  # (U, k)
    item: Floats  # (m, k)
    bias: Floats | None = None  # (m,)
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        """(len(users), m)."""
        scores: Scores = self.user[users] @ self.item.T
        if self.bias is not None:
            scores += self.bias
        return scores


@dataclass(frozen=True, eq=False)
class ItemWeights:
    """A score is the sum, over the history, of weights from its items to the scored one."""

    histories: Any  # CSR (U, m)
    weights: Any  # (m, m) dense or CSR: from the row's item to the column's
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        """(len(users), m)."""
        scores = self.histories[users] @ self.weights
        dense = scores.toarray() if sp.issparse(scores) else scores
        return np.asarray(dense, dtype=np.float32)


def touched(task: Task) -> Any:
    """Which user has which item in training, as ones of a CSR matrix: (U, m)."""
    train = task.train
    shape = (task.users, task.items)
    ones = np.ones(len(train.items), dtype=np.float32)
    matrix = sp.csr_matrix((ones, train.items, train.starts), shape=shape)
    matrix.sum_duplicates()  # in a task with repeats a pair comes more than once
    matrix.data[:] = 1.0
    return matrix
