"""CentRAP, the centralised twin: the same objective, with all data in one place.

Gradient descent on Eq. 3 over all users at once: in each step every user moves u and D, and C
moves by the mean of the users' steps. FedRAP differs in one point, that a device takes many
steps before C is averaged; with one local epoch and everybody in the round both are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedrap_core.aggregate import Accumulator
from fedrap_core.model import Rows
from fedrap_core.paper.averaging import Averaging, average_step
from fedrap_core.paper.objective import Matrix
from fedrap_core.paper.problem import (
    PaperProblem,
    PaperResult,
    PaperState,
    keep_state,
    pose_paper,
)
from fedrap_core.paper.sampling import Uniform
from fedrap_core.paper.training import train_local
from fedrap_core.plan import PaperMethod
from fedrap_core.solve.server_step import Learner

Train = Callable[[Sequence[PaperProblem]], list[PaperResult]]
UNCLIPPED = 1e9  # nothing leaves anybody's device here, so nothing is clipped


def train_each(problems: Sequence[PaperProblem]) -> list[PaperResult]:
    """The reference trainer over several users."""
    return [train_local(problem) for problem in problems]


def train_centrally(
    common: Matrix,
    states: Sequence[PaperState],
    seen: Sequence[Rows],
    unseen: Sequence[Rows],
    method: PaperMethod,
    averaging: Averaging,
    step: int,
    uniform: Uniform,
    *,
    full: bool = True,
    train: Train = train_each,
) -> tuple[Matrix, list[PaperState]]:
    """One step over all users: the new C and everybody's new u and D.

    `method.epochs` is the number of local steps between two averages: 1 for CentRAP.

    Raises:
        Diverged: a user's step ran away; nothing was changed.
    """

    def take(rows: Rows) -> Matrix:
        return np.asarray(common[rows])

    problems = [
        pose_paper(take, state, mine, rest, method, step, uniform, full=full)
        for state, mine, rest in zip(states, seen, unseen, strict=True)
    ]
    results = train(problems)
    total = Accumulator(len(common), method.dim, UNCLIPPED)
    for result in results:
        total.add(result.update)
    learner = average_step(Learner(common), total.total(0.0, b"", step), method, averaging, step)
    kept = [keep_state(*both) for both in zip(states, problems, results, strict=True)]
    return learner.common, kept
