"""`fedrap`: our default. Devices solve, the coordinator learns; and `c-only`, the same without D.

Chosen on validation are only scalars of the scoring: how much recency counts, how strongly u is
held back, how much D counts. The coordinator can choose them without seeing anybody's data: each
device hides its newest item, ranks it under every candidate, and sends one vector with a gain in
[0, 1] per candidate, clipped, summed and noised like any other update and charged like one. The
gain is NDCG without a cut, 1/log2(2 + rank): it tells candidates apart with fewer people than
NDCG@10, to which most of them add a plain zero.
`pick_by_votes` is that sum; nothing else of a device is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import hypot
from typing import Any, Self

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_coordinator.privacy.recipe import USUAL_DEVICES, preset_for
from fedrap_core.plan import Scoring, SolveMethod
from fedrap_core.privacy.accounting import charged_epsilon, charged_noise, noise_for
from fedrap_core.privacy.banded import optimal_coefficients
from fedrap_core.questions.estimates import pick
from fedrap_core.questions.tuning import LADDER, ORDER
from fedrap_core.solve.server_step import Learning
from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.engine.compiled import Matrix
from fedrap_simulation.engine.solve_rounds import Released, Schedule, run_rounds, upload_bytes
from fedrap_simulation.engine.solve_scoring import UserRepresentations, derive_users, once
from fedrap_simulation.evaluation.metrics import gains, measure
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.model_cache import LearntModel, ModelCache
from fedrap_simulation.methods.protocol import Cost, OnProgress, Scores
from fedrap_simulation.methods.tuning import require_validation

METHOD = SolveMethod(dim=64)
LEARNING = Learning(eta=0.2, decay=0.985, memory=0.9)
SCHEDULE = Schedule(rounds=100, part=0.1)
SCORING = Scoring()
VOTERS = 4000  # devices that help to choose the scalars, at most
_SHELF: ModelCache[Matrix] = ModelCache()
# Where things are bought again, a habit is longer than a mood, and a user's own items count by D.
AGAIN = {"alpha": 0.3, "beta": 1.0, "gamma": 1.0, "tau": 10.0, "sigma": 4.0, "recent": 200}
AGAIN_LADDER: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("alpha", (0.3, 0.1, 1.0)),
    ("sigma", (4.0, 2.0, 8.0)),
    ("tau", (10.0, 5.0, 20.0)),
    ("gamma", (1.0, 0.5)),
    *LADDER[2:],
)


@dataclass(frozen=True, eq=False)
class SolveFitted:
    """C of the last release, and every user's view of it."""

    tastes: UserRepresentations
    cost: Cost
    personal: bool

    def scores(self, users: Rows) -> Scores:
        """<u, C_j + D_j>: (len(users), m)."""
        scores = self.tastes.shared(users)
        if self.personal:
            scores += self.tastes.personal(users, scores)
        return scores


