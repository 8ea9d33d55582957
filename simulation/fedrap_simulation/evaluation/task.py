"""One question to a recommender: learn from `train`, then find each user's held-out item.

A method sees nothing but this. `barred` says which items a sampler of negatives may not draw.
Under `clean` it is the training history itself, so the held-out item is as likely a negative as
any other. Under `paper` it is everything the user ever touched, held-out items included: that is
the leak behind the published numbers, and the only difference between the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedrap_simulation.data.interactions import Histories, Numbers, Rows

ProtocolName = Literal["clean", "paper"]
Stage = Literal["validation", "test"]


@dataclass(frozen=True, eq=False)
class Task:
    """What may be learnt from and what is asked."""

    dataset: str
    protocol: ProtocolName
    stage: Stage
    items: int  # m
    train: Histories  # oldest first; all that may be learnt from
    ordered: bool  # whether the order of `train` means anything
    targets: Rows  # (U,) the held-out item of each user; -1 of those who are not asked
    negatives: Rows  # (U, 99) what it is ranked among in the second measure
    barred: Histories  # items that a sampler must not draw as negatives, by user
    repeats: bool = False  # whether an item of the history may be the answer
    times: Numbers | None = None  # (n,) of each entry of `train`, where times are real
    asked: Rows | None = None  # who is asked, ascending; None: everybody
    asked_at: float | None = (
        None  # when all are asked, in the unit of `times`; None: each at the end
    )
    # Of a validation in time: the same question at earlier moments, for choosing by more answers.
    earlier: tuple[Task, ...] = ()

    @property
    def users(self) -> int:
        """U."""
        return len(self.train)

    @property
    def asked_users(self) -> Rows:
        """Those who have a question, ascending."""
        return np.arange(self.users) if self.asked is None else self.asked

    def some(self, users: Rows) -> Task:
        """The same question to some of the users, who are all that is known."""
        return replace(
            self,
            train=self.train.some(users),
            targets=self.targets[users],
            negatives=self.negatives[users],
            barred=self.barred.some(users),
            times=None if self.times is None else self.times[self.train.entries(users)],
            asked=None if self.asked is None else np.flatnonzero(np.isin(users, self.asked)),
            earlier=(),
        )

    def counts(self) -> npt.NDArray[np.int64]:
        """How often each item comes in the training histories: (m,)."""
        return np.bincount(self.train.items, minlength=self.items)
