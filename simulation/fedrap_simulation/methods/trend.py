"""`fedrap-trend`: `fedrap-sequence`, and what rounds say was touched lately.

    z_j = ours_j + weight·t_j            core/fedrap_core/trend.py has t

All other parts are learnt in rounds at the moment of the question, in which everybody was by then,
and so is this one: every touch is told once, when it happens. With `slow` devices tell what they
touched in rounds in time, one a day, a tenth of them in each, ten times at the most: not everything
that happened is known by then, and some of it twice. Half-life, contrast and weight are chosen on
validation by the same votes as all other scalars, with no trend at all as the first candidate and
trend alone among the others. A moment has few answers, so where the task has earlier ones their
votes count, too, as those of devices would that were asked again and again; and the candidates are
few and far apart, for the best of hundreds is the luckiest one. A vote is for the list that is
seen, NDCG@10: gains without end are decided by where the many items lie that nobody will ever see.
Where each user is asked at the own end, a device has the trend of the last midnight before it was
seen. Without times that can be compared between users there is no trend.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fedrap_core.plan import SequenceScoring
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.engine.trend_rounds import (
    Reports,
    draw_participations,
    sum_of_rounds,
)
from fedrap_simulation.evaluation.metrics import BLOCK_CELLS, gains, measure
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.lately import SameForAll, Trends, told_in_time
from fedrap_simulation.methods.protocol import Cost, OnProgress, Scores, no_progress
from fedrap_simulation.methods.sequence import (
    FEDRAP_SEQUENCE,
    SOLVE_ALONE,
    Ready,
    Sequence,
    SequenceFitted,
)
from fedrap_simulation.methods.solve import pick_by_votes, voters
from fedrap_simulation.methods.tuning import require_validation

HALVES: Several[float] = (7.0, 3.0, 14.0)  # days
CONTRASTS: Several[float] = (0.0, 0.5, 0.7, 0.9)
WEIGHTS: Several[float] = (1.0, 4.0, 16.0, 64.0)  # the last: all others break ties
# Where each is asked at the own end votes are enough for more, and yesterday is told already.
DAILY_HALVES: Several[float] = (1.0, 0.5, 2.0, 7.0)
DAILY_WEIGHTS: Several[float] = (1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
Shape = tuple[float, float]  # half-life, contrast
ALONE = SequenceScoring(solve=0.0, sequence=0.0, kappa=0.0)


@dataclass(frozen=True, eq=False)
class TrendFitted:
    """The other parts as they were fitted, and t."""

    ours: SequenceFitted
    trends: Trends
    weight: float

    @property
    def cost(self) -> Cost:
        """That of the others, and a byte an item."""
        cost = self.ours.cost
        return replace(cost, bytes_down=cost.bytes_down + self.trends.size + 4)

    @property
    def in_force(self) -> dict[str, Any]:
        """Of the others."""
        return self.ours.in_force

    def scores(self, users: Rows) -> Scores:
        """z: (len(users), m)."""
        return np.asarray(self.ours.scores(users) + np.float32(self.weight) * self.trends.of(users))


@dataclass(frozen=True)
class Trend:
    """`fedrap-sequence` with a trend."""

    ours: Sequence = FEDRAP_SEQUENCE
    slow: bool = False  # told in rounds in time, as `reports` has them
    reports: Reports = Reports()  # noqa: RUF009
    half_days: float = 7.0
    contrast: float = 0.0
    weight: float = 1.0
    name: str = "fedrap-trend"

    @property
    def settings(self) -> dict[str, Any]:
        """Every hyper-parameter."""
        mine = {
            "half_days": self.half_days,
            "contrast": self.contrast,
            "weight": self.weight,
        }
        reports = asdict(self.reports) if self.slow else None
        return {**mine, "reports": reports, "ours": self.ours.settings}

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """The other parts on their own, then everything that mixes by votes."""
        require_validation(task)
        ours = self.ours.tune(task, seed, lambda done, words: on_progress(0.8 * done, words))
        tuned = replace(self, ours=ours)
        if task.times is None:
            return replace(tuned, weight=0.0)
        daily = task.asked_at is None
        shapes = [*product(DAILY_HALVES if daily else HALVES, CONTRASTS)]
        weights = DAILY_WEIGHTS if daily else WEIGHTS
        candidates: list[Candidate] = [(ours.scoring, (self.half_days, self.contrast), 0.0)]
        candidates += product((ours.scoring, SOLVE_ALONE), shapes, weights)
        candidates += ((ALONE, shape, 1.0) for shape in shapes)
        moments, votes = (task, *task.earlier), []
        for place, one in enumerate(moments):
            on_progress(0.8 + 0.2 * place / len(moments), f"{self.name}: moment {place + 1}")
            fitted = ours.fit(one, seed, no_progress)
            trends = {shape: tuned._of(shape).trends(one, seed) for shape in shapes}
            votes.append(_votes(fitted, one, voters(one, seed), candidates, trends))
        scoring, shape, weight = candidates[pick_by_votes(np.concatenate(votes, axis=1))]
        words = f"half {shape[0]:g} days, contrast {shape[1]:g}, weight {weight:g}"
        on_progress(1.0, f"{self.name}: {words}")
        return replace(tuned._of(shape), ours=replace(ours, scoring=scoring), weight=weight)

    def _of(self, shape: Shape) -> Self:
        return replace(self, half_days=shape[0], contrast=shape[1])

    def trends(self, task: Task, seed: int) -> Trends:
        """t as of the moment of the question.

        Raises:
            BadData: it is told in rounds in time, and everybody is asked at another moment.
        """
        if not self.slow or task.times is None or not len(task.times):
            return told_in_time(task, self.half_days, self.contrast)
        if task.asked_at is None:
            raise BadData(f"{self.name}.slow needs one moment for all: --split time")
        rng = np.random.default_rng([seed, 0x7E4D])
        told = draw_participations(task.train, task.times, task.asked_at, self.reports, rng)
        state = sum_of_rounds(
            task.train,
            task.times,
            task.items,
            self.half_days,
            task.asked_at,
            told,
            self.reports,
            rng,
        )
        return SameForAll.of_state(replace(state, contrast=self.contrast), task.items)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> TrendFitted:
        """The other parts, then what rounds have told by now."""
        ours = self.ours.fit(task, seed, on_progress)
        return TrendFitted(ours, self.trends(task, seed), self.weight)


Candidate = tuple[SequenceScoring, Shape, float]  # how the others mix, the trend, its weight


def _votes(
    fitted: SequenceFitted,
    task: Task,
    users: Rows,
    candidates: Several[Candidate],
    trends: dict[Shape, Trends],
) -> npt.NDArray[np.float64]:
    """Each user's NDCG@10 under each candidate: (G, len(users)). The parts are scored once."""
    votes = np.empty((len(candidates), len(users)))
    block = max(1, BLOCK_CELLS // task.items)
    for start in range(0, len(users), block):
        some = users[start : start + block]
        parts, asked = fitted.parts(some), task.some(some)
        last: Shape | None = None
        lately: Scores = np.zeros((1, task.items), dtype=np.float32)
        for place, (mix, shape, weight) in enumerate(candidates):
            scores = parts.mixed(mix)
            if weight:
                if shape != last:  # one at a time: a block of all of them is half a gigabyte
                    last, lately = shape, trends[shape].of(some)
                scores = scores + np.float32(weight) * lately
            ranks = measure(Ready(scores), asked, top=0).full
            votes[place, start : start + block] = gains(ranks)
    return votes
