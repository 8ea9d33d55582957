"""HR and NDCG of one held-out item. Ties count against us."""

from __future__ import annotations

import numpy as np

from fedrap_core.model import Floats


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
