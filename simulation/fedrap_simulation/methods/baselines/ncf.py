"""NeuMF (He et al. 2017): a product of factors beside a small network, over drawn negatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.adam import Adam
from fedrap_simulation.methods.baselines.negatives import NegativeSampler
from fedrap_simulation.methods.protocol import FREE, Cost, Fitted, OnProgress, Scores
from fedrap_simulation.methods.tuning import Patience, choose_epochs, is_large, run

BLOCK_PAIRS = 250_000  # pairs of user and item that the network sees at once when scoring


@dataclass(frozen=True, eq=False)
class _NeuMf:
    """Both halves; `mlp` alternates weights (out, in) and biases (out,)."""

    user: Tensor  # (U, k) of the product
    item: Tensor  # (m, k)
    user_deep: Tensor  # (U, k) of the network
    item_deep: Tensor  # (m, k)
    mlp: list[Tensor]
    last: Tensor  # (k + k / 2,) weights of both halves' outputs
    bias: Tensor  # (m,) how much an item is taken by all
    cost: Cost = FREE

    @classmethod
    def start(cls, users: int, items: int, width: int, draw: torch.Generator) -> _NeuMf:
        def normal(*shape: int, spread: float = 0.05) -> Tensor:
            return (torch.randn(shape, generator=draw) * spread).requires_grad_()

        mlp: list[Tensor] = []
        for size, out in ((2 * width, width), (width, width // 2)):
            mlp += [
                normal(out, size, spread=(2 / size) ** 0.5),
                torch.zeros(out, requires_grad=True),
            ]
        last = torch.cat([torch.ones(width), torch.zeros(width // 2)]).requires_grad_()
        bias = torch.zeros(items, requires_grad=True)
        shallow = normal(users, width), normal(items, width)
        deep = normal(users, width), normal(items, width)
        return cls(*shallow, *deep, mlp, last, bias)

    def parameters(self) -> list[Tensor]:
        tables = [self.user, self.item, self.user_deep, self.item_deep]
        return [*tables, *self.mlp, self.last, self.bias]

    def deep(self, first: Tensor) -> Tensor:
        """The network after its first layer's sums: (..., k) to (..., k / 2)."""
        return functional.relu(functional.linear(functional.relu(first), self.mlp[2], self.mlp[3]))

    def halves(self, user: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
        """The first layer's sums, split so that each user and item goes through it once."""
        width = self.user.shape[1]
        return functional.linear(user, self.mlp[0][:, :width], self.mlp[1]), functional.linear(
            item, self.mlp[0][:, width:]
        )

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        """One logit for each pair: (b,)."""
        width = self.user.shape[1]
        product = functional.embedding(users, self.user) * functional.embedding(
            items, self.item
        )  # (b, k)
        left, right = self.halves(
            functional.embedding(users, self.user_deep), functional.embedding(items, self.item_deep)
        )
        bias = functional.embedding(items, self.bias[:, None])[:, 0]  # (b,)
        return product @ self.last[:width] + self.deep(left + right) @ self.last[width:] + bias

    def scores(self, users: Rows) -> Scores:
        width, items = self.user.shape[1], len(self.item)
        out = np.empty((len(users), items), dtype=np.float32)
        block = max(1, BLOCK_PAIRS // items)
        with torch.no_grad():
            left, right = self.halves(self.user_deep[torch.from_numpy(users)], self.item_deep)
            weighed = self.user[torch.from_numpy(users)] * self.last[:width]  # (b, k)
            for start in range(0, len(users), block):
                some = slice(start, start + block)
                deep = self.deep(left[some, None, :] + right) @ self.last[width:]  # (b, m)
                out[some] = (weighed[some] @ self.item.T + deep + self.bias).numpy()
        return out


@dataclass(frozen=True)
class Ncf:
    """Binary cross entropy over what was touched and a few draws of what was not."""

    width: int = 32
    negatives: int = 4
    rate: float = 2e-3
    decay: float = 1e-6
    batch: int = 4_096
    epochs: int = 15
    name: ClassVar[str] = "ncf"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Try strengths of decay, and stop when the validation stops growing.

        On a large task only the decay that is set is tried.
        """
        candidates = [replace(self, decay=decay) for decay in (1e-6, 1e-5)]
        if is_large(task):
            candidates = [self]
        return choose_epochs(candidates, task, seed, on_progress, Patience(longest=60, wait=4))

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Go through the interactions `epochs` times."""
        return run(self, task, seed, on_progress)

    def learn(self, task: Task, seed: int) -> Iterator[_NeuMf]:
        """The state after each time through."""
        rng = np.random.default_rng([seed, 0x9CF])
        sampler = NegativeSampler(task.barred, task.items)
        net = _NeuMf.start(task.users, task.items, self.width, torch.Generator().manual_seed(seed))
        optimizer = Adam(net.parameters(), self.rate, decay=self.decay)
        owners, positive = task.train.owners, task.train.items
        positives = max(1, self.batch // (1 + self.negatives))
        while True:
            order = rng.permutation(len(owners))
            for start in range(0, len(order), positives):
                some = order[start : start + positives]
                drawn = sampler.draw(owners[some], self.negatives, rng)  # (b, negatives)
                items = np.concatenate([positive[some], drawn.ravel()])
                users = np.concatenate([owners[some], np.repeat(owners[some], self.negatives)])
                labels = (np.arange(len(items)) < len(some)).astype(np.float32)
                logits = net.logits(torch.from_numpy(users), torch.from_numpy(items))
                loss = functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(labels))
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            yield net
