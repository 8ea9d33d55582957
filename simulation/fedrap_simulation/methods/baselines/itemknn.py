"""Item neighbourhoods: cosine of who has which item, held back where there is little evidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import ItemWeights, OnProgress, touched
from fedrap_simulation.methods.tuning import choose

BLOCK_CELLS = 8_000_000  # similarities held densely at once: 32 MB


@dataclass(frozen=True)
class ItemKNN:
    """A score is the sum of cosines between the item and those of its neighbours in the history.

    Neighbours that tie with the last one kept are kept too, so no order of items decides.
    """

    neighbours: int = 100
    shrinkage: float = 10.0
    name: ClassVar[str] = "itemknn"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Try neighbourhood sizes, and evidence held back."""
        grid = [
            replace(self, neighbours=neighbours, shrinkage=shrinkage)
            for neighbours in (20, 50, 100, 200)
            for shrinkage in (0.0, 10.0, 50.0)
        ]
        return choose(grid, task, seed, on_progress)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> ItemWeights:
        """Compare every item with every other, a block of items at a time."""
        histories = touched(task)  # (U, m)
        by_item = histories.T.tocsr()  # (m, U)
        root = np.sqrt(np.diff(by_item.indptr)).astype(np.float32)  # (m,) norm of each item
        block = max(1, BLOCK_CELLS // task.items)
        kept = []
        for start in range(0, task.items, block):
            rows = np.arange(start, min(start + block, task.items))
            alike = (by_item[rows] @ histories).toarray()  # (b, m) users in common
            alike /= np.maximum(root[rows, None] * root + np.float32(self.shrinkage), 1e-9)
            alike[np.arange(len(rows)), rows] = 0.0
            if self.neighbours < task.items:
                last = np.partition(alike, -self.neighbours, axis=1)[:, -self.neighbours]  # (b,)
                alike[alike < last[:, None]] = 0.0
            kept.append(sp.csr_matrix(alike))
            on_progress((rows[-1] + 1) / task.items, self.name)
        # A row holds the neighbours of the scored item, so the weights point from its columns.
        return ItemWeights(histories, sp.vstack(kept, format="csr").T.tocsr())
