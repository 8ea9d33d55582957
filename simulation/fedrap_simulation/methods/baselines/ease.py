"""EASE (Steck 2019): the linear weights between items that rebuild histories best, in closed form.

Weights between m items are m x m numbers, and so is the work space: 4 m^2 bytes in all, since
everything happens in one array. 20,000 items take 1.6 GB and m^3 operations. Items that nobody
has in training have no weights and take no room.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import lapack

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import (
    FREE,
    Cost,
    Floats,
    ItemWeights,
    OnProgress,
    Scores,
    touched,
)
from fedrap_simulation.methods.tuning import choose

LARGE = 8_000  # items beyond which a fit takes minutes, so fewer settings are tried
BLOCK_CELLS = 8_000_000


@dataclass(frozen=True, eq=False)
class OfSome:
    """Scores of the items that have weights; the others have none and score zero."""

    inner: ItemWeights
    known: Rows  # places of the items with weights
    items: int
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        scores = np.zeros((len(users), self.items), dtype=np.float32)
        scores[:, self.known] = self.inner.scores(users)
        return scores


@dataclass(frozen=True)
class Ease:
    """B = I - P / diag(P) with P the inverse of X'X + ridge I, and nothing on the diagonal."""

    ridge: float = 300.0
    name: ClassVar[str] = "ease"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Try ridges a factor of two apart, or fewer where a single fit takes minutes."""
        small = (25.0, 50.0, 100.0, 200.0, 300.0, 400.0, 600.0, 800.0, 1200.0)
        ridges = (50.0, 200.0, 800.0) if task.items > LARGE else small
        return choose([replace(self, ridge=ridge) for ridge in ridges], task, seed, on_progress)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> OfSome:
        """Solve."""
        known = np.flatnonzero(task.counts())
        histories = touched(task)[:, known].tocsr()  # (U, m known)
        on_progress(0.1, f"{self.name}: {len(known)} x {len(known)} weights")
        weights = closed_form((histories.T @ histories).toarray(order="C"), self.ridge)
        on_progress(1.0, self.name)
        return OfSome(ItemWeights(histories, weights), known, task.items)


def closed_form(gram: Floats, ridge: float) -> Floats:
    """The weights, written over `gram`: (m, m).

    Raises:
        ValueError: the matrix to invert is not positive definite; the ridge is too small.
    """
    size = len(gram)
    gram[np.diag_indices(size)] += np.float32(ridge)
    # LAPACK works on columns. The matrix is symmetric, so its transpose is the same matrix laid
    # out the way LAPACK wants it, and nothing has to be copied.
    factor, failed = lapack.spotrf(gram.T, lower=1, overwrite_a=1, clean=0)
    if failed:
        raise ValueError(f"ridge {ridge:g} is too small: the Gram matrix cannot be inverted")
    inverse, _ = lapack.spotri(factor, lower=1, overwrite_c=1)
    assert np.shares_memory(inverse, gram)  # in place, or twice the memory is needed
    block = max(1, BLOCK_CELLS // size)
    diagonal = np.diag(gram).copy()  # (m,)
    for start in range(0, size, block):  # LAPACK filled one triangle; mirror it
        stop = min(start + block, size)
        corner = gram[start:stop, start:stop]
        corner[:] = np.triu(corner) + np.triu(corner, 1).T
        gram[stop:, start:stop] = gram[start:stop, stop:].T
    for start in range(0, size, block):
        gram[start : start + block] /= -diagonal
    gram[np.diag_indices(size)] = 0.0
    return gram
