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
from fedrap_core.model import CommonItems, Rows, SequenceRows
from fedrap_core.plan import OFF, AnyScoring, Off
from fedrap_core.quantize import QuantizedRows
from fedrap_core.wire.messages import Delta, Release, SequenceBody

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


def model_hash(
    items: QuantizedRows,
    sequence: SequenceRows | None = None,
    trend: QuantizedRows | None = None,
) -> bytes:
    """SHA-256 of all the numbers of a release; a device checks it before it uses them.

    Shape, scales and values of C; with a sequence part that hash again, and all of the part; with
    a trend the hash so far, and the trend as it is sent.
    """
    found = _hash_of_rows(items, sequence)
    if trend is None:
        return found
    return hashlib.sha256(b"fedrap/1 trend" + found + _pack_trend(trend)).digest()


def _hash_of_rows(items: QuantizedRows, sequence: SequenceRows | None) -> bytes:
    size, dim = items.shape
    digest = hashlib.sha256(b"fedrap/1 model" + struct.pack("<II", size, dim))
    _hash_rows(digest, items)
    if sequence is None:
        return digest.digest()
    kernels, dim = sequence.kernels.shape
    both = hashlib.sha256(b"fedrap/1 sequence" + digest.digest())
    both.update(struct.pack("<III", size, dim, kernels))
    _hash_rows(both, sequence.outputs)
    _hash_rows(both, sequence.offsets)
    both.update(sequence.bias.astype("<f4").tobytes())
    both.update(sequence.kernels.astype("<f4").tobytes())
    return both.digest()


def _hash_rows(digest: hashlib._Hash, rows: QuantizedRows) -> None:
    digest.update(rows.scales.astype("<f4").tobytes())
    digest.update(np.ascontiguousarray(rows.values).tobytes())


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
        model=model_hash(common.items, common.sequence, common.trend),
        scales=common.items.scales.astype("<f4").tobytes(),
        bitmap=bitmap,
        values=values,
        withheld=b"" if withheld is None else pack_rows(withheld),
        sequence=OFF if common.sequence is None else _pack_sequence(common.sequence),
        trend=OFF if common.trend is None else _pack_trend(common.trend),
    )


def _pack_trend(trend: QuantizedRows) -> bytes:
    return trend.scales.astype("<f4").tobytes() + np.ascontiguousarray(trend.values).tobytes()


def unpack_trend(raw: bytes | Off, size: int) -> QuantizedRows | None:
    """t of a release or delta: (1, m); None where it has none.

    Raises:
        BrokenModel: it has not one number for each of `size` rows.
    """
    if raw is OFF:
        return None
    if len(raw) != 4 + size:
        raise BrokenModel("a trend of another size than C")
    values = np.frombuffer(raw, dtype=np.int8, offset=4).reshape(1, size)
    return QuantizedRows(values, np.frombuffer(raw, dtype="<f4", count=1).astype(np.float32))


def _pack_sequence(
    part: SequenceRows, outputs: Rows | None = None, offsets: Rows | None = None
) -> SequenceBody:
    """All rows, or those of a delta."""
    every = slice(None)
    mine, theirs = every if outputs is None else outputs, every if offsets is None else offsets
    output_bitmap, output_values = pack_entries(part.outputs.values[mine])
    offset_bitmap, offset_values = pack_entries(part.offsets.values[theirs])
    return SequenceBody(
        dim=part.dim,
        kernels=part.kernels.astype("<f4").tobytes(),
        output_rows=b"" if outputs is None else outputs.astype("<u4").tobytes(),
        output_scales=part.outputs.scales[mine].astype("<f4").tobytes(),
        output_bitmap=output_bitmap,
        output_values=output_values,
        bias=part.bias[mine].astype("<f4").tobytes(),
        offset_rows=b"" if offsets is None else offsets.astype("<u4").tobytes(),
        offset_scales=part.offsets.scales[theirs].astype("<f4").tobytes(),
        offset_bitmap=offset_bitmap,
        offset_values=offset_values,
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
    rows = _changed(old.items, new.items)
    changed, of = len(rows) * new.dim, new.size * new.dim
    sequence: SequenceBody | Off = OFF
    if new.sequence is not None:
        before, after = old.sequence, new.sequence
        if before is None or before.kernels.shape != after.kernels.shape:
            return None
        outputs = _changed(before.outputs, after.outputs)
        biased = np.flatnonzero(before.bias != after.bias[: before.size])
        outputs, offsets = np.union1d(outputs, biased), _changed(before.offsets, after.offsets)
        sequence = _pack_sequence(after, outputs, offsets)
        changed += (len(outputs) + len(offsets)) * after.dim
        of += 2 * after.size * after.dim
    if changed > WORTH_A_DELTA * of:
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
        sequence=sequence,
        trend=release.trend,
    )


def _changed(old: QuantizedRows, new: QuantizedRows) -> Rows:
    """Rows of `new` that are not in `old` as they are now."""
    known = len(old.scales)
    same = np.all(old.values == new.values[:known], axis=1)
    same &= old.scales == new.scales[:known]
    return np.concatenate([np.flatnonzero(~same), np.arange(known, len(new.scales))])


