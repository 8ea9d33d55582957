"""A release and its catalogue on this device: this is where recommending happens, offline.

A `LocalModel` knows which items C has rows for and which of them may be shown. What is particular
to the user (u and D) is worked out by a scorer when it is first needed, and kept until the history,
the trained state or the release changes.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedrap.recommend.kinds import Kinds
from fedrap.recommend.release import ItemList, ReleaseHeader
from fedrap.recommend.scorers import PaperScorer, Scorer, SolveScorer
from fedrap.results import Interaction, Reason, Recommendation
from fedrap_core.items import ItemIds
from fedrap_core.model import CommonItems, History
from fedrap_core.paper.problem import PaperState, first_state
from fedrap_core.plan import AnyScoring, PaperScoring, trend_weight
from fedrap_core.questions.lists import POPULAR
from fedrap_core.ranking import Ranked, allowed_rows, diversified, similar, top_k
from fedrap_core.wire.releases import served_rows

_FIRST_ASKED = 4  # times n, items whose test is asked before more are ranked
_SHORTLIST = 5  # times n, items that a diverse list is chosen from


def _any_item(item: str) -> bool:
    return True


@dataclass(frozen=True)
class Wish:
    """What an app asks a list for."""

    n: int
    candidates: Collection[str] | None = None  # only these
    exclude: Collection[str] = ()  # and none of these
    hidden: Collection[str] = ()  # nor of these; never changed, but replaced
    filter_seen: bool = True
    test: Callable[[str], object] = _any_item  # asked of the best items, in their order
    diversity: float = 0.0  # 0: by score alone; 1: as different as can be
    boost: Mapping[str, float] = field(default_factory=dict)  # added to the scores of items
    reasons: bool = False
    passing: Callable[[int], npt.NDArray[np.bool_]] | None = None  # which of so many rows may stay


class LocalModel:
    """One release with one catalogue; a sync makes a new one."""

    def __init__(
        self,
        header: ReleaseHeader,
        common: CommonItems,
        catalogue: ItemList,
        ids: ItemIds | None = None,
        kinds: Kinds | None = None,
    ) -> None:
        """`ids` are those of the catalogue, where they were read before."""
        self._kinds = kinds or Kinds.any_word()
        self.common = common
        self.digest: bytes = header.model
        self.scoring: AnyScoring = header.scoring
        self.step: int = header.step
        self.entry: bytes = header.entry
        self.ids = ItemIds(catalogue.items) if ids is None else ids
        self._size = header.size
        self._shown = np.zeros(self._size, dtype=np.bool_)
        self._shown[: len(self.ids)] = True
        retired = np.frombuffer(catalogue.retired, dtype="<u4").astype(np.int64)
        retired = retired[retired < self._size]
        self._shown[retired] = False
        # Of an item that can't be chosen any more it says nothing that a user did not choose it;
        # what those who did are like, its row still says.
        self.gram: npt.NDArray[np.float64] = common.gram(retired)
        self._shown &= served_rows(header.withheld, self._size)  # too few devices know the others
        self._lock = threading.RLock()  # an app recommends while a round is being prepared
        self._read = 0  # interactions that were looked up
        # row, weight and time of those in C, oldest first
        self._known: list[tuple[int, float, float]] = []
        self._settled: tuple[int, History] | None = None  # of so many of them
        self._hidden: tuple[Collection[str], list[int]] | None = None
        self._scored: tuple[int, PaperState | None, Scorer] | None = None

    def anew(self) -> LocalModel:
        """The same release without what this one remembers of the history."""
        other = copy.copy(self)
        other._lock = threading.RLock()
        other._read, other._known, other._settled, other._scored = 0, [], None, None
        return other

    def with_scoring(self, scoring: AnyScoring) -> LocalModel:
        """The same release, recommended from in another way; it remembers nothing either."""
        other = self.anew()
        other.scoring = scoring
        return other

    def ranks_of(
        self, before: Sequence[Interaction], trained: PaperState | None, one: Interaction
    ) -> tuple[int, int, int] | None:
        """Where the item of an interaction stood in the lists of the moment before it, 0 first.

        In this user's own list, in the catalogue's order and in that of the trend, which without
        one is the catalogue's. None where it could not be in them: seen before, not in C, not
        shown, or spoken against.
        """
        row, counts = self._row(one.item), self._kinds.weight(one.kind)
        if row is None or counts is None or counts <= 0 or not self.step > 0:
            return None
        seen = self.history(before).rows
        allowed = allowed_rows(self._shown, None, seen)
        if not allowed[row]:
            return None
        own = self._scorer(before, trained).rank_of(row, allowed)
        popular = lately = int(np.count_nonzero(allowed[:row]))
        if self.common.trend is not None:
            trend = self.common.trend.values[0]  # (m,)
            same = int(np.count_nonzero(allowed[:row] & (trend[:row] == trend[row])))
            lately = same + int(np.count_nonzero(allowed & (trend > trend[row])))
        return own, popular, lately

    def popular_share(self, items: Sequence[str]) -> float:
        """How much of a list is among the most popular of what may be shown."""
        last = POPULAR * int(np.count_nonzero(self._shown))
        before = [int(np.count_nonzero(self._shown[:row])) for row in self._rows(items)]
        return sum(place < last for place in before) / max(1, len(items))

    def history(self, interactions: Sequence[Interaction]) -> History:
        """The interactions with items that C has a row for, newest first.

        The newest word on an item counts: a dislike ends what was said for it before.
        """
        with self._lock:
            if self._read > len(interactions):  # some were forgotten: start anew
                self._read, self._known, self._settled = 0, [], None
            for one in interactions[self._read :]:
                row, counts = self._row(one.item), self._kinds.weight(one.kind)
                if row is not None and counts is not None:
                    self._known.append((row, counts * one.weight, one.at))
            self._read = len(interactions)
            if self._settled is None or self._settled[0] != len(self._known):
                known = np.array(self._known[::-1], dtype=np.float64).reshape(-1, 3)  # (n, 3)
                history = History(known[:, 0].astype(np.int64), known[:, 1], known[:, 2])
                self._settled = (len(self._known), history.settled())
            return self._settled[1]

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
        self, interactions: Sequence[Interaction], trained: PaperState | None, wish: Wish
    ) -> list[Recommendation]:
        """The n best items.

        While C has learnt nothing, the first of the catalogue: operators list their items with the
        most popular first.
        """
        rows = None if wish.candidates is None else self._rows(wish.candidates)
        seen = self.history(interactions).rows if wish.filter_seen else None
        allowed = allowed_rows(self._shown, rows, seen)
        if wish.exclude:
            allowed[self._rows(wish.exclude)] = False
        if wish.hidden:
            allowed[self._hidden_rows(wish.hidden)] = False
        if wish.passing is not None:
            allowed &= wish.passing(self._size)
        if not self.step > 0:
            return self._first(wish.n, allowed, wish.test)
        scorer = self._scorer(interactions, trained)
        wanted = wish.n if wish.diversity == 0 else _SHORTLIST * wish.n
        ranked, boosts = self._best(scorer, wanted, allowed, wish)
        if wish.diversity > 0:
            scores = ranked.scores + boosts
            chosen = diversified(self.common.take(ranked.rows), scores, wish.n, wish.diversity)
            ranked, boosts = ranked.taken(chosen), boosts[chosen]
        places = range(len(ranked.rows))
        return [
            self._recommendation(scorer, ranked, place, float(boosts[place]), wish.reasons)
            for place in places
        ]

    def popular(self, n: int, test: Callable[[str], object]) -> list[str]:
        """The first n items of the catalogue that may be shown."""
        return [one.item for one in self._first(n, self._shown, test)]

    def trending(self, n: int, hidden: Collection[str]) -> list[str]:
        """The n items touched most of late, best first; none where the release does not say."""
        if self.common.trend is None:
            return []
        allowed = self._shown & (self.common.trend.values[0] > 0)
        allowed[self._hidden_rows(hidden)] = False
        rows = np.flatnonzero(allowed)
        best = rows[top_k(self.common.trend.values[0, rows].astype(np.float32), n)]
        return [self.ids.name(int(row)) for row in best]

    def trend(self, item: str) -> float:
        """What an item's score has because it was touched lately."""
        row = self._row(item)
        if row is None:
            return 0.0
        return trend_weight(self.scoring) * float(self.common.lately(np.array([row]))[0])

    def reasons(
        self, interactions: Sequence[Interaction], trained: PaperState | None, item: str
    ) -> tuple[Reason, ...]:
        """How each item of the history moves the score of one, strongest first."""
        row = self._row(item)
        if row is None or not self.step > 0:
            return ()
        return self._reasons(self._scorer(interactions, trained), row)

    def _first(
        self, n: int, allowed: npt.NDArray[np.bool_], test: Callable[[str], object]
    ) -> list[Recommendation]:
        found: list[Recommendation] = []
        for row in np.flatnonzero(allowed).tolist():
            if len(found) >= n:
                break
            name = self.ids.name(row)
            if test(name):
                found.append(Recommendation(name, 0.0, 0.0, 0.0))
        return found

    def _best(
        self, scorer: Scorer, n: int, allowed: npt.NDArray[np.bool_], wish: Wish
    ) -> tuple[Ranked, npt.NDArray[np.float64]]:
        """The n best that pass the test, and what was added to the score of each."""
        if wish.test is _any_item:
            return self._boosted(scorer, n, allowed, wish.boost)
        asked = 0
        passed: list[int] = []
        count = min(_FIRST_ASKED * n, len(allowed))
        while True:
            ranked, boosts = self._boosted(scorer, count, allowed, wish.boost)
            for place in range(asked, len(ranked.rows)):
                if len(passed) >= n:
                    break
                if wish.test(self.ids.name(int(ranked.rows[place]))):
                    passed.append(place)
            asked = len(ranked.rows)
            if len(passed) >= n or asked < count or count == len(allowed):
                return ranked.taken(passed), boosts[passed]
            count = min(_FIRST_ASKED * count, len(allowed))

    def _boosted(
        self,
        scorer: Scorer,
        n: int,
        allowed: npt.NDArray[np.bool_],
        boost: Mapping[str, float],
    ) -> tuple[Ranked, npt.NDArray[np.float64]]:
        """Those with something added are scored one by one; of all others the best do."""
        added = {
            row: much
            for item, much in boost.items()
            if (row := self._row(item)) is not None and allowed[row]
        }
        if not added:
            ranked = scorer.rank(n, allowed)
            return ranked, np.zeros(len(ranked.rows))
        raised = np.zeros(len(allowed), dtype=np.bool_)
        raised[list(added)] = True
        plain = scorer.rank(n, allowed & ~raised)
        theirs = scorer.rank(len(added), raised)
        both = plain.joined(theirs)
        boosts = np.array([added.get(int(row), 0.0) for row in both.rows])
        order = np.argsort(-(both.scores + boosts), kind="stable")[:n]
        return both.taken(order), boosts[order]

    def _scorer(self, interactions: Sequence[Interaction], trained: PaperState | None) -> Scorer:
        """Worked out once for as long as the history and the trained state stay as they are."""
        with self._lock:
            history = self.history(interactions)
            count, known = len(self._known), self._scored
            if known is None or known[0] != count or known[1] is not trained:
                known = (count, trained, self._new_scorer(history, trained))
                self._scored = known
            return known[2]

    def _new_scorer(self, history: History, trained: PaperState | None) -> Scorer:
        if isinstance(self.scoring, PaperScoring):
            start = first_state(self.scoring.seed, self.common.dim)
            return PaperScorer(self.common, start if trained is None else trained)
        before = None
        grown = self._scored is not None and self._scored[0] == len(self._known) - 1
        # Where something speaks against an item, the newest word may have ended an older one.
        if self._scored is not None and grown and all(one[1] > 0 for one in self._known):
            last = self._scored[2]
            before = last if isinstance(last, SolveScorer) else None
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

    def _hidden_rows(self, hidden: Collection[str]) -> list[int]:
        """Looked up once for as long as the same items are hidden."""
        with self._lock:
            if self._hidden is None or self._hidden[0] is not hidden:
                self._hidden = (hidden, self._rows(hidden))
            return self._hidden[1]

    def _rows(self, items: Collection[str]) -> list[int]:
        """The rows of those items that C has numbers for."""
        return [row for name in items if (row := self._row(name)) is not None]

    def _row(self, item: str) -> int | None:
        """The row of an item that C has numbers for."""
        row = self.ids.row(item)
        return row if row is not None and row < self._size else None

    def _recommendation(
        self, scorer: Scorer, ranked: Ranked, place: int, boost: float, reasons: bool
    ) -> Recommendation:
        row = int(ranked.rows[place])
        shared, personal = float(ranked.shared[place]), float(ranked.personal[place])
        sequence = 0.0 if ranked.sequence is None else float(ranked.sequence[place])
        popularity = 0.0 if ranked.popularity is None else float(ranked.popularity[place])
        trend = 0.0 if ranked.trend is None else float(ranked.trend[place])
        score = shared + personal + (sequence + popularity) + trend + boost
        why = self._reasons(scorer, row) if reasons else ()
        return Recommendation(
            self.ids.name(row), score, shared, personal, why, sequence, popularity, boost, trend
        )

    def _reasons(self, scorer: Scorer, row: int) -> tuple[Reason, ...]:
        parts = scorer.reasons(row)
        if parts is None:
            return ()
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
