"""SLIST's transition part (Choi et al. 2021): a linear map from recent items to the next one.

Every place t of every history is a row: s_t has exp(-l/tau) for the items before it, y_t the item
itself. The map that rebuilds y from s with least squared error is closed form,

    B = (S'S + ridge·I)^-1 S'Y          (m, m),    score = s_(end)·B.

It takes m^2 numbers and m^3 operations like EASE.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.ease import LARGE, OfSome
from fedrap_simulation.methods.baselines.recency import Fading, weigh
from fedrap_simulation.methods.protocol import Floats, ItemWeights, OnProgress
from fedrap_simulation.methods.tuning import choose

WINDOW = 30  # items before a place that are looked at, at the most
BLOCK_ROWS = 50_000


@dataclass(frozen=True)
class Slist:
    """Next-item ridge regression in closed form."""

    ridge: float = 100.0
    tau: float = 4.0  # items that a history lasts, in learning and in scoring
    name: ClassVar[str] = "slist"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """How long a history lasts, then the ridge; fewer where a single fit takes minutes."""
        taus = (2.0, 8.0) if task.items > LARGE else (1.0, 2.0, 4.0, 8.0)
        ridges = (30.0, 300.0) if task.items > LARGE else (10.0, 30.0, 100.0, 300.0, 1000.0)
        first = choose([replace(self, tau=one) for one in taus], task, seed,
                       lambda done, words: on_progress(0.5 * done, words))  # fmt: skip
        return choose([replace(first, ridge=one) for one in ridges], task, seed,
                      lambda done, words: on_progress(0.5 + 0.5 * done, words))  # fmt: skip

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> OfSome:
        """Count, then solve."""
        known = np.flatnonzero(task.counts())
        gram, cross = self._moments(task, known)
        on_progress(0.4, f"{self.name}: {len(known)} x {len(known)} weights")
        gram[np.diag_indices(len(gram))] += np.float32(self.ridge)
        factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        weights = cho_solve(factor, cross, overwrite_b=True, check_finite=False)
        on_progress(1.0, self.name)
        histories = weigh(task, Fading(self.tau, 0.0))[:, known].tocsr()
        return OfSome(ItemWeights(histories, weights), known, task.items)

    def _moments(self, task: Task, known: Any) -> tuple[Floats, Floats]:
        """S'S and S'Y over the items that somebody has, a block of places at a time."""
        place = np.full(task.items, -1, dtype=np.int64)
        place[known] = np.arange(len(known))
        items, owner, size = place[task.train.items], task.train.owners, len(known)
        gram = np.zeros((size, size), dtype=np.float32)
        cross = np.zeros((size, size), dtype=np.float32)
        reach = min(WINDOW, max(1, int(np.ceil(self.tau * np.log(100.0)))))
        for start in range(0, len(items), BLOCK_ROWS):
            here = np.arange(start, min(start + BLOCK_ROWS, len(items)))
            rows, columns, weights = [], [], []
            for back in range(1, reach + 1):
                there = here - back
                same = (there >= 0) & (owner[np.maximum(there, 0)] == owner[here])
                rows.append(here[same] - start)
                columns.append(items[there[same]])
                weights.append(np.full(int(same.sum()), np.exp(-(back - 1) / self.tau)))
            shape = (len(here), size)
            cells = (np.concatenate(rows), np.concatenate(columns))
            past = sp.csr_matrix((np.concatenate(weights).astype(np.float32), cells), shape=shape)
            ones = np.ones(len(here), dtype=np.float32)
            following = sp.csr_matrix((ones, (here - start, items[here])), shape=shape)
            transposed = past.T.tocsr()
            _add(gram, transposed @ past)
            _add(cross, transposed @ following)
        return gram, cross


def _add(total: Floats, part: Any) -> None:
    """A sparse part into a dense sum, without a dense copy of the part."""
    found = part.tocoo()
    np.add.at(total, (found.row, found.col), found.data)
