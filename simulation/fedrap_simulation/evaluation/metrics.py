"""HR and NDCG from the ranks of held-out items. Ties, and NaN, count against the method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedrap_core.model import Floats
from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.task import Task


def rank_of(scores: Floats, target: int) -> int:
    """How many other candidates score at least as much as `target`; 0 is the top.

    A candidate that may not be shown has score -inf and never stands before the target. A score
    that is not a number counts against us too, whoever has it: a broken model scores no hits.
    """
    return int(np.count_nonzero(~(scores < scores[target]))) - 1


def hit(rank: int, k: int = 10) -> float:
    """HR@k of one user: 1 when the held-out item is among the first k."""
    return 1.0 if rank < k else 0.0


def ndcg(rank: int, k: int = 10) -> float:
    """NDCG@k of one user with one held-out item: 1/log2(rank + 2) inside the first k."""
    return float(1.0 / np.log2(rank + 2)) if rank < k else 0.0


Scores = npt.NDArray[np.float32]
Shares = npt.NDArray[np.float64]
BLOCK_CELLS = 8_000_000  # scores held at once: 32 MB


@dataclass(frozen=True, eq=False)
class Measured:
    """What a fitted method achieved on a task, by user who was asked."""

    full: Rows  # (A,) rank of the held-out item among all items not seen, 0 is best
    sampled: Rows  # (A,) rank among the 99 negatives
    coverage: float  # share of the catalogue that came into anybody's best ten
    gini: float  # how unequally the best tens share out the catalogue, 0 is equal

    def summary(self) -> dict[str, float]:
        """The numbers of one row of a result."""
        return {
            "hr10": float(hits(self.sampled).mean()),
            "ndcg10": float(gains(self.sampled).mean()),
            "hr10_full": float(hits(self.full).mean()),
            "ndcg10_full": float(gains(self.full).mean()),
            "hr20_full": float(hits(self.full, 20).mean()),
            "ndcg20_full": float(gains(self.full, 20).mean()),
            "mrr_full": float((1.0 / (1.0 + self.full)).mean()),
            "coverage": self.coverage,
            "gini": self.gini,
        }


def hits(ranks: Rows, top: int = 10) -> Shares:
    """HR@top by user: (U,)."""
    return (ranks < top).astype(np.float64)


def gains(ranks: Rows, top: int = 10) -> Shares:
    """NDCG@top with one relevant item, by user: (U,)."""
    return np.where(ranks < top, 1.0 / np.log2(ranks + 2.0), 0.0)


class Scorer(Protocol):
    """All that measuring asks of a fitted method."""

    def scores(self, users: Rows) -> Scores:
        """Scores of all items for some users, higher is better: (len(users), m)."""


def measure(fitted: Scorer, task: Task, top: int = 10) -> Measured:
    """Ask all who have a question, a block of users at a time.

    `top` 0 leaves out who is shown what, which costs as much as the ranks: for choosing settings.
    """
    asked = task.asked_users  # (A,)
    full = np.empty(len(asked), dtype=np.int64)
    sampled = np.empty(len(asked), dtype=np.int64)
    shown = np.zeros(task.items, dtype=np.int64)
    block = max(1, BLOCK_CELLS // task.items)
    for start in range(0, len(asked), block):
        users, here = asked[start : start + block], slice(start, start + block)
        scores = np.array(fitted.scores(users), dtype=np.float32)  # (b, m), ours to change
        np.nan_to_num(scores, copy=False, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        targets = task.targets[users]
        mine = scores[np.arange(len(users)), targets][:, None]  # (b, 1)
        theirs = np.take_along_axis(scores, task.negatives[users], axis=1)  # (b, 99)
        sampled[here] = np.sum(theirs >= mine, axis=1)
        if not task.repeats:
            hide_seen(scores, task, users)
            scores[np.arange(len(users)), targets] = mine[:, 0]
        full[here] = np.sum(scores >= mine, axis=1) - 1
        if not top:
            continue
        best = np.argpartition(-scores, min(top, task.items) - 1, axis=1)[:, :top]
        shown += np.bincount(best.ravel(), minlength=task.items)
    return Measured(full, sampled, float(np.mean(shown > 0)), _gini(shown))


def hide_seen(scores: Scores, task: Task, users: Rows) -> None:
    """Items of the training history can't be recommended again."""
    seen = task.train.some(users)
    scores[seen.owners, seen.items] = -np.inf


def _gini(counts: npt.NDArray[np.int64]) -> float:
    total = int(counts.sum())
    if total == 0:
        return 0.0
    shares = np.cumsum(np.sort(counts)) / total  # Lorenz curve, (m,)
    return float(1.0 - 2.0 * (shares.mean() - 0.5 / len(counts)))
