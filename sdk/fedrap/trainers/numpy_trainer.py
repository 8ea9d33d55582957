"""The reference formulas of the core, one device after the other. Needs nothing but NumPy."""

from __future__ import annotations

from collections.abc import Sequence

from fedrap_core.model import SequenceRows
from fedrap_core.paper.problem import PaperProblem, PaperResult
from fedrap_core.paper.training import train_local
from fedrap_core.sequence.device_share import Expected, Questions, expect, look_exactly
from fedrap_core.solve.device_share import LocalShare, ShareProblem, compute_share


class NumpyTrainer:
    """float64 on the CPU: the truth that the others are measured against."""

    name = "numpy"

    def solve(self, problems: Sequence[ShareProblem]) -> list[LocalShare]:
        """Each device's share of a round of `solve`; raises like `Trainer.solve`."""
        return [compute_share(problem) for problem in problems]

    def train(self, problems: Sequence[PaperProblem]) -> list[PaperResult]:
        """Each device's local round of `paper`; raises like `Trainer.train`."""
        return [train_local(problem) for problem in problems]

    def expect(self, asked: Questions, items: SequenceRows) -> Expected:
        """The softmax of the sequence part over all items."""
        return expect(asked, items, look_exactly)
