"""Whether the times of a file are times: what an order-aware result may be believed to mean."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedrap_simulation.data.describe import shared_times
from fedrap_simulation.data.interactions import Interactions, Numbers, Rows

TIED = 0.5  # share of interactions that have their time from another of the same user
MOSTLY = 0.95  # of users or items that must look so


def are_ranks(data: Interactions) -> bool:
    """Whether times only count: nearly every user's are a, a + 1, a + 2 … without a gap."""
    if data.time is None or not len(data):
        return False
    low, high, count = _range_by(data.user, data.time, len(data.users))
    several = count > 2
    if not several.any() or (shared_times(data) or 0.0) > 1.0 - MOSTLY:
        return False
    return bool(np.mean((high - low + 1.0 == count)[several]) >= MOSTLY)


def are_labels(data: Interactions) -> bool:
    """Whether times belong to items: nearly every item has the same one for all of its users."""
    if data.time is None or not len(data):
        return False
    low, high, count = _range_by(data.item, data.time, len(data.items))
    several = count > 1
    if not several.any() or low[several].min() == high[several].max():  # one time for everything
        return False
    return bool(np.mean((low == high)[several]) >= MOSTLY)


def are_real(data: Interactions) -> bool:
    """Whether times of different users can be compared."""
    return data.time is not None and not (are_ranks(data) or are_labels(data))


def doubts(data: Interactions) -> Iterator[str]:
    """What is to be known about the times before an order-aware number is believed."""
    if data.time is None:
        return
    tied = shared_times(data) or 0.0
    if tied > TIED:
        yield (
            f"{tied:.0%} of the interactions share their time with another of the same user: their "
            "order is drawn by the seed"
        )
    if are_labels(data):
        yield (
            "times look like labels of the items, not like times of interactions: sorted by them "
            "many held-out items have nobody left to learn from; use --split random"
        )
    elif are_ranks(data):
        yield (
            "times are ranks within each user: their order means something, gaps and times of "
            "different users do not"
        )


def _range_by(key: Rows, time: Numbers, size: int) -> tuple[Numbers, Numbers, Rows]:
    """Smallest and largest time, and the number of interactions, of each key: (size,) each."""
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(low, key, time)
    np.maximum.at(high, key, time)
    return low, high, np.bincount(key, minlength=size)
