"""`fedrap-init`: what `fedrap-coordinator init --no-privacy` writes for such a set, as it is.

Nothing is chosen on the data: k, targets, mixture and bounds follow from how many devices, items
and interactions there are, which is all that `init` is told; whether there is an order follows
from the set, where an operator would say it. All that protects is in force, so this is what a
product has on its first day, beside what `fedrap-sequence` reaches with settings by votes. With
`file` the settings are those of a coordinator's own file.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.privacy.recipe import Expected, derive
from fedrap_coordinator.settings import Settings, load
from fedrap_core.plan import (
    OFF,
    Scoring,
    SequenceMethod,
    SequenceScoring,
    SolveMethod,
    sequence_of,
    sequence_scoring,
)
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.engine.sequence_rounds import (
    derive_adaptations,
    derive_queries,
    sequence_upload_bytes,
    windows_of,
)
from fedrap_simulation.engine.solve_rounds import upload_bytes
from fedrap_simulation.engine.solve_scoring import derive_users, once
from fedrap_simulation.engine.task_rounds import TaskReleased, run_task_rounds, schedule_of
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import Cost, Fitted, OnProgress, Scores
from fedrap_simulation.methods.sequence import SequenceFitted, for_order
from fedrap_simulation.methods.solve import SolveFitted, for_kind


@dataclass(frozen=True, eq=False)
class ShippedFitted:
    """The last release; what is withheld of it comes last in every list."""

    inner: Fitted
    withheld: npt.NDArray[np.bool_]  # (m,)
    cost: Cost

    def scores(self, users: Rows) -> Scores:
        """z: (len(users), m)."""
        scores = self.inner.scores(users)
        scores[:, self.withheld] = -np.inf
        return scores


@dataclass(frozen=True)
class Shipped:
    """The settings of `init` for the size of a task, or those of a file."""

    file: str = ""  # of a coordinator, instead of what `init` writes
    written: dict[str, Any] = field(default_factory=dict)  # for the task that was seen last
    name: str = "fedrap-init"

    @property
    def settings(self) -> dict[str, Any]:
        """What `init` wrote that says how to learn and to score."""
        return self.written

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Nothing is chosen; what is written is kept to be printed."""
        made, seen = (
            settings_for(task, self.file),
            ("method", "privacy", "learning", "sequence", "scoring"),
        )
        every: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(made))
        on_progress(1.0, self.name)
        return replace(self, written={part: every[part] for part in seen})

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> ShippedFitted:
        """All rounds of the task, then every user's own view."""
        settings, last = settings_for(task, self.file), None
        rounds = schedule_of(task.users, settings).rounds
        for released in run_task_rounds(task.train, task.items, settings, seed):
            last = released
            done = released.step / rounds
            on_progress(done, f"{self.name} round {released.step}")
        assert last is not None
        return _viewed(task, settings, last)


def settings_for(task: Task, file: str = "") -> Settings:
    """What `init --no-privacy` writes for as many devices and items, and as long histories.

    With `file` what stands there, but for sizes that `init` would have been told.

    Raises:
        BadData: the file is none, has noise, a method that is not `solve`, or too large rounds.
    """
    mean = float(once(task.train, task.items)[0].lengths.mean())
    if file:
        made = _read(file, task.users)
    else:
        made = derive(Expected(task.users, task.items, None, max(1.0, mean))).settings
    method, scoring = made.method, made.scoring
    assert isinstance(method, SolveMethod)
    assert isinstance(scoring, Scoring)
    part = sequence_of(method)
    if not task.ordered:
        method = msgspec.structs.replace(method, order=0.0)
    if part is not None:
        method = msgspec.structs.replace(method, sequence=for_order(part, task.ordered))
    scoring = for_kind(scoring, task)
    return msgspec.structs.replace(made, method=method, scoring=scoring)


def _read(file: str, users: int) -> Settings:
    try:
        found = load(Path(file), {})
    except ConfigError as error:
        raise BadData(f"{file}: {error}") from error
    if found.privacy.noise:
        raise BadData(
            f"{file} has noise; fedrap-init runs without. `--method fedrap --epsilon E` says what"
            " quality a guarantee leaves"
        )
    if not isinstance(found.method, SolveMethod):
        raise BadData(f"{file} learns by another method; fedrap-init runs solve")
    able, least = users // found.privacy.separation, found.round.min_updates
    if able < least:
        raise BadData(
            f"{file} abandons rounds of fewer than {least} updates (round.min_updates), and of"
            f" {users} devices here {able} may join one at a time"
        )
    return found


def _viewed(task: Task, settings: Settings, released: TaskReleased) -> ShippedFitted:
    method, scoring = settings.method, settings.scoring
    assert isinstance(method, SolveMethod)
    assert isinstance(scoring, Scoring)
    rounds, train = released.step, once(task.train, task.items)[0]
    up, down = upload_bytes(train, method.dim), float(task.items * (method.dim + 4))
    zeros = float(np.mean(released.common == 0.0))
    alone = msgspec.structs.replace(scoring, sequence=OFF, trend=OFF)
    tastes = derive_users(released.common, task.train, alone)
    cost = Cost(rounds, up, down, zeros)
    solved = SolveFitted(tastes, cost, scoring.rho > 0)
    part, mix, items = sequence_of(method), sequence_scoring(scoring), released.sequence
    if part is None or mix is None or items is None:
        return ShippedFitted(solved, released.withheld, cost)
    up += sequence_upload_bytes(windows_of(task.train, task.items, part), items, part)
    down += task.items * (2 * (part.dim + 4) + 4) + 4 * part.kernels * part.dim
    cost = Cost(rounds, up, down, zeros)
    both = _both(task, part, mix, released, solved, cost)
    return ShippedFitted(both, released.withheld, cost)


def _both(
    task: Task,
    part: SequenceMethod,
    mix: SequenceScoring,
    released: TaskReleased,
    solved: SolveFitted,
    cost: Cost,
) -> SequenceFitted:
    assert released.sequence is not None
    queries = derive_queries(released.sequence, task.train, part)
    steps = derive_adaptations(released.sequence, task.train, part) if part.ordered else None
    return SequenceFitted(released.sequence, queries, steps, solved, mix, cost)
