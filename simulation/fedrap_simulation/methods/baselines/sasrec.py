"""SASRec (Kang & McAuley 2018): self-attention over a history predicts the item that comes next.

Trained by cross entropy over the whole catalogue, which is a good deal stronger than the single
negative of the paper (Klenitskiy & Vasilev 2023). For large catalogues some
uniform draws stand for the catalogue, which two cores can do in minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.adam import Adam
from fedrap_simulation.methods.baselines.attention import Attention, padded
from fedrap_simulation.methods.protocol import FREE, Cost, Fitted, OnProgress, Scores
from fedrap_simulation.methods.tuning import Patience, choose_epochs, is_large, run

LARGE = 2_000  # items beyond which the cross entropy is over a sample
BATCH_TOKENS = 6_000  # places of a batch, padding included


@dataclass(frozen=True, eq=False)
class _NextItem:
    """Scores are the predictions at the newest place of each history."""

    net: Attention
    histories: Histories
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        out = np.empty((len(users), self.net.items), dtype=np.float32)
        block = max(1, BATCH_TOKENS // self.net.longest)
        for start in range(0, len(users), block):
            rows, ends = padded(self.histories, users[start : start + block], self.net.longest)
            with torch.no_grad():
                hidden = self.net.hidden(rows, None)[torch.arange(len(rows)), ends]  # (b, d)
                scores = self.net.logits(hidden)  # (b, m)
            out[start : start + len(rows)] = scores.numpy()
        return out


@dataclass(frozen=True)
class SasRec:
    """Causal self-attention in a few blocks; items are scored by their own embeddings."""

    width: int = 64
    blocks: int = 2
    heads: int = 2
    longest: int = 200
    dropout: float = 0.2
    rate: float = 2e-3
    sampled: int = 512  # draws that stand for a large catalogue
    epochs: int = 30
    name: ClassVar[str] = "sasrec"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field."""
        return asdict(self)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """Try dropouts, and stop when the validation stops growing.

        On a large task only the dropout that is set is tried.
        """
        if is_large(task):
            return choose_epochs(
                [self], task, seed, on_progress, Patience(longest=40, wait=2, every=3)
            )
        candidates = [replace(self, dropout=dropout) for dropout in (0.2, 0.4)]
        return choose_epochs(candidates, task, seed, on_progress, Patience(longest=80, wait=6))

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Go through the histories `epochs` times."""
        return run(self, task, seed, on_progress)

    def learn(self, task: Task, seed: int) -> Iterator[_NextItem]:
        """The state after each time through."""
        rng = np.random.default_rng([seed, 0x5A5])
        draw = torch.Generator().manual_seed(seed)
        net = Attention.start(
            task.items, self.width, self.blocks, self.heads, self.longest, self.dropout, draw
        )
        optimizer = Adam(net.parameters(), self.rate, betas=(0.9, 0.98))
        while True:
            for batch in _batches(task.train, self.longest, rng):
                loss = self._loss(net, batch, draw)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            yield _NextItem(net, task.train)

    def _loss(self, net: Attention, batch: Tensor, draw: torch.Generator) -> Tensor:
        """Cross entropy of the next item at every place: batch is (b, length + 1), -1 is empty."""
        before, after = batch[:, :-1], batch[:, 1:]
        real = after >= 0  # (b, length)
        hidden = net.hidden(before.clamp(min=0), draw)[real]  # (t, d)
        wanted = after[real]  # (t,)
        if net.items <= LARGE:
            return torch.nn.functional.cross_entropy(net.logits(hidden), wanted)
        return _sampled_cross_entropy(net, hidden, wanted, self.sampled, draw)


def _sampled_cross_entropy(
    net: Attention, hidden: Tensor, wanted: Tensor, count: int, draw: torch.Generator
) -> Tensor:
    """Cross entropy in which `count` uniform draws, shared by the batch, stand for all others.

    Each draw stands for (m - 1) / count items, so the sum over the catalogue is met on average.
    """
    others = torch.randint(net.items, (count,), generator=draw)
    right = (hidden * net.item[wanted]).sum(dim=1) + net.bias[wanted]  # (t,)
    wrong = net.logits(hidden, others) + float(np.log((net.items - 1) / count))  # (t, count)
    wrong = wrong.masked_fill(others == wanted[:, None], -torch.inf)
    whole = torch.logaddexp(right, torch.logsumexp(wrong, dim=1))  # (t,)
    return (whole - right).mean()


def _batches(train: Histories, longest: int, rng: np.random.Generator) -> Iterator[Tensor]:
    """Every history once, cut at random where too long, with others of about its length.

    Lengths are sorted with some noise, so that batches differ between epochs yet waste little on
    padding. Yields (b, length + 1) item numbers, -1 where there is none.
    """
    users = np.flatnonzero(train.lengths >= 2)
    lengths = np.minimum(train.lengths[users], longest + 1)
    order = np.argsort(lengths * rng.uniform(0.9, 1.1, len(users)), kind="stable")
    groups: list[Rows] = []
    start = 0
    while start < len(order):
        stop, widest = start, 0
        while stop < len(order):
            widest = max(widest, int(lengths[order[stop]]))
            if stop > start and widest * (stop + 1 - start) > BATCH_TOKENS:
                break
            stop += 1
        groups.append(users[order[start:stop]])
        start = stop
    for group in rng.permutation(len(groups)):
        members = groups[group]
        sizes = np.minimum(train.lengths[members], longest + 1)
        spare = train.lengths[members] - sizes
        starts = train.starts[members] + rng.integers(0, spare + 1)
        places = np.arange(sizes.max())
        inside = places < sizes[:, None]  # (b, length + 1)
        where = np.where(inside, starts[:, None] + places, 0)
        yield torch.from_numpy(np.where(inside, train.items[where], -1))
