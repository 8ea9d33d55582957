"""The same centralised models with one change: recent items of a history count more.

Nothing is learnt anew: `ease-recency`, `itemknn-recency` and `ials-recency` learn as EASE, itemKNN
and iALS do, and weigh the history only when they score,

    w(l) = floor + (1 - floor)·exp(-l/tau)        l = 0 for the newest item.

Most of what an order-aware method gains over these models is this, so they are the least that an
order-aware method must be compared with. Where a task has no order, every item counts one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.ease import Ease
from fedrap_simulation.methods.baselines.ials import Ials
from fedrap_simulation.methods.baselines.itemknn import ItemKNN
from fedrap_simulation.methods.protocol import (
    FREE,
    Cost,
    Factors,
    Fitted,
    Floats,
    ItemWeights,
    OnProgress,
    Scores,
    no_progress,
)
from fedrap_simulation.methods.tuning import quality, require_validation

Ladder = Sequence[tuple[str, tuple[float, ...]]]
TAUS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
FLOORS = (0.0, 0.02, 0.1, 0.3)
LADDER = (("tau", TAUS), ("floor", FLOORS))


@dataclass(frozen=True)
class Fading:
    """How the weight of an item of a history falls with its age."""

    tau: float = 4.0  # items that the extra weight lasts
    floor: float = 0.1  # weight that never fades
    scale: float = 1.0  # of all weights: matters where they stand against a prior, as in iALS


def ages(histories: Histories) -> Rows:
    """Of each entry: 0 for the newest of its user: (n,)."""
    ends = np.repeat(histories.starts[1:], histories.lengths)
    return np.asarray(ends - 1 - np.arange(len(histories.items)))


def weigh(task: Task, fading: Fading) -> Any:
    """Histories with weights, an item that comes twice by its newest: CSR (U, m)."""
    train = task.train
    fresh = np.exp(-ages(train) / fading.tau) if task.ordered else np.ones(len(train.items))
    weight = fading.scale * (fading.floor + (1.0 - fading.floor) * fresh)  # (n,)
    owner = train.owners
    # Newest last, so that of equal cells the one written last, the newest, stays.
    cells = owner * np.int64(task.items) + train.items
    _, last = np.unique(cells[::-1], return_index=True)
    keep = len(cells) - 1 - last
    shape = (task.users, task.items)
    data = weight[keep].astype(np.float32)
    return sp.csr_matrix((data, (owner[keep], train.items[keep])), shape=shape)


def choose_fading(
    make: Callable[[Fading], Fitted],
    task: Task,
    on_progress: OnProgress,
    start: Fading,
    ladder: Ladder,
) -> Fading:
    """The best on validation, one rung after the other."""
    if not task.ordered:
        return start
    best, reached = start, quality(make(start), task)
    for rung, (name, values) in enumerate(ladder):
        for value in values:
            tried = replace(best, **{name: value})
            if tried == best:
                continue
            found = quality(make(tried), task)
            if found > reached:
                best, reached = tried, found
        on_progress((rung + 1) / len(ladder), f"{name} {getattr(best, name)}")
    return best


@dataclass(frozen=True)
class Recent:
    """A centralised model whose histories fade when it scores."""

    name: str
    inner: Any  # the model: a Method
    faded: Callable[[Any, Any, Any], Fitted]  # (the model, what it learnt, CSR of weights)
    fading: Fading = Fading()
    ladder: Ladder = LADDER

    @property
    def settings(self) -> dict[str, Any]:
        """Of the model, and of the fading."""
        return {**self.inner.settings, **asdict(self.fading)}

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """The model as it is tuned without recency, then the fading, learnt once for all."""
        require_validation(task)
        inner = self.inner.tune(task, seed, lambda done, words: on_progress(0.7 * done, words))
        learnt = inner.fit(task, seed, no_progress)
        fading = choose_fading(
            lambda one: self.faded(inner, learnt, weigh(task, one)),
            task,
            lambda done, words: on_progress(0.7 + 0.3 * done, f"{self.name}: {words}"),
            self.fading,
            self.ladder,
        )
        return replace(self, inner=inner, fading=fading)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Learn as the model does."""
        learnt = self.inner.fit(task, seed, on_progress)
        return self.faded(self.inner, learnt, weigh(task, self.fading))


def _of_weights(_: ItemKNN, learnt: ItemWeights, histories: Any) -> Fitted:
    return replace(learnt, histories=histories)


def _of_ease(_: Ease, learnt: Any, histories: Any) -> Fitted:
    some: Fitted = replace(
        learnt, inner=replace(learnt.inner, histories=histories[:, learnt.known].tocsr())
    )
    return some


def _of_factors(model: Ials, learnt: Factors, histories: Any) -> Fitted:
    return FoldedIn(histories, learnt.item, model.alpha, model.regularization)


EASE_RECENCY = Recent("ease-recency", Ease(), _of_ease)
ITEMKNN_RECENCY = Recent("itemknn-recency", ItemKNN(), _of_weights)
SCALES = (1.0, 3.0, 10.0, 30.0, 100.0)
IALS_RECENCY = Recent(
    "ials-recency", Ials(), _of_factors, ladder=(("scale", SCALES), *LADDER, ("scale", SCALES))
)


@dataclass(frozen=True, eq=False)
class FoldedIn:
    """u = (Y'Y + Y'(W·alpha)Y + ridge)^-1 Y'(1 + W·alpha)1 of each user, when asked for."""

    histories: Any  # CSR (U, m) of weights
    item: Floats  # (m, k)
    alpha: float
    ridge: float
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        """(len(users), m)."""
        own, dim = self.histories[users], self.item.shape[1]
        gram = self.item.T @ self.item + self.ridge * np.eye(dim, dtype=np.float32)  # (k, k)
        solved = np.empty((len(users), dim), dtype=np.float32)
        for row in range(len(users)):
            part = slice(own.indptr[row], own.indptr[row + 1])
            rows = self.item[own.indices[part]]  # (n, k)
            weight = self.alpha * own.data[part][:, None]
            system = gram + rows.T @ (weight * rows)
            solved[row] = np.linalg.solve(system, ((1.0 + weight) * rows).sum(axis=0))
        scores: Scores = solved @ self.item.T
        return scores
