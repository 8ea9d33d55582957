"""SASRec (Kang & McAuley 2018): self-attention over a history predicts the item that comes next.

How it is trained: next_item.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import torch

from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.attention import Attention
from fedrap_simulation.methods.baselines.next_item import NextItem, learn_next
from fedrap_simulation.methods.protocol import Fitted, OnProgress
from fedrap_simulation.methods.tuning import Patience, choose_epochs, is_large, run


@dataclass(frozen=True)
class SasRec:
    """Causal self-attention in a few blocks; items are scored by their own embeddings."""

    width: int = 64
    blocks: int = 2
    heads: int = 2
    longest: int = 200
    dropout: float = 0.2
    rate: float = 2e-3
    sampled: int = 512  # draws that stand for a catalogue too large for a full cross entropy
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
                [self], task, seed, on_progress, Patience(longest=60, wait=2, every=3)
            )
        candidates = [replace(self, dropout=dropout) for dropout in (0.2, 0.4)]
        return choose_epochs(candidates, task, seed, on_progress, Patience(longest=80, wait=6))

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> Fitted:
        """Go through the histories `epochs` times."""
        return run(self, task, seed, on_progress)

    def learn(self, task: Task, seed: int) -> Iterator[NextItem]:
        """The state after each time through."""
        draw = torch.Generator().manual_seed(seed)
        net = Attention.start(
            task.items, self.width, self.blocks, self.heads, self.longest, self.dropout, draw
        )
        return learn_next(net, task, self.rate, self.sampled, draw, seed)
