"""Canaries: recommenders that cannot know the answer, so that a good score means a leak.

    personal-only   FedRAP-D, whose devices never meet: what D holds of an unseen item is its
                    random start and how often it was drawn as a negative
    leak-counter    learns nothing at all: an item is the better, the less often it was drawn
    shuffled        any method, asked for held-out items that were replaced at random

Under `clean` the held-out item and the 99 it is ranked among are alike to each of them, so HR@10
is 0.10 but for chance, which is binomial. Under `paper` the held-out item alone is never drawn as
a negative, and all three find it. A canary that is high under `clean` says that the evaluation is
broken; one that is silent under `paper` says that the canary is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import msgspec
import numpy as np

from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.engine.paper_rounds import count_negatives
from fedrap_simulation.evaluation.metrics import hits, measure
from fedrap_simulation.evaluation.splits import NEGATIVES, make_split
from fedrap_simulation.evaluation.task import ProtocolName, Task
from fedrap_simulation.methods.paper import PLAN, FedRap, KeptScores
from fedrap_simulation.methods.protocol import FREE, Fitted, Method, OnProgress, no_progress

CHANCE = 10.0 / (NEGATIVES + 1)  # HR@10 of a blind guess among 100
WIDE = 4.0  # standard errors: by chance once in 15,000 runs


@dataclass(frozen=True)
class LeakCounter:
    """An item's score is minus the number of times it was drawn as a negative."""

    epochs: int = 40  # rounds
    negatives: int = PLAN.negatives
    name: ClassVar[str] = "leak-counter"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Itself."""
        return self

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Count what FedRAP would draw, with the sampler of FedRAP."""
        plan = msgspec.structs.replace(PLAN, negatives=self.negatives)
        counts = count_negatives(task, plan, seed, self.epochs)  # (U, m)
        # Ties count against a method: without a random order among equals it would fall below
        # chance and could hide a small leak.
        rng = np.random.default_rng([seed, 0xCA])
        order = rng.random(counts.shape, dtype=np.float32)
        on_progress(1.0, self.name)
        return KeptScores(-(counts + 0.5 * order).astype(np.float32), FREE, self.epochs)


@dataclass(frozen=True)
class PersonalOnly:
    """FedRAP-D: local rounds, no round of aggregation."""

    epochs: int = 40  # rounds
    width: int = PLAN.dim
    name: ClassVar[str] = "personal-only"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Itself."""
        return self

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Train every device alone."""
        # Each device starts with a draw of its own: with one D for all, whatever that D says of
        # popular items would make the users' hits hang together, and chance would be wider.
        plan = msgspec.structs.replace(PLAN, dim=self.width)
        alone = FedRap("fedrap-d", plan, self.epochs, alike=False, peek=False)
        return alone.fit(task, seed, on_progress)


def shuffle_held_out(data: Interactions, seed: int, *, least: int = 10) -> Interactions:
    """The same people, whose newest items were replaced by any that they never touched.

    Only who is asked by `make_split` with this seed is kept, and the order that it found becomes
    the time: the split of the result holds out exactly the items drawn here. They are part of the
    data, so a protocol that bars all a user touched bars them as well.
    """
    task = make_split(data, seed, least=least).test
    rng = np.random.default_rng([seed, 0x5F])
    drawn = np.empty(task.users, dtype=np.int64)
    for user in range(task.users):
        rest = np.setdiff1d(np.arange(task.items), task.train.of(user))
        drawn[user] = rng.choice(rest)
    whole = task.train.append(drawn)
    names = tuple(str(user) for user in range(task.users))
    time = np.arange(len(whole.items), dtype=np.float64)
    return Interactions(data.name, names, data.items, whole.owners, whole.items, time=time)


@dataclass(frozen=True)
class Song:
    """What a canary scored."""

    canary: str
    rate: float  # HR@10 among 99 negatives
    users: int

    @property
    def margin(self) -> float:
        """How far from chance a blind guess of so many users may come."""
        return WIDE * float(np.sqrt(CHANCE * (1.0 - CHANCE) / self.users))

    @property
    def fires(self) -> bool:
        """Whether it found more than chance would let it."""
        return self.rate > CHANCE + self.margin

    @property
    def is_chance(self) -> bool:
        """Whether it is as good as a blind guess, and no worse."""
        return abs(self.rate - CHANCE) <= self.margin


def sing(
    data: Interactions,
    protocol: ProtocolName,
    seed: int,
    *,
    least: int = 10,
    rounds: int = 40,
    suspect: Method | None = None,
) -> Iterator[Song]:
    """Every canary on this data; `suspect`, FedRAP if not said, is asked the shuffled items."""
    asked = make_split(data, seed, protocol=protocol, least=least).test
    mixed = shuffle_held_out(data, seed, least=least)
    relabelled = make_split(mixed, seed, protocol=protocol, least=least).test
    canaries: list[tuple[str, Method, Task]] = [
        ("personal-only", PersonalOnly(rounds), asked),
        ("leak-counter", LeakCounter(rounds), asked),
        ("shuffled", suspect or FedRap(epochs=rounds, peek=False), relabelled),
    ]
    for name, method, task in canaries:
        ranks = measure(method.fit(task, seed, no_progress), task).sampled
        yield Song(name, float(hits(ranks).mean()), task.users)
