"""What networks that predict the next item share: batches, the loss, and scores at the end.

Trained by cross entropy over the whole catalogue, which is a good deal stronger than the single
negative of the papers (Klenitskiy & Vasilev 2023). Where the catalogue is too large for two cores,
some uniform draws stand for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.adam import Adam
from fedrap_simulation.methods.protocol import FREE, Cost, Scores

LARGE = 30_000  # items beyond which the cross entropy is over a sample
BATCH_TOKENS = 6_000  # places of a batch at the most, padding included
BATCH_CELLS = 25_000_000  # scores of a batch at the most: 100 MB, three times while it learns


class Network(Protocol):
    """Something that reads histories place by place."""

    @property
    def items(self) -> int:
        """m."""

    @property
    def longest(self) -> int:
        """How many of the newest items it reads."""

    @property
    def item(self) -> Tensor:
        """The items as they are scored: (m, d)."""

    @property
    def bias(self) -> Tensor:
        """(m,)."""

    def parameters(self) -> list[Tensor]:
        """All that is learnt."""

    def hidden(self, rows: Tensor, draw: torch.Generator | None) -> Tensor:
        """What is known at each place of the rows (b, l): (b, l, d). Without `draw` no dropout."""


@dataclass(frozen=True, eq=False)
class NextItem:
    """Scores are the predictions at the newest place of each history."""

    net: Network
    histories: Histories
    cost: Cost = FREE

    def scores(self, users: Rows) -> Scores:
        """(len(users), m)."""
        out = np.empty((len(users), self.net.items), dtype=np.float32)
        block = max(1, BATCH_TOKENS // self.net.longest)
        for start in range(0, len(users), block):
            rows, ends = padded(self.histories, users[start : start + block], self.net.longest)
            with torch.no_grad():
                hidden = self.net.hidden(rows, None)[torch.arange(len(rows)), ends]  # (b, d)
                scores = logits(self.net, hidden)  # (b, m)
            out[start : start + len(rows)] = scores.numpy()
        return out


def learn_next(
    net: Network, task: Task, rate: float, sampled: int, draw: torch.Generator, seed: int
) -> Iterator[NextItem]:
    """The state after each time through the histories."""
    rng = np.random.default_rng([seed, 0x5A5])
    optimizer = Adam(net.parameters(), rate, betas=(0.9, 0.98))
    tokens = BATCH_TOKENS
    if task.items <= LARGE:
        tokens = min(tokens, max(500, BATCH_CELLS // task.items))
    while True:
        for batch in batches(task.train, net.longest, rng, tokens):
            loss = next_loss(net, batch, sampled, draw)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        yield NextItem(net, task.train)


def next_loss(net: Network, batch: Tensor, sampled: int, draw: torch.Generator) -> Tensor:
    """Cross entropy of the next item at every place: batch is (b, length + 1), -1 is empty."""
    before, after = batch[:, :-1], batch[:, 1:]
    real = after >= 0  # (b, length)
    hidden = net.hidden(before.clamp(min=0), draw)[real]  # (t, d)
    wanted = after[real]  # (t,)
    if net.items <= LARGE:
        return torch.nn.functional.cross_entropy(logits(net, hidden), wanted)
    return sampled_cross_entropy(net, hidden, wanted, sampled, draw)


def logits(net: Network, hidden: Tensor, among: Tensor | None = None) -> Tensor:
    """Scores of all items, or of some: (t, m) or (t, len(among))."""
    if among is None:
        return torch.nn.functional.linear(hidden, net.item, net.bias)
    return torch.nn.functional.linear(hidden, net.item[among], net.bias[among])


def sampled_cross_entropy(
    net: Network, hidden: Tensor, wanted: Tensor, count: int, draw: torch.Generator
) -> Tensor:
    """Cross entropy in which `count` uniform draws, shared by the batch, stand for all others.

    Each draw stands for (m - 1) / count items, so the sum over the catalogue is met on average.
    """
    others = torch.randint(net.items, (count,), generator=draw)
    right = (hidden * net.item[wanted]).sum(dim=1) + net.bias[wanted]  # (t,)
    wrong = logits(net, hidden, others) + float(np.log((net.items - 1) / count))  # (t, count)
    wrong = wrong.masked_fill(others == wanted[:, None], -torch.inf)
    whole = torch.logaddexp(right, torch.logsumexp(wrong, dim=1))  # (t,)
    return (whole - right).mean()


def batches(
    train: Histories, longest: int, rng: np.random.Generator, tokens: int = BATCH_TOKENS
) -> Iterator[Tensor]:
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
            if stop > start and widest * (stop + 1 - start) > tokens:
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


def padded(histories: Histories, users: Rows, longest: int) -> tuple[Tensor, Tensor]:
    """The newest items of some users, oldest first: (b, l) rows, and each one's last place (b,)."""
    sizes = np.minimum(histories.lengths[users], longest)
    starts = histories.starts[users + 1] - sizes
    places = np.arange(max(1, int(sizes.max(initial=0))))
    inside = places < sizes[:, None]  # (b, l)
    where = np.where(inside, starts[:, None] + places, 0)
    rows = np.where(inside, histories.items[where], 0)
    return torch.from_numpy(rows), torch.from_numpy(np.maximum(sizes - 1, 0))
