"""Small local rounds and populations for the tests of `paper`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrap_core.aggregate import Accumulator
from fedrap_core.model import Rows
from fedrap_core.paper.averaging import Averaging, average_step
from fedrap_core.paper.objective import LocalModel, Matrix, Samples
from fedrap_core.paper.problem import (
    PaperProblem,
    PaperState,
    fresh_state,
    keep_state,
    pose_paper,
)
from fedrap_core.paper.training import train_local
from fedrap_core.plan import PaperMethod
from fedrap_core.solve.server_step import Learner

SIZE = 60  # items of the small catalogue


def model_of(rng: np.random.Generator, own: int = 3, other: int = 4, dim: int = 3) -> LocalModel:
    """A model with entries of about one."""
    return LocalModel(
        rng.normal(size=dim),
        float(rng.normal()),
        rng.normal(size=(own, dim)),
        rng.normal(size=(own, dim)),
        rng.normal(size=(other, dim)),
    )


def samples_of(rng: np.random.Generator, own: int = 3, other: int = 4) -> Samples:
    """Shares of samples that come once or several times, as positives and negatives."""
    positives = np.concatenate([rng.integers(1, 3, size=own), np.zeros(other, dtype=np.int64)])
    negatives = np.concatenate([rng.integers(0, 2, size=own), rng.integers(1, 4, size=other)])
    total = max(int((positives + negatives).sum()), 1)
    weights, liked = (positives + negatives) / total, positives / total
    return Samples(weights[:own], liked[:own], weights[own:], liked[own:])


def catalogue(rng: np.random.Generator, dim: int, size: int = SIZE) -> Matrix:
    """C from N(0, 1), as a device has it: numbers that float32 holds exactly."""
    return rng.normal(size=(size, dim)).astype(np.float32).astype(np.float64)


def round_of(
    rng: np.random.Generator,
    method: PaperMethod,
    seen: int = 10,
    size: int = SIZE,
    step: int = 5,
    *,
    full: bool = False,
) -> PaperProblem:
    """A device's round with `seen` items of a fresh catalogue."""
    common = catalogue(rng, method.dim, size)
    chosen = rng.choice(size, size=seen, replace=False).astype(np.int64)
    rest = np.setdiff1d(np.arange(size), chosen)
    state = fresh_state(method)
    return pose_paper(
        lambda rows: common[rows], state, chosen, rest, method, step, rng.random, full=full
    )


@dataclass(eq=False)
class Population:
    """A few users whose rounds are computed without any wire, to watch the method itself."""

    common: Matrix
    states: list[PaperState]
    seen: list[Rows]
    unseen: list[Rows]

    def play(
        self,
        method: PaperMethod,
        averaging: Averaging,
        step: int,
        rng: np.random.Generator,
        *,
        full: bool = False,
    ) -> float:
        """One round of everybody; the mean of the first losses."""
        total = Accumulator(len(self.common), method.dim, 1e9)
        losses = []
        for place, state in enumerate(self.states):
            problem = pose_paper(
                lambda rows: np.asarray(self.common[rows]),
                state,
                self.seen[place],
                self.unseen[place],
                method,
                step,
                rng.random,
                full=full,
            )
            result = train_local(problem)
            self.states[place] = keep_state(state, problem, result)
            total.add(result.update)
            losses.append(result.losses[0])
        summed = total.total(0.0, b"", step)
        self.common = average_step(Learner(self.common), summed, method, averaging, step).common
        return float(np.mean(losses))

    def scores(self, user: int) -> Matrix:
        """z of every item for one user, D included: (m,)."""
        state = self.states[user]
        rows = self.common.copy()
        rows[state.rows] += state.personal
        return np.asarray(rows @ state.user + state.bias)


def population(
    rng: np.random.Generator, method: PaperMethod, users: int = 12, size: int = SIZE
) -> Population:
    """Users who each like eight items of their half of the catalogue."""
    seen, unseen = [], []
    for user in range(users):
        half = np.arange(size)[user % 2 :: 2]
        mine = rng.choice(half, size=8, replace=False).astype(np.int64)
        seen.append(mine)
        unseen.append(np.setdiff1d(np.arange(size), mine))
    states = [fresh_state(method) for _ in range(users)]
    return Population(catalogue(rng, method.dim, size), states, seen, unseen)
