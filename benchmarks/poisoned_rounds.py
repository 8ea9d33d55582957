"""Rounds of `solve` with attackers among the devices, on the engine: a cell takes seconds.

Beside the scenario, which plays every message: the same steps of the core, the same shares of both
parts, the operator's own settings, no wire, no clock. Everybody's last item is kept apart and asked
for at the end; for choosing settings the last but one, and the last is nowhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import msgspec
import numpy as np

from fedrap_coordinator.rounds.sequence_state import learn_sequence, published
from fedrap_coordinator.settings import Settings
from fedrap_core.plan import Scoring, SolveMethod, Split, sequence_of, sequence_scoring
from fedrap_core.quantize import quantize_rows
from fedrap_core.sequence.model import from_rows
from fedrap_core.sequence.server_step import start_learner
from fedrap_core.solve.server_step import (
    Learner,
    RoundSum,
    learn_step,
    touch_weight,
    withheld_rows,
)
from fedrap_core.sparse import RowPart, pack_gram
from fedrap_core.split.numbers import SERVERS
from fedrap_simulation.data.interactions import Histories, Interactions
from fedrap_simulation.engine.compiled import Ints, Matrix
from fedrap_simulation.engine.sequence_rounds import (
    derive_queries,
    draw_round,
    sum_sequence,
    windows_of,
)
from fedrap_simulation.engine.solve_rounds import Bands, Schedule, sum_shares
from fedrap_simulation.engine.solve_scoring import derive_users
from fedrap_simulation.evaluation.metrics import gains

# plain: towards the rows that are liked most; knowing: so that the step, which divides by the
# curvature, ends there; few: towards the people around one liked item. Attackers know every
# release, so they may know all of it. histories: they keep to the protocol, and invent what they
# liked.
# shrinking, with two servers alone: half of it against the curvature that every step divides by.
Aim = Literal["plain", "knowing", "few", "histories", "shrinking"]
INVENTED = (5, 20)  # items beside the promoted one, out of so many that are liked most


Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


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
    split: Split | None = None,
    full: bool = True,
) -> Cell:
    """All rounds of a task under these settings, then one question to every honest person.

    With `split` the sums are those of two servers, each with all of the noise (or, not `full`, with
    as much together as one server has), and what bounds an attacker is what is proven on shares: S
    for the whole, peak·S for a number, three places for an item. Honest devices keep the row bound.
    """
    method, rule, items = settings.method, settings.privacy, len(data.items)
    assert isinstance(method, SolveMethod)
    known, targets = _apart(data, 2 if validation else 1)
    people, rng = len(known), np.random.default_rng([seed, 0xBAD])
    counts = np.bincount(known.items, minlength=items)
    promoted = int(np.argmin(np.where(counts > 0, counts, counts.max() + 1)))
    bad = np.zeros(people, dtype=np.bool_)
    bad[rng.permutation(people)[: round(attackers * people)]] = True
    if aim == "histories":
        known = _invented(known, bad, promoted, rng)
    density = len(known.items) / people / items
    learning = msgspec.structs.replace(settings.learning, population=people, density=density)
    state = Learner(_published(rng.normal(0.0, learning.spread, (items, method.dim))))
    order = _Order(known, items, settings, rng) if sequence_of(method) is not None else None
    touch = touch_weight(learning, rule.clip, rule.noise, items) if split is None else 0.0
    noise = rule.noise if split is None or full else rule.noise / math.sqrt(SERVERS)
    bands = Bands(
        Schedule(clip=rule.clip, noise=noise, coefficients=rule.coefficients, split=split),
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
        pushing = 0 if aim == "histories" else int(bad[who].sum())
        honest = who if aim == "histories" else who[~bad[who]]
        total = sum_shares(
            known.some(honest), state.common, method, clip=rule.clip,
            row_clip=rule.row_clip or np.inf, touch=touch, split=split,
            int8_seed=None if split is None else int(rng.integers(2**40)),
        )  # fmt: skip
        if split is not None and pushing and aim == "shrinking":
            total = _shrunk(total, pushing, rule.clip, split)
        total = _pushed(total, state, promoted, pushing, aim)
        if rule.noise:
            total = bands.noised(total, touch)
        learnt = learn_step(state, total, method, learning, step)
        if order is not None:
            order.step(honest, promoted, pushing, aim, learnt)
        state = replace(learnt, common=_published(learnt.common))
    served = ~withheld_rows(state.support, learning.min_support, items)
    asked = np.flatnonzero(~bad)
    mine = known.some(asked)
    assert isinstance(settings.scoring, Scoring)
    scores = _scores(state.common, mine, settings.scoring)
    if order is not None:
        scores = order.mixed(scores, asked)
    exposure, quality = _ask(scores, mine, targets[asked], promoted, served)
    behind = 0.0 if state.support is None else float(state.support[promoted])
    return Cell(exposure, quality, float(1.0 - served.mean()), behind)


def _apart(data: Interactions, away: int) -> tuple[Histories, Ints]:
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
    towards = _liked(common, aim)
    if aim == "knowing" and state.gram is not None:
        towards = state.gram @ towards
    values, touches = np.zeros_like(common), np.zeros(len(common))
    values[total.rows] = total.values
    reach = total.bound / math.sqrt(2.0) if aim == "shrinking" else total.bound
    values[promoted] -= count * reach * _unit(towards)
    rows = np.union1d(total.rows, [promoted])
    if total.touches is None:
        return replace(total, rows=rows, values=values[rows], devices=total.devices + count)
    touches[total.rows] = total.touches
    touches[promoted] += count
    return replace(
        total, rows=rows, values=values[rows], devices=total.devices + count, touches=touches[rows]
    )


def _shrunk(total: RoundSum, count: int, clip: float, split: Split) -> RoundSum:
    """The sum with half of each attacker's squared norm in a negative Gram matrix.

    No cone holds it; the other half is in its row.
    """
    dim = total.values.shape[1]
    gram, diagonal = total.packed_gram.copy(), pack_gram(np.eye(dim))
    gram -= count * clip / split.gram_scale * _unit(diagonal) / math.sqrt(2.0)
    return replace(total, packed_gram=gram)


def _liked(rows: Matrix, aim: Aim) -> Matrix:
    """Where many users are: the mean of the longest rows, or one of them."""
    longest = np.argsort(-np.linalg.norm(rows, axis=1))[: max(1, len(rows) // 10)]
    return np.asarray(rows[longest[-1]] if aim == "few" else rows[longest].mean(axis=0))


def _unit(row: Matrix) -> Matrix:
    return row / max(1e-12, float(np.linalg.norm(row)))


def _invented(known: Histories, bad: Flags, promoted: int, rng: np.random.Generator) -> Histories:
    """Histories in which attackers touched some liked items, and the promoted one last."""
    count, liked = INVENTED
    most = np.argsort(-np.bincount(known.items))[:liked]
    parts = []
    for user in range(len(known)):
        mine = known.items[known.starts[user] : known.starts[user + 1]]
        if bad[user]:
            mine = np.append(rng.choice(most[most != promoted], count, replace=False), promoted)
        parts.append(mine)
    ends = np.cumsum([len(part) for part in parts])
    return Histories(np.concatenate([[0], ends]).astype(np.int64), np.concatenate(parts))


class _Order:
    """The sequence part beside `solve`, with attackers."""

    def __init__(
        self, known: Histories, items: int, settings: Settings, rng: np.random.Generator
    ) -> None:
        part = sequence_of(settings.method)
        assert part is not None
        self._part, self._settings, self._rng, self._known = part, settings, rng, known
        self._learner = start_learner(items, part, settings.sequence, rng)
        self._windows = windows_of(known, items, part)

    def step(self, who: Ints, promoted: int, count: int, aim: Aim, learnt: Learner) -> None:
        """One round of honest `who`, and `count` attackers at the row bound."""
        part, rule = self._part, self._settings.privacy
        items, asked = from_rows(published(self._learner)), self._windows.some(who)
        bound = (rule.row_clip or rule.clip) / part.scale
        found = sum_sequence(
            asked, items, part, draw_round(asked, part, self._rng), clip=rule.clip / part.scale,
            row_clip=bound,
        )  # fmt: skip
        outputs = found.outputs
        if count:
            values = np.zeros((len(items.outputs), part.dim + 1))
            values[outputs.rows] = outputs.values
            # Everybody is moved by a bias; those around one item by a direction.
            towards = np.zeros(part.dim + 1)
            towards[:-1] = _unit(_liked(items.outputs, aim)) if aim != "plain" else 0.0
            towards[-1] = 1.0
            values[promoted] -= count * bound * _unit(towards)
            rows = np.union1d(outputs.rows, [promoted])
            outputs = RowPart(rows, values[rows])
        kernels = RowPart(np.arange(len(found.kernels)), found.kernels)
        self._learner = learn_sequence(
            self._learner, [found.inputs, outputs, kernels], len(who) + count,
            self._settings.sequence, self._settings.learning, learnt,
        )  # fmt: skip

    def mixed(self, solved: Matrix, users: Ints) -> Matrix:
        """Scores of both parts, as a device adds them up: (len(users), m)."""
        items, mix = from_rows(published(self._learner)), sequence_scoring(self._settings.scoring)
        assert mix is not None
        queries = derive_queries(items, self._known.some(users), self._part, mix.adapts)
        matched = queries @ items.outputs.T + mix.kappa * items.bias
        return np.asarray(mix.solve * solved + mix.sequence * matched)


def _scores(common: Matrix, known: Histories, scoring: Scoring) -> Matrix:
    tastes, people = derive_users(common, known, scoring), np.arange(len(known))
    shared = tastes.shared(people)
    return np.asarray(shared + tastes.personal(people, shared))  # (A, m)


def _ask(
    scores: Matrix,
    known: Histories,
    targets: Ints,
    promoted: int,
    served: Flags,
) -> tuple[float, float]:
    people = np.arange(len(known))
    scores[:, ~served] = -np.inf
    scores[known.owners, known.items] = -np.inf
    mine = scores[:, promoted]
    shown = np.isfinite(mine) & ((scores > mine[:, None]).sum(axis=1) < 10)
    target = scores[people, targets]
    ranks = np.where(np.isfinite(target), (scores >= target[:, None]).sum(axis=1) - 1, len(served))
    return float(shown.mean()), float(gains(ranks).mean())


def _published(common: Matrix) -> Matrix:
    return quantize_rows(common).to_float().astype(np.float64)
