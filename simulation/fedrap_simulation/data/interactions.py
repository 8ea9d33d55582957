"""The one shape that every file is read into: who did what, and, where known, how and when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Interactions:
    """n interactions, in the order of the file. Ids stay the strings of the file."""

    name: str
    users: tuple[str, ...]  # (U,) ids, in order of first appearance
    items: tuple[str, ...]  # (m,)
    user: Rows  # (n,) places in `users`
    item: Rows  # (n,) places in `items`
    rating: Numbers | None = None  # (n,) rating, weight, count or amount, as the file has it
    time: Numbers | None = None  # (n,) anything that grows with time within a user
    form: str = ""  # what the file was recognised as, in words

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True, eq=False)
class Histories:
    """The items of each user, oldest first, in one piece of memory."""

    starts: Rows  # (U + 1,) user i has items[starts[i]:starts[i + 1]]
    items: Rows  # (n,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, user: int) -> Rows:
        """One user's items, oldest first."""
        return self.items[self.starts[user] : self.starts[user + 1]]

    @property
    def lengths(self) -> Rows:
        """(U,)."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Rows:
        """The user of each entry of `items`: (n,)."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def some(self, users: Rows) -> Histories:
        """The histories of some users, in the order asked for."""
        starts = np.concatenate([[0], np.cumsum(self.lengths[users])])
        return Histories(starts, self.items[self.entries(users)])

    def entries(self, users: Rows) -> Rows:
        """Where in `items` the histories of some users lie, one after the other."""
        lengths = self.lengths[users]  # (len(users),)
        ends = np.cumsum(lengths)
        within = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
        return np.asarray(np.repeat(self.starts[users], lengths) + within)

    def append(self, newest: Rows) -> Histories:
        """Every history with one more, newest item: `newest` is (U,)."""
        starts = self.starts + np.arange(len(self) + 1)
        items = np.empty(starts[-1], dtype=np.int64)
        last = starts[1:] - 1
        old = np.ones(len(items), dtype=np.bool_)
        old[last] = False
        items[old], items[last] = self.items, newest
        return Histories(starts, items)


def make_histories(user: Rows, item: Rows, users: int) -> Histories:
    """Histories out of pairs that are already in the order of time."""
    order = np.argsort(user, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=users))])
    return Histories(starts.astype(np.int64), item[order].astype(np.int64))
