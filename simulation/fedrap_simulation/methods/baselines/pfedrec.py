"""PFedRec (Zhang et al. 2023): a shared item table, a private score function, no user vector.

Each round a device starts from the shared table, moves first its score function and then its own
copy of the rows it has examples of, and sends the copy back to be averaged. It recommends with
the copy, so the rows of its last examples are its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.federated import (
    Examples,
    blocks,
    draw_examples,
    table_cost,
)
from fedrap_simulation.methods.baselines.negatives import NegativeSampler
from fedrap_simulation.methods.protocol import Cost, Fitted, Floats, OnProgress, Scores
from fedrap_simulation.methods.tuning import Patience, choose_epochs, run

BATCH = 256  # examples whose loss was averaged when the published rates were chosen


@dataclass(frozen=True, eq=False)
class _Personal:
    """Shared rows through private score functions, corrected where a device moved its copy."""

    function: Floats  # (U, k)
    bias: Floats  # (U,)
    item: Floats  # (m, k)
    moved: Any  # CSR (U, m): what the device's own copy of a row adds to the score
    cost: Cost

    def scores(self, users: Rows) -> Scores:
        scores = self.function[users] @ self.item.T + self.bias[users, None]  # (b, m)
        return np.asarray(scores + self.moved[users].toarray(), dtype=np.float32)


@dataclass(frozen=True)
class PFedRec:
    """One logistic step of the score function and one of the rows, per device and round."""

    width: int = 32
    negatives: int = 4
    rate: float = 0.1  # of the score function, on the mean loss of a device
    eta: float = 80.0  # a row moves eta times the number of items times as fast, as published
    spread: float = 0.1  # of the first table; rows that few devices move keep it as noise
    epochs: int = 60  # rounds
    name: ClassVar[str] = "pfedrec"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Try how fast rows move, and stop when the validation stops growing."""
        candidates = [replace(self, eta=eta) for eta in (8.0, 80.0)]
        patience = Patience(longest=200, wait=6, every=5)
        return choose_epochs(candidates, task, seed, on_progress, patience)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Do `epochs` rounds with every device."""
        return run(self, task, seed, on_progress)

    def learn(self, task: Task, seed: int) -> Iterator[_Personal]:
        """The state after each round."""
        rng = np.random.default_rng([seed, 0x9FE])
        sampler = NegativeSampler(task.barred, task.items)
        item = rng.normal(0.0, self.spread, (task.items, self.width)).astype(np.float32)
        edge = self.width**-0.5
        same = rng.uniform(-edge, edge, self.width).astype(np.float32)  # (k,) for all at first
        function = np.tile(same, (task.users, 1))  # (U, k)
        bias = np.zeros(task.users, dtype=np.float32)
        done = 0
        while True:
            total = np.zeros_like(item)
            parts = []
            for users in blocks(task, self.negatives):
                one = draw_examples(task, sampler, users, self.negatives, rng)
                with np.errstate(over="ignore", invalid="ignore"):
                    # Too high an eta runs away: such scores count as the worst when tuning.
                    push, effect = self._device_round(one, item, function, bias)
                total += push
                parts.append(effect)
            moved = sum(parts[1:], parts[0])
            done += 1
            cost = table_cost(done, item.size)
            yield _Personal(function.copy(), bias.copy(), item, moved, cost)
            item = item + total / np.float32(task.users)  # a new table: the yielded one stays

    def _device_round(
        self, one: Examples, item: Floats, function: Floats, bias: Floats
    ) -> tuple[Floats, Any]:
        """Move `function` and `bias` in place; the sum of all moves of rows, and their effect."""
        shape = (len(function), len(item))
        error = one.weight * _error(one, item, function, bias)  # (e,)
        by_user = sp.csr_matrix((error * one.share, (one.user, one.item)), shape=shape)
        function -= np.float32(self.rate) * (by_user @ item)  # (U, k)
        bias -= np.float32(self.rate) * np.asarray(by_user.sum(axis=1)).ravel()
        error = one.weight * _error(one, item, function, bias)
        item_rate = np.float32(self.rate * self.eta * len(item) / BATCH)
        step = sp.csr_matrix((-item_rate * error, (one.user, one.item)), shape)
        push = step.T @ function  # (m, k): a device moves a row along its own function
        length = np.einsum("uk,uk->u", function, function)  # (U,)
        effect = sp.diags(length) @ step  # the move times the function, at each moved row
        return np.asarray(push, dtype=np.float32), effect.tocsr().astype(np.float32)


def _error(one: Examples, item: Floats, function: Floats, bias: Floats) -> Floats:
    """Slope of the logistic loss in each logit: (e,)."""
    logit = np.einsum("ek,ek->e", function[one.user], item[one.item]) + bias[one.user]
    return np.asarray(expit(logit) - one.label, dtype=np.float32)
