"""Rounds of `solve` with attackers among the devices, on the engine: a cell takes seconds.

Beside the scenario, which plays every message: the same step of the core, the same shares, the
operator's own settings, no wire, no clock. Everybody's last item is kept apart and asked for at the
end; for choosing settings the last but one, and the last is nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from fedrap_coordinator.settings import Settings
from fedrap_core.plan import Scoring, SolveMethod
from fedrap_core.quantize import quantize_rows
from fedrap_core.solve.server_step import Learner, RoundSum, learn_step, withheld_rows
from fedrap_simulation.data.interactions import Histories, Interactions
from fedrap_simulation.engine.compiled import Matrix
from fedrap_simulation.engine.solve_rounds import Bands, Schedule, sum_shares
from fedrap_simulation.engine.solve_scoring import derive_users
from fedrap_simulation.evaluation.metrics import gains

# plain: towards the rows that are liked most; knowing: so that the step, which divides by the
# curvature, ends there. Attackers know every release, so they may know both.
Aim = Literal["plain", "knowing"]


@dataclass(frozen=True)
class Cell:
    """What came of it."""

    exposure: float
    ndcg10: float
    withheld: float  # share of the catalogue
    support: float  # of the promoted item


def play_rounds(
    data: Interactions,
    attackers: float,
    settings: Settings,
    seed: int,
    *,
    aim: Aim = "plain",
    validation: bool = False,
) -> Cell:
    """All rounds of a task under these settings, then one question to every honest person."""
    method, rule, items = settings.method, settings.privacy, len(data.items)
    assert isinstance(method, SolveMethod)
    known, targets = _apart(data, 2 if validation else 1)
    people, rng = len(known), np.random.default_rng([seed, 0xBAD])
    counts = np.bincount(known.items, minlength=items)
    promoted = int(np.argmin(np.where(counts > 0, counts, counts.max() + 1)))
    bad = np.zeros(people, dtype=np.bool_)
    bad[rng.permutation(people)[: round(attackers * people)]] = True
    density = len(known.items) / people / items
    learning = msgspec.structs.replace(settings.learning, population=people, density=density)
    state = Learner(_published(rng.normal(0.0, learning.spread, (items, method.dim))))
    bands = Bands(
        Schedule(clip=rule.clip, noise=rule.noise, coefficients=rule.coefficients),
        items, method.dim, rng,
    )  # fmt: skip
    cohort = min(settings.round.max_updates, people // rule.separation)
    used, last = np.zeros(people, dtype=np.int64), np.zeros(people, dtype=np.bool_)
    for step in range(settings.round.total):
        # Who took part least comes first, as in turns: correlated noise counts on the distance.
        free = rng.permutation(np.flatnonzero((used < rule.cap) & ~last))
        who = np.sort(free[np.argsort(used[free], kind="stable")][:cohort])
        last[:] = False
        last[who] = True
        used[who] += 1
        honest = known.some(who[~bad[who]])
        total = sum_shares(
            honest, state.common, method, clip=rule.clip, row_clip=rule.row_clip or np.inf
        )
        total = _pushed(total, state, promoted, int(bad[who].sum()), aim)
        if rule.noise:
            total = bands.noised(total)
        learnt = learn_step(state, total, method, learning, step)
        state = Learner(_published(learnt.common), learnt.gram, learnt.support)
    served = ~withheld_rows(state.support, learning.min_support, items)
    asked = np.flatnonzero(~bad)
    exposure, quality = _ask(
        state.common, known.some(asked), targets[asked], promoted, served, settings.scoring
    )
    behind = 0.0 if state.support is None else float(state.support[promoted])
    return Cell(exposure, quality, float(1.0 - served.mean()), behind)


def _apart(
    data: Interactions, away: int
) -> tuple[Histories, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Histories without their last `away` items, and the oldest of these; short histories go."""
    time = np.zeros(len(data)) if data.time is None else data.time
    order = np.lexsort((np.arange(len(data)), time, data.user))
    user, item = data.user[order], data.item[order].astype(np.int64)
    cuts = np.cumsum(np.bincount(user, minlength=len(data.users)))[:-1]
    parts = [part for part in np.split(item, cuts) if len(part) >= 2 + away]
    ends = np.cumsum([len(part) - away for part in parts])
    starts = np.concatenate([[0], ends]).astype(np.int64)
    known = np.concatenate([part[:-away] for part in parts])
    return Histories(starts, known), np.array([part[-away] for part in parts])


def _pushed(total: RoundSum, state: Learner, promoted: int, count: int, aim: Aim) -> RoundSum:
    """The sum with attackers: each sends all that the bound allows, towards most users."""
    if not count:
        return total
    common = state.common
    liked = common[np.argsort(-np.linalg.norm(common, axis=1))[: max(1, len(common) // 10)]]
    towards = liked.mean(axis=0)
    if aim == "knowing" and state.gram is not None:
        towards = state.gram @ towards
    push = -count * total.bound * towards / max(1e-12, float(np.linalg.norm(towards)))
    values = np.zeros_like(common)
    values[total.rows] = total.values
    values[promoted] += push
    rows = np.union1d(total.rows, [promoted])
    return RoundSum(rows, values[rows], total.packed_gram, total.devices + count, total.bound)


def _ask(
    common: Matrix,
    known: Histories,
    targets: np.ndarray[tuple[int], np.dtype[np.int64]],
    promoted: int,
    served: np.ndarray[tuple[int], np.dtype[np.bool_]],
    scoring: Scoring,
) -> tuple[float, float]:
    tastes, people = derive_users(common, known, scoring), np.arange(len(known))
    shared = tastes.shared(people)
    scores = np.asarray(shared + tastes.personal(people, shared))  # (A, m)
    scores[:, ~served] = -np.inf
    scores[known.owners, known.items] = -np.inf
    mine = scores[:, promoted]
    shown = np.isfinite(mine) & ((scores > mine[:, None]).sum(axis=1) < 10)
    target = scores[people, targets]
    ranks = np.where(np.isfinite(target), (scores >= target[:, None]).sum(axis=1) - 1, len(common))
    return float(shown.mean()), float(gains(ranks).mean())


def _published(common: Matrix) -> Matrix:
    return quantize_rows(common).to_float().astype(np.float64)
