"""GRU4Rec (Hidasi et al. 2016, with the full cross entropy of 2018): a recurrent network.

    r = sigmoid(W_r x + U_r h + b_r)      z = sigmoid(W_z x + U_z h + b_z)
    n = tanh(W_n x + b_n + r * (U_n h + c_n))        h <- (1 - z) * n + z * h

x is the item's embedding, which also scores it. How it is trained: next_item.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.next_item import NextItem, learn_next
from fedrap_simulation.methods.protocol import Fitted, OnProgress
from fedrap_simulation.methods.tuning import Patience, choose_epochs, is_large, run


@dataclass(frozen=True, eq=False)
class Recurrent:
    """Embeddings and one layer of gated recurrent units."""

    items: int
    longest: int
    dropout: float
    item: Tensor  # (m, d)
    bias: Tensor  # (m,)
    weights: list[Tensor]  # W (3 d, d), U (3 d, d), b (3 d,), c (3 d,): r, z, n one below the other

    @classmethod
    def start(
        cls, items: int, width: int, longest: int, dropout: float, draw: torch.Generator
    ) -> Recurrent:
        """A network that has learnt nothing."""

        def normal(*shape: int, spread: float) -> Tensor:
            return (torch.randn(shape, generator=draw) * spread).requires_grad_()

        weights = [normal(3 * width, width, spread=width**-0.5) for _ in range(2)]
        weights += [torch.zeros(3 * width, requires_grad=True) for _ in range(2)]
        table = normal(items, width, spread=width**-0.5)
        bias = torch.zeros(items, requires_grad=True)
        return cls(items, longest, dropout, table, bias, weights)

    def parameters(self) -> list[Tensor]:
        """All that is learnt."""
        return [self.item, self.bias, *self.weights]

    def hidden(self, rows: Tensor, draw: torch.Generator | None) -> Tensor:
        """What is known at each place of the rows (b, l): (b, l, d). Without `draw` no dropout."""
        x = torch.nn.functional.embedding(rows, self.item)  # (b, l, d)
        start = torch.zeros(1, len(rows), x.shape[2])
        seen, _ = torch.gru(
            self._drop(x, draw), start, self.weights, True, 1, 0.0, draw is not None, False, True
        )
        return self._drop(seen, draw)

    def _drop(self, x: Tensor, draw: torch.Generator | None) -> Tensor:
        if draw is None or self.dropout == 0.0:
            return x
        keep = torch.rand(x.shape, generator=draw) >= self.dropout
        return x * keep / (1.0 - self.dropout)


@dataclass(frozen=True)
class Gru4Rec:
    """A recurrent network over the history."""

    width: int = 64
    longest: int = 200
    dropout: float = 0.3
    rate: float = 3e-3
    sampled: int = 512  # draws that stand for a catalogue too large for a full cross entropy
    epochs: int = 20
    name: ClassVar[str] = "gru4rec"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Try dropouts, and stop when the validation stops growing; one dropout if it is large."""
        if is_large(task):
            return choose_epochs(
                [self], task, seed, on_progress, Patience(longest=40, wait=2, every=2)
            )
        candidates = [replace(self, dropout=dropout) for dropout in (0.3, 0.5)]
        return choose_epochs(candidates, task, seed, on_progress, Patience(longest=100, wait=6))

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Go through the histories `epochs` times."""
        return run(self, task, seed, on_progress)

    def learn(self, task: Task, seed: int) -> Iterator[NextItem]:
        """The state after each time through."""
        draw = torch.Generator().manual_seed(seed)
        net = Recurrent.start(task.items, self.width, self.longest, self.dropout, draw)
        return learn_next(net, task, self.rate, self.sampled, draw, seed)
