"""The one place where training negatives come from: items that are not barred for the user.

The sampler is given `barred` and nothing else, so it cannot know the held-out item of a clean
task and draws it as readily as any other. Under the `paper` protocol `barred` holds that item
too, and the leak passes through here in the open.
"""

from __future__ import annotations

import numpy as np

from fedrap_simulation.data.interactions import Histories, Rows


class NegativeSampler:
    """Draws uniformly, with replacement, from the items that a user is free to get."""

    def __init__(self, barred: Histories, items: int) -> None:
        pairs = np.unique(barred.owners * items + barred.items)  # (n,) sorted by user, then item
        user, item = pairs // items, pairs % items
        counts = np.bincount(user, minlength=len(barred))  # (U,)
        self._items = items
        self._free = items - counts  # (U,)
        self._starts = np.concatenate([[0], np.cumsum(counts)])  # (U + 1,)
        # The j-th barred item b has b - j free items before it. These numbers never fall within
        # a user, so one search over all users finds how many barred items a draw must pass.
        before = item - (np.arange(len(pairs)) - self._starts[user])  # (n,)
        self._keys = user * (items + 1) + before  # (n,) sorted

    def draw(self, users: Rows, count: int, rng: np.random.Generator) -> Rows:
        """`count` negatives for each entry of `users`: (len(users), count).

        Raises:
            ValueError: somebody is barred from every item, so there is nothing to draw.
        """
        free = self._free[users]  # (b,)
        if len(free) and free.min() < 1:
            raise ValueError(f"user {int(users[free.argmin()])} is barred from every item")
        place = rng.integers(0, free[:, None], (len(users), count))  # (b, count) among the free
        wanted = users[:, None] * (self._items + 1) + place
        passed = np.searchsorted(self._keys, wanted.ravel(), side="right").reshape(wanted.shape)
        drawn: Rows = place + passed - self._starts[users][:, None]
        return drawn
