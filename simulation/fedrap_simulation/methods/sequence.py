"""`sequence`: the sequence part alone; `fedrap-sequence`: its scores added to those of `fedrap`.

    z_j = beta·(<u, C_j> + <u, D_j>) + <q, C'_j> + kappa·b_j        C' the sequence part's own

Chosen on validation are kappa and beta, with `fedrap` alone as one of the candidates and the one
in force, and then how far q is adapted: by the same votes as the scalars of `fedrap`, so a
coordinator can choose them too.
Both parts are learnt under one schedule, each from its own draws.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass, field, replace
from typing import Any, Self

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_coordinator.privacy.recipe import (
    ADAPT,
    DECOYS,
    PARTICIPATIONS,
    TARGETS,
    cohort_size,
    sequence_care,
    sequence_method,
    solve_dim,
    solve_learning,
)
from fedrap_core.plan import SequenceMethod, SequenceScoring
from fedrap_core.questions.tuning import MIXTURE
from fedrap_core.sequence.model import SequenceItems
from fedrap_core.sequence.server_step import SequenceLearning
from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.engine.compiled import Singles
from fedrap_simulation.engine.sequence_rounds import (
    derive_adaptations,
    derive_queries,
    run_sequence_rounds,
    sequence_upload_bytes,
    windows_of,
)
from fedrap_simulation.engine.solve_rounds import Schedule
from fedrap_simulation.evaluation.metrics import BLOCK_CELLS, gains, measure
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.model_cache import LearntModel, ModelCache
from fedrap_simulation.methods.protocol import Cost, OnProgress, Scores
from fedrap_simulation.methods.solve import (
    LEARNING,
    SCHEDULE,
    Solve,
    SolveFitted,
    pick_by_votes,
    voters,
)
from fedrap_simulation.methods.tuning import require_validation

METHOD = SequenceMethod(targets=TARGETS, decoys=DECOYS)
FOLLOWS = ("dim", "targets", "decoys", "longest", "dropout")  # from sizes, where not set by hand
WITHOUT_ORDER = 0.5  # dropout where each item is predicted from all others
# The mixtures that devices are asked about, too. Kappa above one: inputs are left out in learning
# and none in scoring, so q is longer there.
BETAS, KAPPAS, ADAPTS = (values for _, values in MIXTURE)
SOLVE_ALONE = SequenceScoring(solve=1.0, sequence=0.0)
_SHELF: ModelCache[SequenceItems] = ModelCache()


@dataclass(frozen=True, eq=False)
class Parts:
    """What scores of some users are made of."""

    solved: Singles | None  # (b, m) <u, C_j + D_j>
    matched: Singles  # (b, m) <q, C'_j>
    bias: Singles  # (m,)
    followed: Singles | None = None  # (b, m) what a step of one adds to `matched`

    def mixed(self, scoring: SequenceScoring) -> Scores:
        """z: (b, m)."""
        scores = np.float32(scoring.sequence) * self.matched
        scores += np.float32(scoring.sequence * scoring.kappa) * self.bias
        if self.followed is not None and scoring.adapts:
            scores += np.float32(scoring.sequence * scoring.adapts) * self.followed
        if self.solved is not None:
            scores += np.float32(scoring.solve) * self.solved
        return scores


@dataclass(frozen=True, eq=False)
class SequenceFitted:
    """Both parts of the last release, and every user's view of them."""

    items: SequenceItems
    queries: Singles  # (U, k) q, not adapted
    steps: Singles | None  # (U, k) what a step of one adds to q
    solved: SolveFitted | None
    scoring: SequenceScoring
    cost: Cost
    in_force: dict[str, Any] = field(default_factory=dict)

    def parts(self, users: Rows) -> Parts:
        """What `scores` adds up."""
        outputs = self.items.outputs.astype(np.float32)
        followed = None if self.steps is None else self.steps[users] @ outputs.T
        solved = None if self.solved is None else self.solved.scores(users)
        matched = self.queries[users] @ outputs.T
        return Parts(solved, matched, self.items.bias.astype(np.float32), followed)

    def scores(self, users: Rows) -> Scores:
        """z: (len(users), m)."""
        return self.parts(users).mixed(self.scoring)


