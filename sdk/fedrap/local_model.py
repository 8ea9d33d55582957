"""What this device holds of the shared world: a release of C, the catalogue, and u under both.

Recommending happens here, offline. u and D are solved from the history when they are first
needed and kept until the history or the release changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap.results import Reason, Recommendation
from fedrap.store import Interaction
from fedrap_core.errors import BrokenModel
from fedrap_core.model import CommonItems, History
from fedrap_core.plan import Scoring
from fedrap_core.ranking import Ranked, explain, rank
from fedrap_core.solve import Taste, derive_taste
from fedrap_core.wire.messages import Catalogue, Release
from fedrap_core.wire.releases import unpack_release


class ItemList(msgspec.Struct, frozen=True):
    """The catalogue as this device knows it: the item of each row, and rows not to be shown."""

    version: int = 0
    items: list[str] = []
    retired: list[int] = []

    def extended(self, news: Catalogue) -> ItemList:
        """This list with the coordinator's newer rows; rows that are known stay as they are.

        Raises:
            BrokenModel: rows are missing in between; keep the old list.
        """
        if news.start > len(self.items):
            raise BrokenModel("a catalogue that leaves out rows")
        items = self.items + news.items[len(self.items) - news.start :]
        return ItemList(news.version, items, news.retired)


class LocalModel:
    """One release with one catalogue. Immutable; a sync makes a new one.

    Raises:
        BrokenModel: the release is damaged or hostile; keep the old one.
    """

    def __init__(self, release: Release, catalogue: ItemList) -> None:
        self.common: CommonItems = unpack_release(release)
        self.digest: bytes = release.model
        self.scoring: Scoring = release.scoring
        self.gram: npt.NDArray[np.float64] = self.common.gram()
        self._names = catalogue.items[: self.common.size]
        self._rows = {name: row for row, name in enumerate(self._names)}
        self._shown = np.zeros(self.common.size, dtype=np.bool_)
        self._shown[: len(self._names)] = True
        self._shown[[row for row in catalogue.retired if row < self.common.size]] = False
        self._taste: tuple[int, Taste] | None = None

    def history(self, interactions: Sequence[Interaction]) -> History:
        """The interactions with items that C has a row for, newest first."""
        known = [
            (self._rows[one.item], one.weight)
            for one in reversed(interactions)
            if one.item in self._rows
        ]
        rows = np.array([row for row, _ in known], dtype=np.int64)
        return History(rows, np.array([weight for _, weight in known], dtype=np.float64))

    def taste(self, interactions: Sequence[Interaction]) -> Taste:
        """u and D of this history; solved once for as long as it does not grow."""
        if self._taste is None or self._taste[0] != len(interactions):
            history = self.history(interactions)
            self._taste = (
                len(interactions), derive_taste(self.common, self.gram, history, self.scoring)
            )  # fmt: skip
        return self._taste[1]

    def personal(self, interactions: Sequence[Interaction]) -> dict[str, float]:
        """D as it is kept: the one free number of each item that owns a row."""
        mine = self.taste(interactions).personal
        return {
            self._names[row]: float(offset)
            for row, offset in zip(mine.rows, mine.offsets, strict=True)
        }

    def recommend(
        self,
        interactions: Sequence[Interaction],
        n: int,
        candidates: Collection[str] | None,
        *,
        filter_seen: bool,
        reasons: bool,
    ) -> list[Recommendation]:
        """The n best items; without any history, the first of the catalogue."""
        taste = self.taste(interactions)
        allowed = self._shown.copy()
        if candidates is not None:
            wanted = [self._rows[name] for name in candidates if name in self._rows]
            allowed &= np.isin(np.arange(len(allowed)), wanted)
        if filter_seen:
            allowed[taste.items] = False
        ranked = rank(self.common, taste, self.scoring, n, allowed)
        return [
            self._recommendation(taste, ranked, place, reasons) for place in range(len(ranked.rows))
        ]

    def _recommendation(
        self, taste: Taste, ranked: Ranked, place: int, reasons: bool
    ) -> Recommendation:
        row = int(ranked.rows[place])
        shared, personal = float(ranked.shared[place]), float(ranked.personal[place])
        why: tuple[Reason, ...] = ()
        if reasons:
            parts = explain(self.common, taste, self.scoring, row)
            order = np.argsort(-np.abs(parts.shared + parts.personal), kind="stable")
            why = tuple(
                Reason(
                    self._names[parts.items[i]], float(parts.shared[i]), float(parts.personal[i])
                )
                for i in order
            )
        return Recommendation(self._names[row], shared + personal, shared, personal, why)
