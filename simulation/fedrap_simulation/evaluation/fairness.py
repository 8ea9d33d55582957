"""Whom and what a method serves: quality by how popular the target is and how active the user.

Items are sorted by how often they come in training; the head are the most frequent ones that
together have a third of all interactions, the tail those with the last third. A target that
nobody has in training belongs to the tail. Users are sorted by the length of their history and cut
into thirds. A group that nobody asks for has no number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.metrics import gains
from fedrap_simulation.evaluation.task import Task

POPULARITY = ("head", "middle", "tail")
ACTIVITY = ("few", "some", "many")
GROUPS = (*POPULARITY, *ACTIVITY)


def item_groups(task: Task) -> Rows:
    """0 for the head, 1 for the middle, 2 for the tail: (m,)."""
    counts = task.counts()
    order = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]  # interactions with more frequent items
    third = np.minimum(2, 3 * before // max(1, int(counts.sum())))
    groups = np.empty(task.items, dtype=np.int64)
    groups[order] = np.where(counts[order] > 0, third, 2)
    return groups


def user_groups(task: Task) -> Rows:
    """0 for the shortest third of the histories of those who are asked, 2 for the longest: (A,).

    Equals stay together.
    """
    lengths = task.train.lengths[task.asked_users]
    rank = np.searchsorted(np.sort(lengths), lengths, side="left")
    return np.minimum(2, 3 * rank // max(1, len(lengths)))


def ndcg_by_group(full: Rows, task: Task) -> dict[str, float | None]:
    """NDCG@10 in full ranking of each group: `ndcg10_head` … `ndcg10_many`."""
    gain = gains(full)
    parts = (
        (POPULARITY, item_groups(task)[task.targets[task.asked_users]]),
        (ACTIVITY, user_groups(task)),
    )
    return {
        f"ndcg10_{name}": _mean(gain[of == place])
        for names, of in parts
        for place, name in enumerate(names)
    }


def _mean(values: npt.NDArray[np.float64]) -> float | None:
    return float(values.mean()) if len(values) else None
