"""What every trainer does, and how exactly: the seam that NumPy, ONNX Runtime and torch fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fedrap_core.errors import FedRapError
from fedrap_core.model import SequenceRows
from fedrap_core.paper.problem import PaperProblem, PaperResult
from fedrap_core.sequence.device_share import Expected, Questions
from fedrap_core.solve.device_share import LocalShare, ShareProblem


class TrainerUnavailable(FedRapError):
    """The trainer that was asked for by name cannot run here; the message says what to install."""


class Trainer(Protocol):
    """Local rounds of one or many devices with the same k, in the order in which they are given.

    Every trainer agrees with the float64 reference within 2e-6 + 1e-5·abs, changes nothing it is
    given, gives the same result for the same input, and may be used from several threads.
    """

    @property
    def name(self) -> str:
        """`numpy`, `onnx` or `torch`."""

    def solve(self, problems: Sequence[ShareProblem]) -> list[LocalShare]:
        """Each device's share of a round of `solve`.

        Raises:
            BrokenModel: a device's C gives no finite user vector.
        """

    def train(self, problems: Sequence[PaperProblem]) -> list[PaperResult]:
        """Each device's local round of `paper`.

        Raises:
            Diverged: a device's round ran away; train the others without it.
        """

    def expect(self, asked: Questions, items: SequenceRows) -> Expected:
        """Of the sequence part what takes m·k·Q products: a softmax over all items, Q times.

        Decoys are those of the reference but where a uniform number lies within rounding of the
        border between two items.
        """