@dataclass(frozen=True)
class Solve:
    """The preset. One set of defaults for all data; `order` follows whether there is any."""

    name: str = "fedrap"
    personal: bool = True
    method: SolveMethod = METHOD
    learning: Learning = LEARNING
    schedule: Schedule = SCHEDULE
    scoring: Scoring = SCORING
    delta: float = 1e-5  # of the guarantee, where there is noise

    @property
    def settings(self) -> dict[str, Any]:
        """Every hyper-parameter."""
        return {
            "method": msgspec.to_builtins(self.method),
            "learning": msgspec.to_builtins(self.learning),
            "schedule": msgspec.to_builtins(self.schedule),
            "scoring": msgspec.to_builtins(self.scoring),
            "personal": self.personal,
            "delta": self.delta,
        }

    def released(self, task: Task, seed: int) -> Iterator[Released]:
        """C after each round of a task."""
        train, _ = once(task.train, task.items)
        method, learning = self._for(task, train)
        return run_rounds(train, task.items, method, learning, self.schedule, seed)

    def _for(self, task: Task, train: Histories) -> tuple[SolveMethod, Learning]:
        """The settings that follow from the data: N, p, and whether there is an order."""
        order = self.method.order if task.ordered else 0.0
        learning = msgspec.structs.replace(
            self.learning,
            population=max(1, task.users),
            density=max(1e-9, float(train.lengths.mean()) / task.items),
            settled=self.schedule.rounds,
        )
        return msgspec.structs.replace(self.method, order=order), learning

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """With scoring scalars chosen on a validation task; C is learnt once for all of them."""
        require_validation(task)
        common = self._learn(task, seed, lambda done, words: on_progress(0.6 * done, words)).model
        return self.tune_scoring(task.some(voters(task, seed)), common, on_progress)

    def tune_scoring(self, task: Task, common: Matrix, on_progress: OnProgress) -> Self:
        """The ladder alone, for a C that is already learnt."""
        best, kept = for_kind(self.scoring, task), None
        ladder = AGAIN_LADDER if task.repeats else LADDER
        for rung, (name, values) in enumerate(ladder):
            if (not task.ordered and name in ORDER) or (
                not self.personal and name in ("rho", "sigma")
            ):
                continue
            start = getattr(best, name)
            candidates = [start, *(value for value in values if value != start)]
            tries = [msgspec.structs.replace(best, **{name: value}) for value in candidates]
            # D is the last rung: until then it is left out, which is cheaper, except where it
            # decides what is bought again.
            personal = name == "rho" or task.repeats
            votes = [
                kept
                if place == 0 and kept is not None and name != "rho"
                else self._votes(task, common, one, personal)
                for place, one in enumerate(tries)
            ]
            chosen = pick_by_votes(np.array(votes))
            best, kept = tries[chosen], votes[chosen]
            on_progress(
                0.6 + 0.4 * (rung + 1) / len(ladder), f"{self.name}: {name} {candidates[chosen]}"
            )
        return replace(self, scoring=best)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> SolveFitted:
        """C from federated rounds, then every user's own view."""
        learnt = self._learn(task, seed, on_progress)
        return self.view(task, learnt.model, learnt.spared)

    def private(self, epsilon: float, delta: float, banded: bool) -> Self:
        """The preset for a guarantee: few large rounds, small k, noise from b and K.

        Epsilon is for a whole user over all rounds and not amplified. Rows and triangle are one
        vector, clipped and noised as one; nothing else leaves, so scalars are not chosen. With
        `copies` of each history the preset is that of a population so much larger.
        """
        copies = self.schedule.copies
        preset = preset_for(epsilon, copies * USUAL_DEVICES)
        schedule = Schedule(rounds=preset.rounds, part=0.5, clip=preset.clip, copies=copies)
        coefficients = optimal_coefficients(schedule.turns if banded else 1, schedule.rounds)
        noise = noise_for(epsilon, delta, schedule.participations) * hypot(*coefficients)
        return replace(
            self,
            method=preset.method,
            learning=preset.learning,
            scoring=preset.scoring,
            schedule=replace(schedule, noise=noise, coefficients=coefficients),
            delta=delta,
        )

    @property
    def epsilon(self) -> float | None:
        """What a device is charged that takes part as often as it is asked."""
        schedule = self.schedule
        if not schedule.noise:
            return None
        charged = charged_noise(schedule.noise, schedule.coefficients, None)
        return charged_epsilon(schedule.participations, charged, self.delta)

    def view(self, task: Task, common: Matrix, spared: float = 0.0) -> SolveFitted:
        """What users of a given C see."""
        train, _ = once(task.train, task.items)
        dim = common.shape[1]
        cost = Cost(
            self.schedule.rounds,
            upload_bytes(train, dim, int8=self.schedule.int8),
            float(task.items * (dim + 4) if self.schedule.int8 else 4 * task.items * dim),
            float(np.mean(common == 0.0)),
            self.epsilon,
            spared,
        )
        tastes = derive_users(common, task.train, for_kind(self.scoring, task))
        return SolveFitted(tastes, cost, self.personal and self.scoring.rho > 0)

    def _learn(self, task: Task, seed: int, on_progress: OnProgress) -> LearntModel[Matrix]:
        def learn() -> Matrix:
            common: Matrix = np.zeros((0, 0))
            for released in self.released(task, seed):
                common = released.common
                on_progress(
                    released.step / self.schedule.rounds, f"{self.name} round {released.step}"
                )
            return common

        key = (task, self.method, self.learning, self.schedule, seed)
        return _SHELF.get(key, learn)

    def _votes(
        self, task: Task, common: Matrix, scoring: Scoring, personal: bool
    ) -> npt.NDArray[np.float64]:
        tried = replace(self, scoring=scoring, personal=personal and self.personal)
        return gains(measure(tried.view(task, common), task, top=0).full, task.items)


def for_kind(scoring: Scoring, task: Task) -> Scoring:
    """Scalars of this kind of data; those that were set or chosen stay as they are."""
    usual: dict[str, float] = {}
    if task.repeats:
        usual = AGAIN
    elif not task.ordered:
        usual = {"beta": 0.0, "gamma": 1.0}
    changes = {
        name: value
        for name, value in usual.items()
        if getattr(scoring, name) == getattr(SCORING, name)
    }
    return msgspec.structs.replace(scoring, **changes)


def voters(task: Task, seed: int) -> Rows:
    """Who helps to choose scalars: at most VOTERS of those who are asked, ascending."""
    asked = task.asked_users
    drawn = np.random.default_rng([seed, 0xB07E]).permutation(len(asked))[:VOTERS]
    return asked[np.sort(drawn)]


def pick_by_votes(
    votes: npt.NDArray[np.float64], noise: float = 0.0, rng: np.random.Generator | None = None
) -> int:
    """The candidate that the rule of questions takes, `estimates.pick`; 0 is in force.

    `votes` (G, U): each user's gain in [0, 1] under each candidate. With `noise` z the sum gets
    N(0, z^2·G) per candidate: a vector of G gains has norm sqrt(G) at most.
    """
    total = votes.sum(axis=1)  # (G,)
    stddev = noise * np.sqrt(len(votes)) if rng is not None else 0.0
    if rng is not None and noise:
        total = total + rng.normal(0.0, stddev, len(total))
    return pick(total.tolist(), votes.shape[1], float(np.sqrt(2.0) * stddev))
