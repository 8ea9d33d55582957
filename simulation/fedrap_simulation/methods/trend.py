"""`fedrap-trend`: `fedrap-sequence`, and what rounds say was touched lately.

    z_j = ours_j + weight·t_j            core/fedrap_core/trend.py has t

All other parts are learnt in rounds at the moment of the question, in which everybody was by then,
and so is this one: every touch is told once. With `slow` devices tell what they touched in rounds
in time, one a day, a tenth of them in each, ten times at the most: not everything that happened is
known by then, and some of it twice. Half-life and weight are chosen on validation by the same votes
as all other scalars, with no trend at all as the first candidate and trend alone among the others;
so are, once more, those that mix the other parts. A moment has few answers, so where the task has
earlier ones their votes count, too, as those of devices would that were asked again and again.
A vote is for the list that is seen, NDCG@10: gains without end are decided by where the many items
lie that nobody will ever see.
Without times that can be compared between users there is no trend.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fedrap_core.plan import SequenceScoring
from fedrap_core.trend import trend_of_items
from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.engine.trend_rounds import (
    Reports,
    draw_participations,
    everybody_at,
    sum_of_rounds,
)
from fedrap_simulation.evaluation.metrics import BLOCK_CELLS, gains, measure
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import Cost, OnProgress, Scores, no_progress
from fedrap_simulation.methods.sequence import FEDRAP_SEQUENCE, Ready, Sequence, SequenceFitted
from fedrap_simulation.methods.solve import pick_by_votes, voters
from fedrap_simulation.methods.tuning import require_validation

HALVES: Several[float] = (7.0, 1.0, 2.0, 3.0, 5.0, 14.0, 30.0)  # days
WEIGHTS: Several[float] = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)  # the last: all others break ties
ALONE = SequenceScoring(solve=0.0, sequence=0.0, kappa=0.0)
BETAS: Several[float] = (0.0, 4.0, 16.0)  # of `solve` beside the sequence part, as there
KAPPAS: Several[float] = (0.0, 1.0)  # popularity of all times may want to step back


@dataclass(frozen=True, eq=False)
class TrendFitted:
    """The other parts as they were fitted, and t."""

    ours: SequenceFitted
    trend: npt.NDArray[np.float32]  # (m,)
    weight: float

    @property
    def cost(self) -> Cost:
        """That of the others, and a byte an item."""
        cost = self.ours.cost
        return replace(cost, bytes_down=cost.bytes_down + len(self.trend) + 4)

    def scores(self, users: Rows) -> Scores:
        """z: (len(users), m)."""
        return np.asarray(self.ours.scores(users) + np.float32(self.weight) * self.trend)


@dataclass(frozen=True)
class Trend:
    """`fedrap-sequence` with a trend."""

    ours: Sequence = FEDRAP_SEQUENCE
    slow: bool = False  # told in rounds in time, as `reports` has them
    reports: Reports = Reports()  # noqa: RUF009
    half_days: float = 7.0
    weight: float = 1.0
    name: str = "fedrap-trend"

    @property
    def settings(self) -> dict[str, Any]:
        """Every hyper-parameter."""
        mine = {"half_days": self.half_days, "weight": self.weight}
        reports = asdict(self.reports) if self.slow else None
        return {**mine, "reports": reports, "ours": self.ours.settings}

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """The other parts on their own, then everything that mixes by votes."""
        require_validation(task)
        ours = self.ours.tune(task, seed, lambda done, words: on_progress(0.8 * done, words))
        tuned = replace(self, ours=ours)
        if task.times is None:
            return replace(tuned, weight=0.0)
        mixes = [
            ours.scoring,
            *(SequenceScoring(solve=beta, kappa=kappa) for beta in BETAS for kappa in KAPPAS),
        ]
        candidates = [
            (ours.scoring, self.half_days, 0.0),
            *product(mixes, HALVES, WEIGHTS),
            *((ALONE, half, 1.0) for half in HALVES),
        ]
        moments, votes = (task, *task.earlier), []
        for place, one in enumerate(moments):
            on_progress(0.8 + 0.2 * place / len(moments), f"{self.name}: moment {place + 1}")
            fitted = ours.fit(one, seed, no_progress)
            trends = {half: replace(self, half_days=half).trend(one, seed) for half in HALVES}
            votes.append(_votes(fitted, one, voters(one, seed), candidates, trends))
        scoring, half, weight = candidates[pick_by_votes(np.concatenate(votes, axis=1))]
        on_progress(1.0, f"{self.name}: half {half:g} days, weight {weight:g}")
        return replace(tuned, ours=replace(ours, scoring=scoring), half_days=half, weight=weight)

    def trend(self, task: Task, seed: int) -> npt.NDArray[np.float32]:
        """t as of the moment of the question, or the end of the data: (m,)."""
        none = np.zeros(task.items, dtype=np.float32)
        if task.times is None or not len(task.times):
            return none
        now = float(task.times.max()) if task.asked_at is None else task.asked_at
        rng = np.random.default_rng([seed, 0x7E4D])
        told = everybody_at(task.train, now)
        if self.slow:
            told = draw_participations(task.train, task.times, now, self.reports, rng)
        state = sum_of_rounds(
            task.train, task.times, task.items, self.half_days, now, told, self.reports, rng
        )
        found = trend_of_items(state)
        return none if found is None else found.astype(np.float32)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> TrendFitted:
        """The other parts, then what rounds have told by now."""
        ours = self.ours.fit(task, seed, on_progress)
        return TrendFitted(ours, self.trend(task, seed), self.weight)


Candidate = tuple[SequenceScoring, float, float]  # how the others mix, half-life, weight


def _votes(
    fitted: SequenceFitted,
    task: Task,
    users: Rows,
    candidates: Several[Candidate],
    trends: dict[float, npt.NDArray[np.float32]],
) -> npt.NDArray[np.float64]:
    """Each user's NDCG@10 under each candidate: (G, len(users)). The parts are scored once."""
    votes = np.empty((len(candidates), len(users)))
    block = max(1, BLOCK_CELLS // task.items)
    for start in range(0, len(users), block):
        some = users[start : start + block]
        parts, asked = fitted.parts(some), task.some(some)
        for place, (mix, half, weight) in enumerate(candidates):
            scores = parts.mixed(mix)
            if weight:
                scores = scores + np.float32(weight) * trends[half]
            ranks = measure(Ready(scores), asked, top=0).full
            votes[place, start : start + block] = gains(ranks)
    return votes
