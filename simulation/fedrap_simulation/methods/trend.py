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
    sum_of_rounds,
    told_at_once,
)
from fedrap_simulation.evaluation.metrics import BLOCK_CELLS, gains, measure
from fedrap_simulation.evaluation.task import Task
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
Shape = tuple[float, float]  # half-life, contrast
ALONE = SequenceScoring(solve=0.0, sequence=0.0, kappa=0.0)


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
        shapes = [*product(HALVES, CONTRASTS)]
        candidates: list[Candidate] = [(ours.scoring, (self.half_days, self.contrast), 0.0)]
        candidates += product((ours.scoring, SOLVE_ALONE), shapes, WEIGHTS)
        candidates += ((ALONE, shape, 1.0) for shape in shapes)
        moments, votes = (task, *task.earlier), []
        for place, one in enumerate(moments):
            on_progress(0.8 + 0.2 * place / len(moments), f"{self.name}: moment {place + 1}")
            fitted = ours.fit(one, seed, no_progress)
            trends = {shape: tuned._of(shape).trend(one, seed) for shape in shapes}
            votes.append(_votes(fitted, one, voters(one, seed), candidates, trends))
        scoring, shape, weight = candidates[pick_by_votes(np.concatenate(votes, axis=1))]
        words = f"half {shape[0]:g} days, contrast {shape[1]:g}, weight {weight:g}"
        on_progress(1.0, f"{self.name}: {words}")
        return replace(tuned._of(shape), ours=replace(ours, scoring=scoring), weight=weight)

    def _of(self, shape: Shape) -> Self:
        return replace(self, half_days=shape[0], contrast=shape[1])

    def trend(self, task: Task, seed: int) -> npt.NDArray[np.float32]:
        """t as of the moment of the question, or the end of the data: (m,)."""
        none = np.zeros(task.items, dtype=np.float32)
        if task.times is None or not len(task.times):
            return none
        now = float(task.times.max()) if task.asked_at is None else task.asked_at
        rng = np.random.default_rng([seed, 0x7E4D])
        if self.slow:
            told = draw_participations(task.train, task.times, now, self.reports, rng)
            state = sum_of_rounds(
                task.train, task.times, task.items, self.half_days, now, told, self.reports, rng
            )
        else:
            state = told_at_once(task.train, task.times, task.items, self.half_days, now)
        found = trend_of_items(replace(state, contrast=self.contrast))
        return none if found is None else found.astype(np.float32)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> TrendFitted:
        """The other parts, then what rounds have told by now."""
        ours = self.ours.fit(task, seed, on_progress)
        return TrendFitted(ours, self.trend(task, seed), self.weight)


Candidate = tuple[SequenceScoring, Shape, float]  # how the others mix, the trend, its weight


def _votes(
    fitted: SequenceFitted,
    task: Task,
    users: Rows,
    candidates: Several[Candidate],
    trends: dict[Shape, npt.NDArray[np.float32]],
) -> npt.NDArray[np.float64]:
    """Each user's NDCG@10 under each candidate: (G, len(users)). The parts are scored once."""
    votes = np.empty((len(candidates), len(users)))
    block = max(1, BLOCK_CELLS // task.items)
    for start in range(0, len(users), block):
        some = users[start : start + block]
        parts, asked = fitted.parts(some), task.some(some)
        for place, (mix, shape, weight) in enumerate(candidates):
            scores = parts.mixed(mix)
            if weight:
                scores = scores + np.float32(weight) * trends[shape]
            ranks = measure(Ready(scores), asked, top=0).full
            votes[place, start : start + block] = gains(ranks)
    return votes
