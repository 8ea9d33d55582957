"""A release as the device keeps it: a small head, and C in chunks of rows.

Chunks keep reading and writing a large C cheap: a delta rewrites only those it touches, and
loading never holds more than one chunk beside C itself.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from fedrap.errors import StoreDamaged
from fedrap_core.errors import BrokenModel
from fedrap_core.model import CommonItems
from fedrap_core.plan import AnyScoring
from fedrap_core.quantize import QuantizedRows
from fedrap_core.wire.messages import Catalogue, Delta, Release
from fedrap_core.wire.releases import apply_delta, unpack_release

CHUNK = 16_384  # rows of C in one record
PIECE = 500_000  # bytes of ids in one record


class Held(msgspec.Struct, frozen=True):
    """What is kept of a release beside its numbers."""

    version: int
    step: int  # 0: no round was released yet, so C has learnt nothing
    size: int
    dim: int
    model: bytes
    scoring: AnyScoring
    withheld: bytes = b""  # rows not to be recommended, as in a release


class CatalogueHead(msgspec.Struct, frozen=True):
    """What is kept of a catalogue beside its ids, which go into pieces."""

    version: int
    count: int
    retired: bytes
    size_bytes: int


class ItemList(msgspec.Struct, frozen=True):
    """The catalogue as this device knows it: the ids of its rows, and rows not to be shown."""

    version: int = 0
    count: int = 0
    items: bytes = b""  # as in items.ItemIds
    retired: bytes = b""  # u32 little-endian

    def extended(self, news: Catalogue) -> ItemList:
        """This list with the coordinator's newer rows; rows that are known stay as they are.

        Raises:
            BrokenModel: rows are missing, or there are more or fewer than stated.
        """
        if news.start > self.count:
            raise BrokenModel("a catalogue that leaves out rows")
        names = news.items.split(b"\n", self.count - news.start)
        fresh = names[-1] if len(names) > self.count - news.start else b""
        if news.items.count(b"\n") != news.count or len(news.retired) % 4:
            raise BrokenModel("a catalogue that does not have the rows that it states")
        count = self.count + fresh.count(b"\n")
        return ItemList(news.version, count, self.items + fresh, news.retired)


def read_release(message: Release | Delta, old: CommonItems | None) -> CommonItems:
    """C of a release or delta, its hash checked.

    Raises:
        BrokenModel: it is damaged, hostile, or a delta from something else than `old`.
    """
    if isinstance(message, Release):
        return unpack_release(message)
    if old is None:
        raise BrokenModel("a delta, but this device holds no release")
    return apply_delta(old, message)


def head_of(message: Release | Delta) -> Held:
    """The head of a release."""
    m = message
    return Held(m.version, m.step, m.size, m.dim, m.model, m.scoring, m.withheld)


def kept_blocks(message: Release | Delta, common: CommonItems) -> dict[str, object]:
    """What the store must write for this release: its head and the chunks that it changes."""
    numbers = np.arange(-(-common.size // CHUNK))
    if isinstance(message, Delta):
        rows = np.frombuffer(message.rows, dtype="<u4")
        touched = np.zeros(len(numbers), dtype=np.bool_)
        touched[rows // CHUNK] = True
        numbers = numbers[touched]
    chunks = {_name(no): _pack(common, no) for no in numbers.tolist()}
    return {"held": head_of(message), **chunks}


def load_common(held: Held, read: Callable[[str], bytes | None]) -> CommonItems:
    """C from its chunks. The store vouches for their bytes.

    Raises:
        StoreDamaged: a chunk is missing or has another size.
    """
    values = np.empty((held.size, held.dim), dtype=np.int8)
    scales = np.empty(held.size, dtype=np.float32)
    for start in range(0, held.size, CHUNK):
        raw = read(_name(start // CHUNK)) or b""
        rows = min(CHUNK, held.size - start)
        if len(raw) != rows * (4 + held.dim):
            raise StoreDamaged("a part of C is missing in the store; erase it and sync again")
        scales[start : start + rows] = np.frombuffer(raw, dtype="<f4", count=rows)
        part = np.frombuffer(raw, dtype=np.int8, offset=4 * rows)
        values[start : start + rows] = part.reshape(rows, held.dim)
    return CommonItems(held.version, QuantizedRows(values, scales))


def catalogue_blocks(catalogue: ItemList) -> dict[str, object]:
    """What the store must write for this catalogue."""
    c = catalogue
    head = CatalogueHead(c.version, c.count, c.retired, len(c.items))
    pieces = {
        f"ids/{start // PIECE}": c.items[start : start + PIECE]
        for start in range(0, len(c.items), PIECE)
    }
    return {"catalogue": head, **pieces}


def load_catalogue(head: CatalogueHead | None, read: Callable[[str], bytes | None]) -> ItemList:
    """The catalogue from its pieces; an empty one when there is none.

    Raises:
        StoreDamaged: a piece is missing.
    """
    if head is None:
        return ItemList()
    pieces = [read(f"ids/{n}") or b"" for n in range(-(-head.size_bytes // PIECE))]
    items = b"".join(pieces)
    if len(items) != head.size_bytes:
        raise StoreDamaged("a part of the catalogue is missing; erase it and sync again")
    return ItemList(head.version, head.count, items, head.retired)


def _pack(common: CommonItems, number: int) -> bytes:
    part = slice(number * CHUNK, (number + 1) * CHUNK)
    scales = common.items.scales[part].astype("<f4").tobytes()
    return scales + np.ascontiguousarray(common.items.values[part]).tobytes()


def _name(number: int) -> str:
    return f"c/{number}"
