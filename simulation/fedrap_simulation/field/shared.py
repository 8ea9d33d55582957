"""What all simulated devices of a process share: releases and catalogues, read once.

A device still fetches and counts every byte itself and still checks what it got; only the memory
of equal results is shared, so that an idle device costs a few kB and not a copy of C.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedrap.held import ItemList, read_release
from fedrap_core.items import ItemIds
from fedrap_core.model import CommonItems
from fedrap_core.plan import AnyScoring
from fedrap_core.wire.messages import Delta, Release
from fedrap_core.wire.releases import served_rows
from fedrap_simulation.data.interactions import Rows

KEPT = 64  # releases; a device that holds an older one keeps it alive itself


@dataclass(frozen=True, eq=False)
class FieldModel:
    """One release with its catalogue; satisfies fedrap.round_state.RoundModel."""

    common: CommonItems
    digest: bytes
    scoring: AnyScoring
    step: int
    rows: Rows  # (m of the data,) row of each item of the data in C, -1 where it has none
    shown: npt.NDArray[np.bool_]  # (size,) rows that may be recommended

    @cached_property
    def gram(self) -> npt.NDArray[np.float64]:
        """C'C: (k, k)."""
        return self.common.gram()


class SharedReleases:
    """Releases by their hash and catalogue; reading one twice gives the same object."""

    def __init__(self, items: tuple[str, ...]) -> None:
        self._items = items
        self._models: OrderedDict[tuple[bytes, int, int], FieldModel] = OrderedDict()
        self._catalogues: dict[tuple[int, bytes], Rows] = {}
        self._lists: dict[ItemList, ItemList] = {}

    def read(
        self, message: Release | Delta, held: FieldModel | None, catalogue: ItemList
    ) -> FieldModel:
        """The model of a message; its hash is checked the first time it is seen.

        Raises:
            BrokenModel: it is damaged, hostile, or a delta from something else.
        """
        key = (message.model, message.version, catalogue.version)
        known = self._models.get(key)
        if known is None:
            common = read_release(message, None if held is None else held.common)
            rows = self._rows(catalogue)
            shown = np.zeros(common.size, dtype=np.bool_)
            shown[: catalogue.count] = True
            retired = np.frombuffer(catalogue.retired, dtype="<u4")
            shown[retired[retired < common.size]] = False
            shown &= served_rows(message.withheld, common.size)
            known = FieldModel(
                common,
                message.model,
                message.scoring,
                message.step,
                np.where(rows < common.size, rows, -1),
                shown,
            )
            self._models[key] = known
            while len(self._models) > KEPT:
                self._models.popitem(last=False)
        return known

    def one_list(self, catalogue: ItemList) -> ItemList:
        """The same list, as one object for all devices that have it."""
        if len(self._lists) > KEPT:
            self._lists.clear()
        return self._lists.setdefault(catalogue, catalogue)

    def _rows(self, catalogue: ItemList) -> Rows:
        key = (catalogue.version, catalogue.retired)
        if key not in self._catalogues:
            ids = ItemIds(catalogue.items)
            found = [ids.row(name) for name in self._items]
            self._catalogues = {
                key: np.array([-1 if row is None else row for row in found], dtype=np.int64)
            }
        return self._catalogues[key]
