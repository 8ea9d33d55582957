"""A release of C as a message, whole or as a delta, and the hash that names its numbers.

Half of C is exact zeros. gzip finds them, but not for less than a bit each and the harm they do to
its matches; so a bitmap states which entries are not zero, and only those are sent.
"""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import BrokenModel
from fedrap_core.model import CommonItems
from fedrap_core.plan import AnyScoring
from fedrap_core.quantize import QuantizedRows
from fedrap_core.wire.messages import Delta, Release

MAX_RELEASE_BYTES = 256 * 1024 * 1024
MAX_ENTRIES = 256 * 1024 * 1024  # of one message: a bitmap of zeros is an eighth of what it says
_BLOCK = 1 << 17  # bytes of a bitmap that are unpacked at once
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)).reshape(256, 8).sum(1, dtype=np.uint8)

Values = npt.NDArray[np.int8]


def pack_entries(values: Values) -> tuple[bytes, bytes]:
    """The bitmap and the non-zero entries of rows, entry by entry, row after row.

    Entry i is bit i mod 8, from the lowest, of byte i // 8; bits after the last entry are 0.
    """
    entries = np.ascontiguousarray(values).reshape(-1)  # (n·k,)
    there = entries != 0
    return np.packbits(there, bitorder="little").tobytes(), entries[there].tobytes()