@dataclass(frozen=True)
class Ready:
    """Scores that are already there, for measuring."""

    table: Scores

    def scores(self, users: Rows) -> Scores:
        return self.table[users]


@dataclass(frozen=True)
class Sequence:
    """One set of defaults for all data; whether there is an order follows from the task."""

    name: str = "sequence"
    mixed: bool = False  # with the scores of `solve`
    capacity: bool = True  # what `init` derives from sizes follows the data, as it has it
    method: SequenceMethod = METHOD
    learning: SequenceLearning = SequenceLearning()  # noqa: RUF009
    schedule: Schedule = SCHEDULE
    scoring: SequenceScoring = SequenceScoring(adapt=ADAPT)  # noqa: RUF009
    solve: Solve = Solve()  # noqa: RUF009

    @property
    def settings(self) -> dict[str, Any]:
        """Every hyper-parameter."""
        solve = replace(self.solve, schedule=self.schedule)
        raw = {
            "method": self.method,
            "capacity": self.capacity,
            "learning": self.learning,
            "schedule": self.schedule,
            "scoring": self.scoring,
            "solve": solve.settings if self.mixed else None,
        }
        return _plain(raw)

    def _in_force(self, task: Task) -> dict[str, Any]:
        """What of them follows from the sizes of this task."""
        raw = {
            "method": self._for(task),
            "learning": self._learning(task),
            "schedule": self._schedule(task),
            "solve": self._solve(task).settings if self.mixed else None,
        }
        return _plain(raw)

    def _solve(self, task: Task) -> Solve:
        """The other part, in the same rounds."""
        schedule, solve = self._schedule(task), self.solve
        if schedule != self.schedule and solve.learning == LEARNING:
            solve = replace(solve, learning=solve_learning(schedule.part, schedule.rounds))
        if self.capacity:
            dim = solve_dim(task.items)
            solve = replace(solve, method=msgspec.structs.replace(solve.method, dim=dim))
        return replace(solve, schedule=schedule)

    def _schedule(self, task: Task) -> Schedule:
        """More and smaller rounds where `init` has them, unless the schedule was set by hand."""
        mine = self.schedule
        cohort = cohort_size(task.users, len(task.train.items), task.items)
        usual = (mine.rounds, mine.part) == (SCHEDULE.rounds, SCHEDULE.part)
        if not (self.capacity and usual) or cohort >= int(mine.part * task.users):
            return mine
        turns = task.users // cohort
        return replace(mine, part=1.0 / turns, rounds=PARTICIPATIONS * turns)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """With kappa and beta, and the scalars of `solve`, chosen on a validation task."""
        require_validation(task)
        solve = self.solve
        if self.mixed:
            solve = self._solve(task).tune(
                task, seed, lambda done, words: on_progress(done / 2, words)
            )
        tuned = replace(self, solve=solve)
        fitted = tuned.fit(task, seed, lambda done, words: on_progress((1 + done) / 2, words))

        def pick(candidates: list[SequenceScoring]) -> SequenceScoring:
            return candidates[pick_by_votes(_votes(fitted, task, users, candidates))]

        users = voters(task, seed)
        return replace(tuned, scoring=pick(self.adaptations(pick(self.candidates()))))

    def candidates(self) -> list[SequenceScoring]:
        """Mixtures to choose from; the first is in force."""
        if self.mixed:
            mixtures = (
                SequenceScoring(solve=beta, kappa=kappa, adapt=self.scoring.adapt)
                for beta in BETAS
                for kappa in KAPPAS
            )
            return [SOLVE_ALONE, *mixtures]
        return [
            SequenceScoring(solve=0.0, kappa=kappa, adapt=self.scoring.adapt) for kappa in KAPPAS
        ]

    def adaptations(self, chosen: SequenceScoring) -> list[SequenceScoring]:
        """How far q may be adapted in this mixture; the first is in force."""
        others = (one for one in ADAPTS if one != chosen.adapts)
        return [chosen, *(msgspec.structs.replace(chosen, adapt=one) for one in others)]

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> SequenceFitted:
        """Federated rounds of each part, then every user's own view."""
        solved, before = None, 0.0
        if self.mixed:
            before = 0.5
            solved = self._solve(task).fit(
                task, seed, lambda done, words: on_progress(done / 2, words)
            )
        learnt = self._learn(
            task, seed, lambda done, words: on_progress(before + (1 - before) * done, words)
        )
        on_progress(1.0, f"{self.name}: {self._schedule(task).rounds} rounds")
        method = self._for(task)
        queries = derive_queries(learnt.model, task.train, method)
        steps = None
        if method.ordered:
            steps = derive_adaptations(learnt.model, task.train, method)
        cost = self._cost(task, method, learnt)
        if solved is not None:
            cost = replace(
                cost,
                bytes_up=cost.bytes_up + solved.cost.bytes_up,
                bytes_down=cost.bytes_down + solved.cost.bytes_down,
                zeros=solved.cost.zeros,
                spared=cost.spared + solved.cost.spared,
            )
        return SequenceFitted(
            learnt.model, queries, steps, solved, self.scoring, cost, self._in_force(task)
        )

    def _cost(self, task: Task, method: SequenceMethod, learnt: LearntModel[SequenceItems]) -> Cost:
        windows = windows_of(task.train, task.items, method)
        upload = sequence_upload_bytes(windows, learnt.model, method)
        # C and Delta in int8 with a scale for each row, b and the kernels in float32.
        row = 2 * (method.dim + 4) if self.schedule.int8 else 8 * method.dim
        download = task.items * (row + 4) + 4 * method.kernels * method.dim
        return Cost(self._schedule(task).rounds, upload, float(download), spared=learnt.spared)

    def _for(self, task: Task) -> SequenceMethod:
        """The settings that follow from the data, as `init` has them."""
        method = self.method
        if self.capacity:
            fits = sequence_method(len(task.train.items), task.items)
            derived = {
                name: getattr(fits, name)
                for name in FOLLOWS
                if getattr(method, name) == getattr(METHOD, name)
            }
            method = msgspec.structs.replace(method, **derived)
        return for_order(method, task.ordered)

    def _learning(self, task: Task) -> SequenceLearning:
        learning = msgspec.structs.replace(self.learning, rounds=self._schedule(task).rounds)
        if self.capacity and learning.decay == SequenceLearning().decay:
            _, decay = sequence_care(len(task.train.items), task.items)
            learning = msgspec.structs.replace(learning, decay=decay)
        return learning

    def _learn(self, task: Task, seed: int, on_progress: OnProgress) -> LearntModel[SequenceItems]:
        method, schedule, learning = self._for(task), self._schedule(task), self._learning(task)
        rounds = schedule.rounds

        def learn() -> SequenceItems:
            releases = run_sequence_rounds(task.train, task.items, method, learning, schedule, seed)
            items = next(releases).items
            for released in releases:
                items = released.items
                on_progress(released.step / rounds, f"{self.name} round {released.step}")
            return items

        return _SHELF.get((task, method, learning, schedule, seed), learn)


def _plain(raw: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it: tuples are lists."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(raw))
    return plain


def for_order(method: SequenceMethod, ordered: bool) -> SequenceMethod:
    """The method where histories have no order: each item from all others."""
    if ordered:
        return method
    dropout = WITHOUT_ORDER if method.dropout == METHOD.dropout else method.dropout
    return msgspec.structs.replace(method, ordered=False, dropout=dropout)


def _votes(
    fitted: SequenceFitted, task: Task, users: Rows, candidates: Several[SequenceScoring]
) -> npt.NDArray[np.float64]:
    """Each user's gain under each candidate: (G, len(users)). The parts are scored once."""
    votes = np.empty((len(candidates), len(users)))
    block = max(1, BLOCK_CELLS // task.items)
    for start in range(0, len(users), block):
        some = users[start : start + block]
        parts, asked = fitted.parts(some), task.some(some)
        for place, candidate in enumerate(candidates):
            ranks = measure(Ready(parts.mixed(candidate)), asked, top=0).full
            votes[place, start : start + block] = gains(ranks, task.items)
    return votes


FEDRAP_SEQUENCE = Sequence(name="fedrap-sequence", mixed=True)
