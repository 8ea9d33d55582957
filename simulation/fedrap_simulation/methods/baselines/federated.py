"""What the federated peers have in common: a device's examples of a round, and gradient rounds.

All devices are computed at once, block by block, yet each part keeps its place: the loss is a sum
of every device's own mean loss, so the slope in a user vector comes from that device alone, and
the slope in a shared part is the sum of what the devices would send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedrap_simulation.data.interactions import Rows
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.adam import Adam
from fedrap_simulation.methods.baselines.negatives import NegativeSampler
from fedrap_simulation.methods.protocol import Cost, Floats

BLOCK_EXAMPLES = 400_000


@dataclass(frozen=True, eq=False)
class Examples:
    """What some devices learn from in one round, sorted by device, each pair once."""

    user: Rows  # (e,)
    item: Rows  # (e,)
    label: Floats  # (e,) one for a touched item
    weight: Floats  # (e,) how often it was drawn; with `share` a device's weights sum to one
    share: Floats  # (e,) one over the number of draws of the device


def blocks(task: Task, negatives: int) -> Iterator[Rows]:
    """All devices with a history, in runs that keep a round's examples in bounded memory."""
    active = np.flatnonzero(task.train.lengths)
    sizes = np.cumsum(task.train.lengths[active] * (1 + negatives))
    cuts = np.searchsorted(sizes, np.arange(BLOCK_EXAMPLES, sizes[-1], BLOCK_EXAMPLES))
    yield from (block for block in np.split(active, np.unique(cuts)) if len(block))


def draw_examples(
    task: Task, sampler: NegativeSampler, users: Rows, negatives: int, rng: np.random.Generator
) -> Examples:
    """Every touched item and `negatives` draws for each, of some devices in rising order."""
    mine = task.train.some(users)
    owners = users[mine.owners]  # (n,)
    drawn = sampler.draw(owners, negatives, rng).ravel()  # (n * negatives,)
    positive = owners * task.items + mine.items
    negative = np.repeat(owners, negatives) * task.items + drawn
    keys = np.concatenate([2 * positive + 1, 2 * negative])
    pairs, counts = np.unique(keys, return_counts=True)
    total = np.zeros(task.users)
    total[users] = mine.lengths * (1 + negatives)
    user = pairs // 2 // task.items
    return Examples(
        user,
        pairs // 2 % task.items,
        (pairs % 2).astype(np.float32),
        counts.astype(np.float32),
        (1.0 / total[user]).astype(np.float32),
    )


def table_cost(rounds: int, numbers: int) -> Cost:
    """Both ways, every round, all shared numbers as float32: that is what the peers send."""
    return Cost(rounds, 4.0 * numbers, 4.0 * numbers)


def gradient_rounds(
    task: Task,
    seed: int,
    negatives: int,
    own: list[Tensor],
    shared: list[Tensor],
    logits: Callable[[Tensor, Tensor], Tensor],
    rate: float,
) -> Iterator[int]:
    """Rounds without end; yields how many were done.

    In a round every device draws its examples and takes one step with its own part, and the
    coordinator one with the mean of the slopes in the shared part. Both step by Adam: a mean over
    many devices is tiny, and a plain step would need a rate that grows with their number.
    """
    rng = np.random.default_rng([seed, 0xFED])
    sampler = NegativeSampler(task.barred, task.items)
    optimizer = Adam([*own, *shared], rate, betas=(0.9, 0.99), eps=1e-10)
    done = 0
    while True:
        for users in blocks(task, negatives):
            one = draw_examples(task, sampler, users, negatives, rng)
            predicted = logits(torch.from_numpy(one.user), torch.from_numpy(one.item))  # (e,)
            loss = functional.binary_cross_entropy_with_logits(
                predicted,
                torch.from_numpy(one.label),
                weight=torch.from_numpy(one.weight * one.share),
                reduction="sum",
            )
            loss.backward()  # type: ignore[no-untyped-call]
        for part in shared:
            assert part.grad is not None
            part.grad /= task.users
        optimizer.step()
        done += 1
        yield done
