"""The seam: a method is fitted to a task and then scores items for users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.protocols.task import Task

Scores = npt.NDArray[np.float32]
Watch = Callable[[float, str], None]  # share of the work done, and a few words


def quiet(_done: float, _words: str) -> None:
    """A watch that shows nothing."""


@dataclass(frozen=True)
class Cost:
    """What a federated method asks of a device; zero for a centralised one."""

    rounds: int = 0
    bytes_up: float = 0.0  # per device and round
    bytes_down: float = 0.0  # per device and round
    zeros: float | None = None  # share of exact zeros in the shared matrix
    epsilon: float | None = None  # charged to a device; None where nothing is promised
    spared: float = 0.0  # seconds of learning that an earlier fit had already spent


class Fitted(Protocol):
    """A recommender that has learnt."""

    @property
    def cost(self) -> Cost:
        """What learning cost each device."""

    def scores(self, users: Rows) -> Scores:
        """Scores of all items for some users, higher is better: (len(users), m)."""


@runtime_checkable
class Private(Protocol):
    """A method that can promise differential privacy."""

    def private(self, epsilon: float, delta: float, banded: bool) -> Method:
        """This method with the noise that keeps the promise, and settings that suit it."""


class Method(Protocol):
    """A recommender before it has learnt: a frozen dataclass of its settings."""

    @property
    def name(self) -> str:
        """As the command line knows it."""

    @property
    def settings(self) -> dict[str, Any]:
        """Every hyper-parameter, printed with each result."""

    def tune(self, task: Task, seed: int, watch: Watch) -> Self:
        """This method with settings chosen on a validation task; itself if it has no choice."""

    def fit(self, task: Task, seed: int, watch: Watch) -> Fitted:
        """Learn from `task.train`. The same seed gives the same result."""
