"""FedNCF (Perifanis & Efraimidis 2022): item table and network are shared, user vectors private."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.federated import gradient_rounds, table_cost
from fedrap_simulation.methods.protocol import FREE, Cost, Fitted, OnProgress, Scores
from fedrap_simulation.methods.tuning import Patience, choose_epochs, is_large, run

BLOCK_PAIRS = 250_000  # pairs of user and item that the network sees at once when scoring


@dataclass(frozen=True, eq=False)
class _Network:
    """A network over a user vector beside an item's row."""

    user: Tensor  # (U, k)
    item: Tensor  # (m, k)
    layers: list[Tensor]  # weights (out, in) and biases (out,) in turn, down to one number
    cost: Cost = FREE

    @classmethod
    def start(cls, users: int, items: int, width: int, draw: torch.Generator) -> _Network:
        def normal(*shape: int, spread: float = 0.1) -> Tensor:
            return (torch.randn(shape, generator=draw) * spread).requires_grad_()

        layers: list[Tensor] = []
        sizes = (2 * width, width, width // 2, 1)
        for size, out in pairwise(sizes):
            layers += [
                normal(out, size, spread=(2 / size) ** 0.5),
                torch.zeros(out, requires_grad=True),
            ]
        return cls(normal(users, width), normal(items, width), layers)

    def tail(self, first: Tensor) -> Tensor:
        """The network after its first layer's sums: (..., k) to (...).

        Leaky: plain ReLU units die together for the most wanted items and leave these tied.
        """
        hidden = functional.linear(_leaky(first), self.layers[2], self.layers[3])
        return functional.linear(_leaky(hidden), self.layers[4], self.layers[5])[..., 0]

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        """One logit for each pair: (e,)."""
        both = torch.cat(
            [functional.embedding(users, self.user), functional.embedding(items, self.item)], dim=1
        )
        return self.tail(functional.linear(both, self.layers[0], self.layers[1]))

    def scores(self, users: Rows) -> Scores:
        width, items = self.user.shape[1], len(self.item)
        out = np.empty((len(users), items), dtype=np.float32)
        block = max(1, BLOCK_PAIRS // items)
        with torch.no_grad():
            own = self.user[torch.from_numpy(users)]
            left = functional.linear(own, self.layers[0][:, :width], self.layers[1])  # (b, k)
            right = functional.linear(self.item, self.layers[0][:, width:])  # (m, k)
            for start in range(0, len(users), block):
                some = slice(start, start + block)
                out[some] = self.tail(left[some, None, :] + right).numpy()
        return out


def _leaky(x: Tensor) -> Tensor:
    return functional.leaky_relu(x, 0.1)


@dataclass(frozen=True)
class FedNcf:
    """Slopes of the item table and of the network are averaged over all devices each round."""

    width: int = 32
    negatives: int = 4
    rate: float = 1e-2
    epochs: int = 60  # rounds
    name: ClassVar[str] = "fedncf"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Try rates, and stop when the validation stops growing.

        On a large task only the rate that is set is tried.
        """
        candidates = [replace(self, rate=rate) for rate in (1e-2, 3e-2)]
        patience = Patience(longest=400, wait=10, every=5)  # it stays on popularity for a while
        if is_large(task):
            candidates, patience = [self], Patience(longest=300, wait=5, every=10)
        return choose_epochs(candidates, task, seed, on_progress, patience)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Do `epochs` rounds with every device."""
        return run(self, task, seed, on_progress)

    def learn(self, task: Task, seed: int) -> Iterator[_Network]:
        """The state after each round."""
        draw = torch.Generator().manual_seed(seed)
        net = _Network.start(task.users, task.items, self.width, draw)
        shared = [net.item, *net.layers]
        numbers = sum(part.numel() for part in shared)
        for done in gradient_rounds(
            task, seed, self.negatives, [net.user], shared, net.logits, self.rate
        ):
            yield replace(net, cost=table_cost(done, numbers))
