"""What most methods have learnt when they are done: factors, or weights between items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.methods.protocol import Cost, Scores
from fedrap_simulation.protocols.task import Task

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
