"""Scores of all items for one user, by the method that made the release.

`SolveScorer` derives u and D from the history; `PaperScorer` takes those that rounds have trained.
Both give a score in parts: shared and personal, and with a sequence part also what comes next and
popularity.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedrap_core.model import CommonItems, Floats, History, Rows
from fedrap_core.paper.problem import PaperState, score_items
from fedrap_core.plan import Scoring, sequence_scoring
from fedrap_core.ranking import Ranked, Reasons, explain, rank, rank_of, top_k
from fedrap_core.sequence.user import SequenceUser, derive_query
from fedrap_core.solve.user import derive_user, follow_user


class Scorer(Protocol):
    """One user under one release."""

    def rank(self, n: int, allowed: npt.NDArray[np.bool_]) -> Ranked:
        """The n best of the allowed rows."""

    def rank_of(self, row: int, allowed: npt.NDArray[np.bool_]) -> int:
        """How many of the allowed rows stand before this one, which is allowed."""

    def reasons(self, row: int) -> Reasons | None:
        """The score of a row, split exactly over the history; None where it does not split."""

    def personal(self) -> tuple[Rows, npt.NDArray[np.float64]]:
        """The rows of D, and <u, D_j> of each."""


class SolveScorer:
    """`solve`: everything follows from the history."""

    def __init__(
        self,
        common: CommonItems,
        gram: Floats,
        history: History,
        scoring: Scoring,
        before: SolveScorer | None = None,
    ) -> None:
        """`before` scored for the same history without its newest interaction."""
        self._common = common
        self._scoring = scoring
        if before is None:
            self._user = derive_user(common, gram, history, scoring)
        else:
            self._user = follow_user(before._user, common, gram, history, scoring)
        mix, rows = sequence_scoring(scoring), common.sequence
        self._part: SequenceUser | None = None
        if mix is not None and rows is not None:
            known = None if before is None else before._part
            self._part = derive_query(rows, history, mix, known)

    def rank(self, n: int, allowed: npt.NDArray[np.bool_]) -> Ranked:
        return rank(self._common, self._user, self._scoring, n, allowed, self._part)

    def rank_of(self, row: int, allowed: npt.NDArray[np.bool_]) -> int:
        return rank_of(self._common, self._user, self._scoring, row, allowed, self._part)

    def reasons(self, row: int) -> Reasons | None:
        return explain(self._common, self._user, self._scoring, row, self._part)

    def personal(self) -> tuple[Rows, npt.NDArray[np.float64]]:
        return self._user.personal.rows, self._user.personal.offsets


class PaperScorer:
    """`paper`: u and D as the last round left them; there is no exact split over the history."""

    def __init__(self, common: CommonItems, state: PaperState) -> None:
        self._state = state
        self._shared, self._personal = score_items(common, state)  # (m,) each

    def rank(self, n: int, allowed: npt.NDArray[np.bool_]) -> Ranked:
        scores = np.where(allowed, self._shared + self._personal, -np.inf)
        best = top_k(scores, n)
        best = best[np.isfinite(scores[best])]
        return Ranked(best, self._shared[best], self._personal[best])

    def rank_of(self, row: int, allowed: npt.NDArray[np.bool_]) -> int:
        scores = self._shared + self._personal  # (m,)
        return int(np.count_nonzero(allowed & (scores > scores[row])))

    def reasons(self, row: int) -> Reasons | None:
        return None

    def personal(self) -> tuple[Rows, npt.NDArray[np.float64]]:
        return self._state.rows, self._state.personal @ self._state.user
