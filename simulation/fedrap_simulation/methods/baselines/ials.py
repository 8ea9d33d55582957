"""Implicit alternating least squares (Hu et al. 2008), as the `implicit` library does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import Factors, Fitted, OnProgress, touched
from fedrap_simulation.methods.tuning import Patience, choose_epochs, is_large, run

# A step solves all users and all items once.
PATIENCE = Patience(longest=40, wait=3, every=3)


@dataclass(frozen=True)
class Ials:
    """Weighted least squares over all cells: touched ones weigh `alpha`, the others one."""

    factors: int = 64
    regularization: float = 30.0
    alpha: float = 8.0
    epochs: int = 15
    name: ClassVar[str] = "ials"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """First the weights at one size, then the size at those weights; fewer on a large task."""
        large = is_large(task)
        grid = [
            replace(self, factors=64, regularization=regularization, alpha=alpha)
            for alpha in ((2.0, 5.0) if large else (2.0, 5.0, 12.0))
            for regularization in ((10.0, 30.0, 100.0) if large else (3.0, 10.0, 30.0, 100.0))
        ]
        first = choose_epochs(grid, task, seed, lambda s, w: on_progress(0.6 * s, w), PATIENCE)
        sizes = [
            replace(first, factors=factors)
            for factors in ((64, 192) if large else (64, 32, 128, 192))
        ]
        return choose_epochs(
            sizes, task, seed, lambda s, w: on_progress(0.6 + 0.4 * s, w), PATIENCE
        )

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Alternate `epochs` times."""
        return run(self, task, seed, on_progress)

    def learn(self, task: Task, seed: int) -> Iterator[Factors]:
        """The factors after each time round."""
        # The library runs its own threads and asks that BLAS does not run others beside them.
        with threadpool_limits(1, "blas"):
            from implicit.cpu.als import AlternatingLeastSquares

            model = AlternatingLeastSquares(
                factors=self.factors,
                regularization=self.regularization,
                alpha=self.alpha,
                iterations=1,
                random_state=seed,
            )
        histories = touched(task)
        everyone = np.arange(task.users)
        while True:
            with threadpool_limits(1, "blas"):
                model.fit(histories, show_progress=False)  # goes on from where it stands
                # The library ends on the items; users are solved once more to fit them.
                user = model.recalculate_user(everyone, histories)
            yield Factors(user, model.item_factors)
