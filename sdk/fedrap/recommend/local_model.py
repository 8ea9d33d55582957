"""A release and its catalogue on this device: this is where recommending happens, offline.

A `LocalModel` knows which items C has rows for and which of them may be shown. What is particular
to the user (u and D) is worked out by a scorer when it is first needed, and kept until the history,
the trained state or the release changes.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from fedrap.recommend.release import ItemList, ReleaseHeader
from fedrap.recommend.scorers import PaperScorer, Scorer, SolveScorer
from fedrap.results import Interaction, Reason, Recommendation
from fedrap_core.items import ItemIds
from fedrap_core.model import CommonItems, History
from fedrap_core.paper.problem import PaperState, first_state
from fedrap_core.plan import AnyScoring, PaperScoring
from fedrap_core.ranking import Ranked, Reasons, allowed_rows, similar
from fedrap_core.wire.releases import served_rows


class LocalModel:
    """One release with one catalogue; a sync makes a new one."""

    def __init__(
        self,
        header: ReleaseHeader,
        common: CommonItems,
        catalogue: ItemList,
        ids: ItemIds | None = None,
    ) -> None:
        """`ids` are those of the catalogue, where they were read before."""
        self.common = common
        self.digest: bytes = header.model
        self.scoring: AnyScoring = header.scoring
        self.step: int = header.step
        self.entry: bytes = header.entry
        self.gram: npt.NDArray[np.float64] = common.gram()
        self.ids = ItemIds(catalogue.items) if ids is None else ids
        self._size = header.size
        self._shown = np.zeros(self._size, dtype=np.bool_)
        self._shown[: len(self.ids)] = True
        retired = np.frombuffer(catalogue.retired, dtype="<u4")
        self._shown[retired[retired < self._size]] = False
        self._shown &= served_rows(header.withheld, self._size)  # too few devices know the others
        self._lock = threading.RLock()  # an app recommends while a round is being prepared
        self._read = 0  # interactions that were looked up
        self._known: list[tuple[int, float]] = []  # row and weight of those in C, oldest first
        self._scored: tuple[int, PaperState | None, Scorer] | None = None

    def anew(self) -> LocalModel:
        """The same release without what this one remembers of the history."""
        other = copy.copy(self)
        other._lock = threading.RLock()
        other._read, other._known, other._scored = 0, [], None
        return other

    def history(self, interactions: Sequence[Interaction]) -> History:
        """The interactions with items that C has a row for, newest first."""
        with self._lock:
            if self._read > len(interactions):  # some were forgotten: start anew
                self._read, self._known = 0, []
            for one in interactions[self._read :]:
                row = self._row(one.item)
                if row is not None:
                    self._known.append((row, one.weight))
            self._read = len(interactions)
            known = np.array(self._known[::-1], dtype=np.float64).reshape(-1, 2)  # (n, 2)
        return History(known[:, 0].astype(np.int64), known[:, 1])

    def personal(
        self, interactions: Sequence[Interaction], trained: PaperState | None
    ) -> dict[str, float]:
        """D as it is kept and shown: <u, D_j> of each item that owns a row."""
        rows, offsets = self._scorer(interactions, trained).personal()
        return {
            self.ids.name(int(row)): float(offset)
            for row, offset in zip(rows, offsets, strict=True)
            if row < len(self.ids)
        }

    def recommend(
        self,
        interactions: Sequence[Interaction],
        trained: PaperState | None,
        n: int,
        candidates: Collection[str] | None,
        *,
        filter_seen: bool,
        reasons: bool,
    ) -> list[Recommendation]:
        """The n best items.

        While C has learnt nothing, or without any history, the first of the catalogue: operators
        list their items with the most popular first.
        """
        rows = None if candidates is None else self._rows(candidates)
        seen = self.history(interactions).rows if filter_seen else None
        allowed = allowed_rows(self._shown, rows, seen)
        if not self.step > 0:
            first = np.flatnonzero(allowed)[:n].tolist()
            return [Recommendation(self.ids.name(row), 0.0, 0.0, 0.0) for row in first]
        scorer = self._scorer(interactions, trained)
        ranked = scorer.rank(n, allowed)
        places = range(len(ranked.rows))
        return [self._recommendation(scorer, ranked, place, reasons) for place in places]

    def _scorer(self, interactions: Sequence[Interaction], trained: PaperState | None) -> Scorer:
        """Worked out once for as long as the history and the trained state stay as they are."""
        with self._lock:
            history = self.history(interactions)
            count, known = len(history.rows), self._scored
            if known is None or known[0] != count or known[1] is not trained:
                known = (count, trained, self._new_scorer(history, trained))
                self._scored = known
            return known[2]

    def _new_scorer(self, history: History, trained: PaperState | None) -> Scorer:
        if isinstance(self.scoring, PaperScoring):
            start = first_state(self.scoring.seed, self.common.dim)
            return PaperScorer(self.common, start if trained is None else trained)
        before = None
        if self._scored is not None and self._scored[0] == len(history.rows) - 1:
            last = self._scored[2]
            before = last.user if isinstance(last, SolveScorer) else None
        return SolveScorer(self.common, self.gram, history, self.scoring, before)

    def similar(self, item: str, n: int) -> list[tuple[str, float]]:
        """The n items most like this one in the shared view; none for an unknown item."""
        row = self._row(item)
        if row is None or not self.step > 0:
            return []
        rows, cosines = similar(self.common, row, n, self._shown)
        return [
            (self.ids.name(int(other)), float(cosine))
            for other, cosine in zip(rows, cosines, strict=True)
        ]

    def _rows(self, items: Collection[str]) -> list[int]:
        """The rows of those items that C has numbers for."""
        return [row for name in items if (row := self._row(name)) is not None]

    def _row(self, item: str) -> int | None:
        """The row of an item that C has numbers for."""
        row = self.ids.row(item)
        return row if row is not None and row < self._size else None

    def _recommendation(
        self, scorer: Scorer, ranked: Ranked, place: int, reasons: bool
    ) -> Recommendation:
        row = int(ranked.rows[place])
        shared, personal = float(ranked.shared[place]), float(ranked.personal[place])
        sequence = 0.0 if ranked.sequence is None else float(ranked.sequence[place])
        popularity = 0.0 if ranked.popularity is None else float(ranked.popularity[place])
        score = shared + personal + (sequence + popularity)
        parts = scorer.reasons(row) if reasons else None
        why = () if parts is None else self._reasons(parts)
        return Recommendation(
            self.ids.name(row), score, shared, personal, why, sequence, popularity
        )

    def _reasons(self, parts: Reasons) -> tuple[Reason, ...]:
        next_ = np.zeros(len(parts.items)) if parts.sequence is None else parts.sequence
        order = np.argsort(-np.abs(parts.shared + parts.personal + next_), kind="stable")
        return tuple(
            Reason(
                self.ids.name(int(parts.items[i])),
                float(parts.shared[i]),
                float(parts.personal[i]),
                float(next_[i]),
            )
            for i in order
        )
