"""Mixing a trend in: by the votes of every validation moment, trend alone among the candidates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import numpy as np
import pytest

from fedrap_core.plan import SequenceScoring
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions, Rows
from fedrap_simulation.evaluation.splits import make_split
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.evaluation.time_split import DAY, make_time_split
from fedrap_simulation.methods.protocol import Cost, OnProgress, no_progress
from fedrap_simulation.methods.sequence import Parts, Sequence
from fedrap_simulation.methods.trend import DAILY_HALVES, Trend

USERS, ITEMS, SPAN = 80, 200, 160.0  # days


def shop(seed: int, follow: float) -> Interactions:
    """Three items at a time are what `follow` of all touches go to, for two weeks."""
    rng = np.random.default_rng(seed)
    count = USERS * 40
    days = np.sort(rng.random(count)) * SPAN
    hot = 3 * (days // 14).astype(int) + rng.integers(0, 3, count)
    item = np.where(rng.random(count) < follow, hot % ITEMS, rng.integers(0, ITEMS, count))
    names = tuple(f"u{one}" for one in range(USERS))
    user = rng.integers(0, USERS, count)
    order = np.argsort(user, kind="stable")
    return Interactions(
        "shop", names, tuple(f"i{one}" for one in range(ITEMS)), user[order], item[order],
        time=np.floor(days[order] * DAY),
    )  # fmt: skip


@dataclass(frozen=True)
class Noise:
    """Other parts that know nothing, and note what they were fitted to."""

    fitted_to: list[Task] = field(default_factory=list)
    scoring: SequenceScoring = SequenceScoring()  # noqa: RUF009
    cost: Cost = Cost()  # noqa: RUF009

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        return replace(self)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        self.fitted_to.append(task)
        return self

    def parts(self, users: Rows) -> Parts:
        drawn = np.random.default_rng(len(users)).normal(size=(len(users), ITEMS))
        matched: Any = 5.0 * drawn.astype(np.float32)
        return Parts(matched, matched, np.zeros(ITEMS, dtype=np.float32))


def tuned(
    data: Interactions, validations: int, noise: Noise | None = None
) -> tuple[Trend, Noise, Task]:
    task = make_time_split(data, 0, days=8.0, least=3, validations=validations).validation
    noise = noise or Noise()
    found = Trend(ours=cast(Sequence, noise)).tune(task, 0, no_progress)
    return found, noise, task


def test_where_all_follows_the_trend_it_wins_over_parts_that_know_nothing() -> None:
    found, noise, task = tuned(shop(1, 0.8), 6)
    assert noise.fitted_to == [task, *task.earlier]
    assert len(noise.fitted_to) == 6
    assert found.weight > 0
    silent = found.ours.scoring.solve == found.ours.scoring.sequence == 0.0
    assert silent or found.weight >= 16.0


@dataclass(frozen=True)
class Knowing(Noise):
    """Other parts that know the answer of every third user."""

    def parts(self, users: Rows) -> Parts:
        found = super().parts(users)
        lucky = users % 3 == 0
        found.matched[lucky, self.fitted_to[-1].targets[users[lucky]]] = 30.0
        return found


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_where_nothing_follows_it_what_is_in_force_stays(seed: int) -> None:
    found, knowing, _ = tuned(shop(seed, 0.0), 6, Knowing())
    assert len(knowing.fitted_to) == 6
    assert found.weight == 0.0


def test_without_comparable_times_there_is_no_trend_to_choose() -> None:
    task = make_time_split(shop(4, 0.8), 0, days=8.0, least=3).validation
    noise = Noise()
    found = Trend(ours=cast(Sequence, noise)).tune(replace(task, times=None), 0, no_progress)
    assert found.weight == 0.0
    assert noise.fitted_to == []


def test_asked_at_the_own_end_each_has_the_trend_of_yesterday() -> None:
    task = make_split(shop(5, 0.8), 0, protocol="clean", kind="last", least=3, published=None)
    found = Trend(ours=cast(Sequence, Noise())).tune(task.validation, 0, no_progress)
    assert found.weight > 0
    assert found.half_days in DAILY_HALVES
    fitted = found.fit(task.test, 0, no_progress)
    users = np.array([7, 3])
    together = fitted.trends.of(users)
    assert together.shape == (2, ITEMS)
    assert together[:1].tolist() == fitted.trends.of(users[:1]).tolist()
    assert fitted.cost.bytes_down == Cost().bytes_down + ITEMS + 4


def test_rounds_in_time_want_one_moment_for_all() -> None:
    task = make_split(shop(5, 0.8), 0, protocol="clean", kind="last", least=3, published=None)
    slow = Trend(ours=cast(Sequence, Noise()), slow=True)
    with pytest.raises(BadData, match="--split time"):
        slow.trends(task.validation, 0)
