"""The state of a release: what the next step needs beside what was published, as bytes.

It is written in the transaction of its release and kept for a few releases. The trend comes first,
then that of C, then the sequence part's; any of them may be missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedrap_coordinator.rounds.solve_state import SolveState, pack_solve, read_solve
from fedrap_coordinator.rounds.trend_state import pack_trend, read_trend
from fedrap_core.trend import TrendState


@dataclass(frozen=True, eq=False)
class ReleaseState:
    """The parts; None: there is none, or it was lost."""

    trend: TrendState | None = None
    solve: SolveState | None = None
    sequence: bytes | None = None  # a packed `SequenceLearner`, read where it is needed

    def packed(self) -> bytes | None:
        """As it is kept; None where there is nothing to keep."""
        return pack_trend(self.trend) + pack_solve(self.solve) + (self.sequence or b"") or None

    @staticmethod
    def read(raw: bytes | None) -> ReleaseState:
        """From what was kept; a part that is damaged is None."""
        trend, rest = read_trend(raw or b"")
        solve, rest = read_solve(rest)
        return ReleaseState(trend, solve, rest or None)