def unpack_entries(bitmap: bytes, values: bytes, rows: int, dim: int) -> Values:
    """What `pack_entries` was given: (rows, dim). Sizes are checked before memory is taken.

    Raises:
        BrokenModel: a bitmap of another size or of another number of values, or a value of 0.
    """
    entries = rows * dim
    if entries > MAX_ENTRIES or len(bitmap) != -(-entries // 8):
        raise BrokenModel("a bitmap of another size than its rows")
    bits = np.frombuffer(bitmap, dtype=np.uint8)
    beyond = entries % 8 and bitmap[-1] >> entries % 8
    if beyond or int(_ONES[bits].sum(dtype=np.int64)) != len(values):
        raise BrokenModel("a bitmap that does not have the number of values that came with it")
    known = np.frombuffer(values, dtype=np.int8)  # (non-zeros,)
    if not np.all(known):
        raise BrokenModel("a value of zero where a bitmap says that there is another")
    out = np.zeros(entries, dtype=np.int8)
    used = 0
    for start in range(0, len(bits), _BLOCK):
        there = np.unpackbits(bits[start : start + _BLOCK], bitorder="little").view(np.bool_)
        part = out[8 * start : 8 * start + len(there)]
        count = int(np.count_nonzero(there))
        part[there[: len(part)]] = known[used : used + count]
        used += count
    return out.reshape(rows, dim)


WORTH_A_DELTA = 0.6  # share of changed rows above which the whole is sent


def model_hash(items: QuantizedRows) -> bytes:
    """SHA-256 of shape, scales and values; a device checks it before it uses a release."""
    size, dim = items.shape
    digest = hashlib.sha256(b"fedrap/1 model" + struct.pack("<II", size, dim))
    digest.update(items.scales.astype("<f4").tobytes())
    digest.update(np.ascontiguousarray(items.values).tobytes())
    return digest.digest()


def pack_release(
    task: bytes,
    step: int,
    common: CommonItems,
    catalogue: int,
    scoring: AnyScoring,
    clip: float = 0.0,
    withheld: npt.NDArray[np.bool_] | None = None,
) -> Release:
    """The message that carries this version of C; `withheld` (m,) are rows not to recommend."""
    bitmap, values = pack_entries(common.items.values)
    return Release(
        task=task,
        version=common.version,
        step=step,
        size=common.size,
        dim=common.dim,
        catalogue=catalogue,
        scoring=scoring,
        clip=clip,
        model=model_hash(common.items),
        scales=common.items.scales.astype("<f4").tobytes(),
        bitmap=bitmap,
        values=values,
        withheld=b"" if withheld is None else pack_rows(withheld),
    )


def pack_rows(rows: npt.NDArray[np.bool_]) -> bytes:
    """A bit per row, the first row lowest; nothing where no row is meant."""
    return np.packbits(rows, bitorder="little").tobytes() if np.any(rows) else b""


def served_rows(withheld: bytes, size: int) -> npt.NDArray[np.bool_]:
    """Rows of C that may be recommended: (m,).

    Raises:
        BrokenModel: there are not as many bits as rows.
    """
    if not withheld:
        return np.ones(size, dtype=np.bool_)
    if len(withheld) != -(-size // 8):
        raise BrokenModel("a release that withholds another number of rows than it has")
    bits = np.unpackbits(np.frombuffer(withheld, dtype=np.uint8), count=size, bitorder="little")
    return np.asarray(bits == 0)


def pack_delta(old: CommonItems, new: CommonItems, release: Release) -> Delta | None:
    """What makes `new`, the C of `release`, out of `old`; None when it would save little."""
    if old.dim != new.dim or old.size > new.size:
        return None
    same = np.all(old.items.values == new.items.values[: old.size], axis=1)
    same &= old.items.scales == new.items.scales[: old.size]
    rows = np.concatenate([np.flatnonzero(~same), np.arange(old.size, new.size)])
    if len(rows) > WORTH_A_DELTA * new.size:
        return None
    bitmap, values = pack_entries(new.items.values[rows])
    return Delta(
        task=release.task,
        since=old.version,
        version=release.version,
        step=release.step,
        size=release.size,
        dim=release.dim,
        catalogue=release.catalogue,
        scoring=release.scoring,
        model=release.model,
        rows=rows.astype("<u4").tobytes(),
        scales=new.items.scales[rows].astype("<f4").tobytes(),
        bitmap=bitmap,
        values=values,
        withheld=release.withheld,
        entry=release.entry,
    )


def apply_delta(old: CommonItems, delta: Delta) -> CommonItems:
    """C of the delta's version, its hash checked; `old` stays as it is.

    Raises:
        BrokenModel: the delta is for another version, damaged, or gives another C than it says.
    """
    count = len(delta.rows) // 4
    if not len(delta.rows) == len(delta.scales) == 4 * count:
        raise BrokenModel("a delta whose arrays do not fit each other")
    if delta.since != old.version or delta.dim != old.dim or delta.size < old.size:
        raise BrokenModel(f"a delta from version {delta.since}; version {old.version} is held")
    rows = np.frombuffer(delta.rows, dtype="<u4").astype(np.int64)  # (n,)
    # Each row past the old ones must come, so that a stated size costs bytes that were sent.
    new = int(np.count_nonzero(rows >= old.size))
    if np.any(np.diff(rows) <= 0) or np.any(rows >= delta.size) or new != delta.size - old.size:
        raise BrokenModel("a delta whose rows are out of range or out of order")
    changed = unpack_entries(delta.bitmap, delta.values, count, delta.dim)  # (n, k)
    values = np.concatenate([old.items.values, np.empty((new, old.dim), dtype=np.int8)])
    scales = np.concatenate([old.items.scales, np.empty(new, dtype=np.float32)])
    values[rows] = changed
    scales[rows] = np.frombuffer(delta.scales, dtype="<f4")
    items = QuantizedRows(values, scales)
    served_rows(delta.withheld, delta.size)
    if model_hash(items) != delta.model:
        raise BrokenModel("a delta whose result does not have the hash that it states")
    return CommonItems(delta.version, items)


def unpack_release(release: Release) -> CommonItems:
    """C of a release, its hash checked.

    Raises:
        BrokenModel: sizes disagree, the hash is another, or the numbers are unusable.
    """
    if len(release.scales) != 4 * release.size:
        raise BrokenModel("a release whose arrays do not have the size that it states")
    served_rows(release.withheld, release.size)
    items = QuantizedRows(
        unpack_entries(release.bitmap, release.values, release.size, release.dim),
        np.frombuffer(release.scales, dtype="<f4").astype(np.float32),
    )
    if model_hash(items) != release.model:
        raise BrokenModel("a release whose numbers do not have the hash that it states")
    return CommonItems(release.version, items)
