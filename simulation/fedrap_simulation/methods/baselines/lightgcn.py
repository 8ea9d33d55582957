"""LightGCN (He et al. 2020): factors that are averages over neighbours in the training graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch.nn import functional

from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.adam import Adam
from fedrap_simulation.methods.baselines.negatives import NegativeSampler
from fedrap_simulation.methods.protocol import Factors, Fitted, Floats, OnProgress, touched
from fedrap_simulation.methods.tuning import Patience, choose_epochs, is_large, run


@dataclass(frozen=True)
class LightGcn:
    """Pairs of a touched and a drawn item are put in order; each step spreads over the graph."""

    width: int = 64
    layers: int = 2
    rate: float = 5e-3
    decay: float = 1e-4
    steps: int = 20  # per epoch; each spreads over the whole graph, so they are few and large
    epochs: int = 40
    name: ClassVar[str] = "lightgcn"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Try how far to spread, and stop when the validation stops growing.

        On a large task only the number of layers that is set is tried.
        """
        if is_large(task):
            return choose_epochs(
                [self], task, seed, on_progress, Patience(longest=80, wait=3, every=4)
            )
        candidates = [replace(self, layers=layers) for layers in (2, 3)]
        patience = Patience(longest=200, wait=5, every=2)
        return choose_epochs(candidates, task, seed, on_progress, patience)

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Go through the interactions `epochs` times."""
        return run(self, task, seed, on_progress)

    def learn(self, task: Task, seed: int) -> Iterator[Factors]:
        """The factors after each time through."""
        rng = np.random.default_rng([seed, 0x6C7])
        sampler = NegativeSampler(task.barred, task.items)
        graph = adjacency(task)
        draw = torch.Generator().manual_seed(seed)
        start = torch.randn((task.users + task.items, self.width), generator=draw) * 0.1
        optimizer = Adam([start], self.rate)
        owners, positive = task.train.owners, task.train.items
        while True:
            for some in np.array_split(rng.permutation(len(owners)), self.steps):
                if len(some) == 0:
                    continue
                drawn = sampler.draw(owners[some], 1, rng)[:, 0]
                rows = np.stack([owners[some], task.users + positive[some], task.users + drawn])
                start.grad = self._slope(graph, start, torch.from_numpy(rows))
                optimizer.step()
            final = spread(graph, start.numpy(), self.layers)
            yield Factors(final[: task.users], final[task.users :])

    def _slope(self, graph: Any, start: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Slope of the mean BPR loss of the triples `rows` (3, b) in the first factors.

        Spreading is linear and its matrix symmetric, so the slope goes back by spreading again.
        """
        final = torch.from_numpy(spread(graph, start.numpy(), self.layers)).requires_grad_()
        user, better, worse = (functional.embedding(one, final) for one in rows)  # each (b, k)
        functional.softplus((user * (worse - better)).sum(dim=1)).mean().backward()  # type: ignore[no-untyped-call]
        assert final.grad is not None
        slope = torch.from_numpy(spread(graph, final.grad.numpy(), self.layers))
        used = torch.bincount(rows.ravel(), minlength=len(start))  # (U + m,)
        return slope + start * (self.decay * used / rows.shape[1])[:, None]


def adjacency(task: Task) -> Any:
    """The training graph over users and then items, scaled by both degrees: (U + m, U + m)."""
    pairs = touched(task)
    graph = sp.bmat([[None, pairs], [pairs.T, None]], format="csr", dtype=np.float32)
    degree = np.asarray(graph.sum(axis=1)).ravel()
    scale = sp.diags(1.0 / np.sqrt(np.maximum(degree, 1.0)).astype(np.float32))
    return (scale @ graph @ scale).tocsr().astype(np.float32)


def spread(graph: Any, start: Floats, layers: int) -> Floats:
    """The mean of the factors after 0, 1, ... `layers` times over the graph: (U + m, k)."""
    here, total = start, start.copy()
    for _ in range(layers):
        here = graph @ here
        total += here
    return np.asarray(total / np.float32(layers + 1), dtype=np.float32)
