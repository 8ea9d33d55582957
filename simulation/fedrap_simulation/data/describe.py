"""What a set of interactions is like, in a few numbers that decide what can be asked of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from fedrap_simulation.data.interactions import Interactions, Rows

RARE = 5  # items with fewer interactions are rare


@dataclass(frozen=True)
class Spread:
    """How a count is spread over users or items."""

    min: int
    median: float
    mean: float
    max: int


@dataclass(frozen=True)
class Description:
    """One set of interactions. Shares are of interactions unless the name says otherwise."""

    name: str
    form: str
    interactions: int
    users: int
    items: int
    density: float  # distinct pairs out of all pairs
    per_user: Spread
    per_item: Spread
    repeat_share: float  # the user had this item before
    has_rating: bool
    has_time: bool
    shared_time_share: float | None  # another of the same user has the same time; None: no time
    rare_item_share: float  # of items: fewer than RARE interactions

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def describe(data: Interactions) -> Description:
    """Count."""
    pairs = len(np.unique(data.user * len(data.items) + data.item))
    per_item = np.bincount(data.item, minlength=len(data.items))
    return Description(
        name=data.name,
        form=data.form,
        interactions=len(data),
        users=len(data.users),
        items=len(data.items),
        density=pairs / (len(data.users) * len(data.items)),
        per_user=_spread(np.bincount(data.user, minlength=len(data.users))),
        per_item=_spread(per_item),
        repeat_share=1 - pairs / len(data),
        has_rating=data.rating is not None,
        has_time=data.time is not None,
        shared_time_share=shared_times(data),
        rare_item_share=float(np.mean(per_item < RARE)),
    )


def _spread(counts: Rows) -> Spread:
    return Spread(
        int(counts.min()), float(np.median(counts)), float(counts.mean()), int(counts.max())
    )


def shared_times(data: Interactions) -> float | None:
    """Share of interactions whose order within the user nobody knows."""
    if data.time is None:
        return None
    order = np.lexsort((data.time, data.user))
    user, time = data.user[order], data.time[order]
    same = (user[1:] == user[:-1]) & (time[1:] == time[:-1])  # (n - 1,) as the one before
    shared = np.zeros(len(data), dtype=np.bool_)
    shared[1:] |= same
    shared[:-1] |= same
    return float(np.mean(shared))
