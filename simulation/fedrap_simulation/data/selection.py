"""Fewer interactions out of more; users and items are always numbered as they first appear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions, Rows


def select(data: Interactions, keep: npt.NDArray[np.bool_]) -> Interactions:
    """Some of the interactions, and only the users and items that they have."""
    users, user = _renumber(data.users, data.user[keep])
    items, item = _renumber(data.items, data.item[keep])
    return replace(
        data,
        users=users,
        items=items,
        user=user,
        item=item,
        rating=None if data.rating is None else data.rating[keep],
        time=None if data.time is None else data.time[keep],
    )


def drop_rare_users(data: Interactions, least: int) -> Interactions:
    """Only users with at least `least` interactions, repeats counted.

    Raises:
        BadData: nobody is left.
    """
    counts = np.bincount(data.user, minlength=len(data.users))
    if np.all(counts >= least):
        return data
    if np.all(counts < least):
        raise BadData(
            f"nobody in {data.name} has {least} interactions, the most is {counts.max()}; "
            "lower --min-interactions"
        )
    return select(data, counts[data.user] >= least)


def keep_first_of_each(data: Interactions) -> Interactions:
    """Each pair of user and item once: the earliest, or without time the first in the file."""
    order = np.arange(len(data))
    if data.time is not None:
        order = np.argsort(data.time, kind="stable")
    pairs = data.user * len(data.items) + data.item  # (n,)
    _, first = np.unique(pairs[order], return_index=True)
    keep = np.zeros(len(data), dtype=np.bool_)
    keep[order[first]] = True
    return select(data, keep)


def _renumber(names: tuple[str, ...], codes: Rows) -> tuple[tuple[str, ...], Rows]:
    """The names still in use by first appearance, and the codes that fit them."""
    used, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(used), dtype=np.int64)
    place[order] = np.arange(len(used))
    return tuple(names[one] for one in used[order]), place[inverse]
