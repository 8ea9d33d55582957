"""Rounds of a whole task under an operator's settings: both parts in the same rounds.

`run_rounds` and `run_sequence_rounds` ask what a part can learn. Here everything is in force that
an operator has beside it: bounds on rows and on their steps, the cap on scores, support below which
an item is not recommended. Devices come in turns, at most K times each: one window, after which the
coordinator would go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_coordinator.rounds.sequence_state import learn_sequence, published
from fedrap_coordinator.settings import Settings
from fedrap_core.plan import SequenceMethod, SolveMethod, sequence_of
from fedrap_core.sequence.model import SequenceItems, from_rows
from fedrap_core.sequence.server_step import start_learner
from fedrap_core.solve.server_step import Learner, learn_step, touch_weight, withheld_rows
from fedrap_core.sparse import RowPart
from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.engine.compiled import Matrix
from fedrap_simulation.engine.sequence_rounds import draw_round, sum_sequence, windows_of
from fedrap_simulation.engine.solve_rounds import Schedule, cohorts, publish_rows, sum_shares
from fedrap_simulation.engine.solve_scoring import once


@dataclass(frozen=True, eq=False)
class TaskReleased:
    """What devices have after a step."""

    step: int
    common: Matrix  # (m, k) C
    sequence: SequenceItems | None  # None where the plan has no sequence part
    withheld: npt.NDArray[np.bool_]  # (m,) items that too few devices stand behind


def schedule_of(users: int, settings: Settings) -> Schedule:
    """As many rounds as the task plans and K allows, each of as many devices as b leaves."""
    rule, limits = settings.privacy, settings.round
    cohort = max(1, min(limits.max_updates, users // rule.separation))
    return Schedule(rounds=min(limits.total, rule.cap * users // cohort), part=cohort / users)


def run_task_rounds(
    histories: Histories, items: int, settings: Settings, seed: int
) -> Iterator[TaskReleased]:
    """Publish again and again; the first one is the start.

    Raises:
        ValueError: the settings have noise, or another method than `solve`.
    """
    method, rule = settings.method, settings.privacy
    if rule.noise or not isinstance(method, SolveMethod):
        raise ValueError("rounds of a whole task run `solve` without noise")
    users = len(histories)
    known, _ = once(histories, items)
    learning = msgspec.structs.replace(
        settings.learning,
        population=max(1, users),
        density=max(1e-9, float(known.lengths.mean()) / items),
    )
    row_clip = rule.row_clip or np.inf
    schedule = schedule_of(users, settings)
    rng = np.random.default_rng([seed, 0x7A5])
    spread = rng.normal(0.0, learning.spread, (items, method.dim))
    state = Learner(publish_rows(spread, schedule))
    touch = touch_weight(learning, rule.clip, 0.0, items)
    part = sequence_of(method)
    beside = None if part is None else _Beside(histories, items, part, settings, rng)
    nobody = np.zeros(items, dtype=np.bool_)
    yield TaskReleased(0, state.common, None if beside is None else beside.items, nobody)
    for step, who in enumerate(cohorts(users, schedule, rng)):
        total = sum_shares(
            known.some(who), state.common, method, clip=rule.clip, row_clip=row_clip,
            touch=touch, int8_seed=int(rng.integers(2**40)),
        )  # fmt: skip
        learnt = learn_step(state, total, method, learning, step)
        if beside is not None:
            beside.step(who, learnt)
        state = replace(learnt, common=publish_rows(learnt.common, schedule))
        yield TaskReleased(
            step + 1,
            state.common,
            None if beside is None else beside.items,
            withheld_rows(state.support, learning.min_support, items),
        )


class _Beside:
    """The sequence part of the same rounds."""

    def __init__(
        self,
        histories: Histories,
        items: int,
        method: SequenceMethod,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        self._method, self._settings, self._rng = method, settings, rng
        self._windows = windows_of(histories, items, method)
        self._learner = start_learner(items, method, settings.sequence, rng)
        self.items = from_rows(published(self._learner))  # as devices have them

    def step(self, who: Rows, learnt: Learner) -> None:
        """One round of these devices; `learnt` is what `solve` made of it."""
        method, settings, rule = self._method, self._settings, self._settings.privacy
        asked = self._windows.some(who)
        found = sum_sequence(
            asked, self.items, method, draw_round(asked, method, self._rng),
            clip=rule.clip / method.scale, row_clip=(rule.row_clip or np.inf) / method.scale,
            int8_seed=int(self._rng.integers(2**40)),
        )  # fmt: skip
        kernels = RowPart(np.arange(len(found.kernels)), found.kernels)
        self._learner = learn_sequence(
            self._learner, [found.inputs, found.outputs, kernels], len(who),
            settings.sequence, settings.learning, learnt,
        )  # fmt: skip
        self.items = from_rows(published(self._learner))
