"""Where a new item starts in C, from the items it shares attributes with. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedrap_coordinator.domain.records import Attribute

Matrix = npt.NDArray[np.float64]


def start_rows(common: Matrix, count: int, attributes: Sequence[Attribute]) -> Matrix:
    """Where `count` new items start: (count, k), zeros where nothing is known of them.

    An item starts at the mean, over the attributes it shares with others, of the mean row of
    those others. Only what was published goes in, so nothing is spent. Rows that are zero have
    learnt nothing and are left out; a title that nobody shares says nothing and is left out too.
    """
    known = common.shape[0]
    members: dict[tuple[str, str], list[int]] = {}
    for row, name, value in attributes:
        if row < known:
            members.setdefault((name, value), []).append(row)
    learnt = np.any(common != 0, axis=1)  # (m,)
    means: dict[tuple[str, str], Matrix] = {}
    for pair, rows in members.items():
        those = [row for row in rows if learnt[row]]
        if those:
            means[pair] = common[those].mean(axis=0)  # (k,)
    wishes: dict[int, list[Matrix]] = {}
    for row, name, value in attributes:
        if known <= row < known + count and (name, value) in means:
            wishes.setdefault(row - known, []).append(means[name, value])
    start = np.zeros((count, common.shape[1]))
    for number, found in wishes.items():
        start[number] = np.mean(found, axis=0)
    return start