def apply_delta(old: CommonItems, delta: Delta) -> CommonItems:
    """C of the delta's version, its hash checked; `old` stays as it is.

    Raises:
        BrokenModel: the delta is for another version, damaged, or gives another C than it says.
    """
    if delta.since != old.version or delta.dim != old.dim or delta.size < old.size:
        raise BrokenModel(f"a delta from version {delta.since}; version {old.version} is held")
    items = _patched(old.items, delta.size, delta.rows, delta.scales, delta.bitmap, delta.values)
    sequence = None
    if delta.sequence is not OFF:
        if old.sequence is None or old.sequence.dim != delta.sequence.dim:
            raise BrokenModel("a delta of a sequence part that this device does not hold")
        sequence = _patched_sequence(old.sequence, delta.size, delta.sequence)
    served_rows(delta.withheld, delta.size)
    trend = unpack_trend(delta.trend, delta.size)
    if model_hash(items, sequence, trend) != delta.model:
        raise BrokenModel("a delta whose result does not have the hash that it states")
    return CommonItems(delta.version, items, sequence, trend)


def _patched(
    old: QuantizedRows, size: int, rows: bytes, scales: bytes, bitmap: bytes, values: bytes
) -> QuantizedRows:
    """The old rows with those of a delta in their places."""
    held, dim = old.shape
    where = _rows_of_delta(rows, held, size)  # (n,)
    if len(scales) != 4 * len(where):
        raise BrokenModel("a delta whose arrays do not fit each other")
    changed = unpack_entries(bitmap, values, len(where), dim)  # (n, k)
    new_values = np.concatenate([old.values, np.empty((size - held, dim), dtype=np.int8)])
    new_scales = np.concatenate([old.scales, np.empty(size - held, dtype=np.float32)])
    new_values[where] = changed
    new_scales[where] = np.frombuffer(scales, dtype="<f4")
    return QuantizedRows(new_values, new_scales)


def _rows_of_delta(raw: bytes, held: int, size: int) -> Rows:
    """The rows that a delta has: (n,), each row past the held ones among them.

    So a stated size costs bytes that were sent.
    """
    if len(raw) % 4:
        raise BrokenModel("a delta whose arrays do not fit each other")
    rows = np.frombuffer(raw, dtype="<u4").astype(np.int64)
    new = int(np.count_nonzero(rows >= held))
    if np.any(np.diff(rows) <= 0) or np.any(rows >= size) or new != size - held:
        raise BrokenModel("a delta whose rows are out of range or out of order")
    return rows


def _patched_sequence(old: SequenceRows, size: int, body: SequenceBody) -> SequenceRows:
    b = body
    outputs = _patched(
        old.outputs, size, b.output_rows, b.output_scales, b.output_bitmap, b.output_values
    )
    offsets = _patched(
        old.offsets, size, b.offset_rows, b.offset_scales, b.offset_bitmap, b.offset_values
    )
    if len(b.bias) != len(b.output_rows):  # both have four bytes for each row
        raise BrokenModel("a delta whose arrays do not fit each other")
    bias = np.concatenate([old.bias, np.empty(size - old.size, dtype=np.float32)])
    bias[np.frombuffer(b.output_rows, dtype="<u4")] = np.frombuffer(b.bias, dtype="<f4")
    return SequenceRows(outputs, offsets, bias, _kernels(b))


def _kernels(body: SequenceBody) -> npt.NDArray[np.float32]:
    if not body.kernels or len(body.kernels) % (4 * body.dim):
        raise BrokenModel("time kernels that do not have the dimension that is stated")
    return np.frombuffer(body.kernels, dtype="<f4").reshape(-1, body.dim).astype(np.float32)


def unpack_release(release: Release) -> CommonItems:
    """C of a release, its hash checked.

    Raises:
        BrokenModel: sizes disagree, the hash is another, or the numbers are unusable.
    """
    served_rows(release.withheld, release.size)
    size, dim = release.size, release.dim
    items = _whole(size, dim, release.scales, release.bitmap, release.values)
    sequence = None
    if release.sequence is not OFF:
        b = release.sequence
        if b.output_rows or b.offset_rows or len(b.bias) != 4 * size:
            raise BrokenModel("a release whose arrays do not have the size that it states")
        sequence = SequenceRows(
            _whole(size, b.dim, b.output_scales, b.output_bitmap, b.output_values),
            _whole(size, b.dim, b.offset_scales, b.offset_bitmap, b.offset_values),
            np.frombuffer(b.bias, dtype="<f4").astype(np.float32),
            _kernels(b),
        )
    trend = unpack_trend(release.trend, size)
    if model_hash(items, sequence, trend) != release.model:
        raise BrokenModel("a release whose numbers do not have the hash that it states")
    return CommonItems(release.version, items, sequence, trend)


def _whole(size: int, dim: int, scales: bytes, bitmap: bytes, values: bytes) -> QuantizedRows:
    if len(scales) != 4 * size:
        raise BrokenModel("a release whose arrays do not have the size that it states")
    return QuantizedRows(
        unpack_entries(bitmap, values, size, dim),
        np.frombuffer(scales, dtype="<f4").astype(np.float32),
    )
