"""What the operator tells everybody of the items: titles, categories, addresses. There offline.

They are kept as they came, in pages, and read when somebody asks: an app that tests one attribute
never holds the others in memory as text.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_core.wire.attributes import PAGE_BYTES
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import AttributePage, AttributesEntry

Test = Mapping[str, Collection[str]]  # an attribute has one of these values


class AttributesHead(msgspec.Struct, frozen=True):
    """What is kept of the attributes beside their pages."""

    release: int
    version: int
    count: int
    rows: int
    names: list[str]
    pages: bytes  # the digest of each, in order

    def gives_way_to(self, entry: AttributesEntry) -> bool:
        """Was that one signed later? A process that lags behind may still serve an older one."""
        return (self.release, self.version) <= (entry.release, entry.version)


class ItemAttributes:
    """The public attributes of the items, by row; immutable."""

    def __init__(self, head: AttributesHead, pages: Sequence[bytes]) -> None:
        """`pages` are as they came, checked by whoever fetched them."""
        self.head = head
        self.pages = tuple(pages)
        self._lock = threading.Lock()
        self._values: dict[str, tuple[dict[str, int], npt.NDArray[np.int32]]] = {}

    def of(self, row: int) -> dict[str, str]:
        """The attributes of one item; none for a row that is not there."""
        if not 0 <= row < self.head.count:
            return {}
        number, place = divmod(row, self.head.rows)
        found = {}
        for name, column in zip(self.head.names, self._columns(number), strict=True):
            value = column.split(b"\n", place + 1)[place].decode("utf-8")
            if value:
                found[name] = value
        return found

    def passing(self, test: Test, size: int) -> npt.NDArray[np.bool_]:
        """Which of the first `size` rows pass: an item without an attribute has the value ""."""
        passed = np.ones(size, dtype=np.bool_)
        for name, wanted in test.items():
            table, codes = self._column(name)
            numbers = [table[value] for value in wanted if value in table]
            fits = np.zeros(size, dtype=np.bool_)
            fits[: len(codes)] = np.isin(codes[:size], numbers)
            fits[len(codes) :] = "" in wanted
            passed &= fits
        return passed

    def _column(self, name: str) -> tuple[dict[str, int], npt.NDArray[np.int32]]:
        """Every value of an attribute with a number, and the number of each row: (m,)."""
        with self._lock:
            known = self._values.get(name)
            if known is None:
                table: dict[str, int] = {}
                codes = np.zeros(self.head.count, dtype=np.int32)
                if name in self.head.names:
                    for row, value in enumerate(self._texts(self.head.names.index(name))):
                        codes[row] = table.setdefault(value, len(table))
                else:
                    table[""] = 0
                known = self._values[name] = (table, codes)
            return known

    def _texts(self, place: int) -> list[str]:
        columns = (self._columns(number)[place] for number in range(len(self.pages)))
        return [value for one in columns for value in one.decode("utf-8").split("\n")[:-1]]

    def _columns(self, number: int) -> list[bytes]:
        return decode(AttributePage, self.pages[number], PAGE_BYTES).columns


NO_ATTRIBUTES = ItemAttributes(AttributesHead(0, 0, 0, 1, [], b""), ())
