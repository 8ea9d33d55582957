"""FedMF (Chai et al. 2020): user vectors stay on devices, slopes of the item table are averaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch.nn import functional

from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.federated import gradient_rounds, table_cost
from fedrap_simulation.methods.protocol import Factors, Fitted, OnProgress
from fedrap_simulation.methods.tuning import Patience, choose_epochs, is_large, run


@dataclass(frozen=True)
class FedMf:
    """A logit is the product of a private user vector and a row of the shared item table."""

    width: int = 32
    negatives: int = 4
    rate: float = 1e-2
    epochs: int = 60  # rounds
    name: ClassVar[str] = "fedmf"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Try rates, and stop when the validation stops growing.

        On a large task only the rate that is set is tried.
        """
        candidates = [replace(self, rate=rate) for rate in (1e-2, 3e-2)]
        patience = Patience(longest=300, wait=5, every=5)
        if is_large(task):
            candidates, patience = [self], Patience(longest=200, wait=3, every=10)
        return choose_epochs(candidates, task, seed, on_progress, patience)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Do `epochs` rounds with every device."""
        return run(self, task, seed, on_progress)

    def learn(self, task: Task, seed: int) -> Iterator[Factors]:
        """The factors after each round."""
        draw = torch.Generator().manual_seed(seed)
        user = (torch.randn((task.users, self.width), generator=draw) * 0.1).requires_grad_()
        item = (torch.randn((task.items, self.width), generator=draw) * 0.1).requires_grad_()

        def logits(users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
            return (functional.embedding(users, user) * functional.embedding(items, item)).sum(
                dim=1
            )

        rounds = gradient_rounds(task, seed, self.negatives, [user], [item], logits, self.rate)
        for done in rounds:
            cost = table_cost(done, item.numel())
            yield Factors(user.detach().numpy(), item.detach().numpy(), cost=cost)
