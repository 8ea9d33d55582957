"""How the store keeps what is large: C, the catalogue, and what rounds of `paper` have trained.

Of a release there is a small header and C in chunks of rows: a delta rewrites only the chunks that
it touches, and loading never has more than one chunk in memory beside C itself. A sequence part has
chunks of its own: outputs with their bias, and offsets. The names of the records are those of
version 0.1 (the header's is `held`), so that its stores open.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap.errors import StoreDamaged
from fedrap.recommend.attributes import NO_ATTRIBUTES, AttributesHead, ItemAttributes
from fedrap.recommend.release import ItemList, ReleaseHeader, head_of
from fedrap_core.model import CommonItems, Rows, SequenceRows
from fedrap_core.paper.problem import PaperState
from fedrap_core.plan import OFF
from fedrap_core.quantize import QuantizedRows
from fedrap_core.wire.attributes import page_digests
from fedrap_core.wire.messages import Delta, Release
from fedrap_core.wire.releases import unpack_trend

CHUNK = 16_384  # rows of C in one record
PIECE = 500_000  # bytes of ids in one record
ATTRIBUTES = "attributes"
C, OUTPUTS, OFFSETS = "c", "so", "sd"  # names of chunks, each followed by its number
STAGED = "staged "  # before the names of a release that is held beside the full one


class CatalogueHead(msgspec.Struct, frozen=True):
    """What is kept of a catalogue beside its ids, which go into pieces."""

    version: int
    count: int
    retired: bytes
    size_bytes: int


def kept_blocks(message: Release | Delta, common: CommonItems) -> dict[str, object]:
    """What the store must write for this release: its head and the chunks that it changes."""
    delta, part = isinstance(message, Delta), common.sequence
    blocks: dict[str, object] = {"held": head_of(message)}
    for number in _chunks(common.size, message.rows if isinstance(message, Delta) else None):
        blocks[f"{C}/{number}"] = _pack(common.items, number)
    if part is not None and message.sequence is not OFF:
        body = message.sequence
        for number in _chunks(part.size, body.output_rows if delta else None):
            bias = part.bias[number * CHUNK : (number + 1) * CHUNK].astype("<f4").tobytes()
            blocks[f"{OUTPUTS}/{number}"] = bias + _pack(part.outputs, number)
        for number in _chunks(part.size, body.offset_rows if delta else None):
            blocks[f"{OFFSETS}/{number}"] = _pack(part.offsets, number)
    return blocks


def staged_names(common: CommonItems) -> list[str]:
    """The names of all that the store has of a staged release."""
    parts = (C,) if common.sequence is None else (C, OUTPUTS, OFFSETS)
    numbers = _chunks(common.size, None)
    return [f"{STAGED}held", *(f"{STAGED}{part}/{n}" for part in parts for n in numbers)]


def load_common(
    header: ReleaseHeader, catalogue: ItemList, read: Callable[[str], bytes | None]
) -> CommonItems:
    """C, and the sequence part where there is one, from their chunks.

    The store vouches for their bytes.

    Raises:
        StoreDamaged: a chunk is missing or has another size, or there are more rows than items.
    """
    if header.size > catalogue.count:
        raise StoreDamaged("C has more rows than the catalogue items; erase it and sync again")
    items, _ = _load(C, header.size, header.dim, read)
    trend = unpack_trend(header.trend or OFF, header.size)
    if not header.sequence_dim:
        return CommonItems(header.version, items, trend=trend)
    outputs, bias = _load(OUTPUTS, header.size, header.sequence_dim, read, biased=True)
    offsets, _ = _load(OFFSETS, header.size, header.sequence_dim, read)
    kernels = np.frombuffer(header.kernels, dtype="<f4").reshape(-1, header.sequence_dim)
    part = SequenceRows(outputs, offsets, bias, kernels.astype(np.float32))
    return CommonItems(header.version, items, part, trend)


def _load(
    name: str, size: int, dim: int, read: Callable[[str], bytes | None], *, biased: bool = False
) -> tuple[QuantizedRows, npt.NDArray[np.float32]]:
    """Rows from their chunks, and their bias where the chunks begin with one."""
    values = np.empty((size, dim), dtype=np.int8)
    scales = np.empty(size, dtype=np.float32)
    bias = np.zeros(size if biased else 0, dtype=np.float32)
    for start in range(0, size, CHUNK):
        raw = read(f"{name}/{start // CHUNK}") or b""
        rows = min(CHUNK, size - start)
        if len(raw) != rows * (4 * biased + 4 + dim):
            raise StoreDamaged("a part of C is missing in the store; erase it and sync again")
        if biased:
            bias[start : start + rows] = np.frombuffer(raw, dtype="<f4", count=rows)
            raw = raw[4 * rows :]
        scales[start : start + rows] = np.frombuffer(raw, dtype="<f4", count=rows)
        part = np.frombuffer(raw, dtype=np.int8, offset=4 * rows)
        values[start : start + rows] = part.reshape(rows, dim)
    return QuantizedRows(values, scales), bias


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


def attribute_blocks(
    head: AttributesHead, pages: Sequence[bytes], before: ItemAttributes
) -> dict[str, object]:
    """What the store must write for these attributes; pages that were there before stay."""
    blocks: dict[str, object] = {ATTRIBUTES: head}
    for number in range(max(len(pages), len(before.pages))):
        raw = pages[number] if number < len(pages) else b""
        if number >= len(before.pages) or raw != before.pages[number]:
            blocks[f"{ATTRIBUTES}/{number}"] = raw
    return blocks


def load_attributes(
    head: AttributesHead | None, read: Callable[[str], bytes | None]
) -> ItemAttributes:
    """The attributes from their pages; none when there are none.

    Raises:
        StoreDamaged: a page is missing.
    """
    if head is None:
        return NO_ATTRIBUTES
    digests = page_digests(head.pages)
    pages = [read(f"{ATTRIBUTES}/{number}") or b"" for number in range(len(digests))]
    if any(hashlib.sha256(raw).digest() != one for raw, one in zip(pages, digests, strict=True)):
        raise StoreDamaged("a page of attributes is missing; the next sync fetches it")
    return ItemAttributes(head, pages)


def _chunks(size: int, changed: bytes | None) -> list[int]:
    """The numbers of all chunks, or of those that have a changed row."""
    touched = np.zeros(-(-size // CHUNK), dtype=np.bool_)
    touched[...] = changed is None
    if changed is not None:
        touched[np.frombuffer(changed, dtype="<u4") // CHUNK] = True
    return [int(number) for number in np.flatnonzero(touched)]


def _pack(items: QuantizedRows, number: int) -> bytes:
    part = slice(number * CHUNK, (number + 1) * CHUNK)
    scales = items.scales[part].astype("<f4").tobytes()
    return scales + np.ascontiguousarray(items.values[part]).tobytes()


class TrainedBlock(msgspec.Struct, frozen=True):
    """u, the bias and the rows of D, as little-endian bytes; sealed by the store."""

    user: bytes
    bias: float
    rows: bytes
    personal: bytes


def pack_trained(state: PaperState) -> TrainedBlock:
    """A state as bytes."""
    return TrainedBlock(
        state.user.astype("<f8").tobytes(),
        float(state.bias),
        state.rows.astype("<i8").tobytes(),
        state.personal.astype("<f8").tobytes(),
    )


def unpack_trained(block: TrainedBlock | None) -> PaperState | None:
    """A state from bytes; None when this device never trained with `paper`."""
    if block is None:
        return None
    user = np.frombuffer(block.user, dtype="<f8").astype(np.float64)  # (k,)
    rows = np.frombuffer(block.rows, dtype="<i8").astype(np.int64)  # (n,)
    personal = np.frombuffer(block.personal, dtype="<f8").astype(np.float64)
    return PaperState(user, block.bias, rows, personal.reshape(len(rows), len(user)))


def keep_rows(state: PaperState | None, rows: Rows) -> PaperState | None:
    """A state without the rows of D that are not among `rows`; the same one if there are none."""
    if state is None or not len(state.rows):
        return state
    touched = np.zeros(int(max(state.rows.max(), rows.max(initial=0))) + 1, dtype=np.bool_)
    touched[rows] = True
    kept = touched[state.rows]  # (n,)
    if kept.all():
        return state
    return PaperState(state.user, state.bias, state.rows[kept], state.personal[kept])
