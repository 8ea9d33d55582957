"""A device's share as plaintext bytes: quantised, packed, and padded to a bucket.

    u32 length · msgpack Share · zeros up to the bucket

The triangle of x x' is folded into ceil((k+1)/2) rows of k numbers, the last one filled with
zeros, so that one quantiser serves all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import MalformedMessage, WrongShape
from fedrap_core.model import Floats, Rows
from fedrap_core.plan import OFF
from fedrap_core.quantize import QuantizedRows, quantize_rows
from fedrap_core.sparse import (
    LARGEST,
    Part,
    RowPart,
    RowUpdate,
    bucket_bytes,
    check_finite,
    check_rows,
    packed_size,
)
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Share, SharePart


def folded_rows(dim: int) -> int:
    """Rows of k numbers that hold the triangle."""
    return (dim + 2) // 2


def uniform_count(update: RowUpdate) -> int:
    """How many random numbers `encode_share` needs for unbiased rounding."""
    dim = int(update.values.shape[1])
    more = sum(part.values.size for part in update.parts)
    return (len(update.rows) + folded_rows(dim)) * dim + more


def encode_share(update: RowUpdate, uniform: Floats, parts: Sequence[Part] = ()) -> bytes:
    """The padded plaintext of an update.

    Args:
        uniform: numbers in [0, 1) for the rounding, as many as `uniform_count` says.
        parts: what the plan has beside rows and Gram matrix, as `parts.more_parts` has it.
    """
    dim = update.values.shape[1]
    folded = np.zeros(folded_rows(dim) * dim)
    folded[: packed_size(dim)] = update.packed_gram
    left = np.ravel(uniform)

    def rounded(values: Floats) -> QuantizedRows:
        nonlocal left
        mine, left = left[: values.size], left[values.size :]
        return quantize_rows(values, mine.reshape(values.shape))

    rows = rounded(update.values)
    triangle = rounded(folded.reshape(-1, dim))
    more = [
        SharePart(
            name=part.name,
            rows=b"" if part.whole else mine.rows.astype("<u4").tobytes(),
            scales=(packed := rounded(mine.values)).scales.astype("<f4").tobytes(),
            values=packed.values.tobytes(),
        )
        for mine, part in zip(update.parts, parts, strict=True)
    ]
    body = encode(
        Share(
            rows=update.rows.astype("<u4").tobytes(),
            scales=rows.scales.astype("<f4").tobytes(),
            values=rows.values.tobytes(),
            triangle_scales=triangle.scales.astype("<f4").tobytes(),
            triangle=triangle.values.tobytes(),
            fits=update.fits,
            parts=more or OFF,
        )
    )
    return pad(body)


def pad(body: bytes) -> bytes:
    """Length, body, and zeros up to the bucket."""
    framed = struct.pack("<I", len(body)) + body
    return framed.ljust(bucket_bytes(len(framed)), b"\0")


def decode_share(raw: bytes, dim: int, parts: Sequence[Part] = ()) -> RowUpdate:
    """The update in a padded plaintext; `parts` as in `encode_share`.

    No array is made before its bytes were found to have the size that the plan gives it.

    Raises:
        MalformedMessage, UnsupportedVersion, TooLarge: the bytes are not a share.
        WrongShape: the arrays do not fit `dim` or each other, or there are other parts.
    """
    fits, rows, triangle, more = _read_share(raw, dim, parts)
    gram = triangle.unpack().ravel()[: packed_size(dim)]
    unpacked = tuple(RowPart(part.rows, part.unpack()) for part in more)
    return RowUpdate(rows.rows, rows.unpack(), gram, fits, unpacked)


def check_share(raw: bytes, size: int, dim: int, parts: Sequence[Part] = ()) -> None:
    """Returns where `decode_share` and then `RowUpdate.check` would; raises like both.

    Numbers are unpacked only where a step width alone does not show that they are small enough.
    """
    _, rows, triangle, more = _read_share(raw, dim, parts)
    shapes = (Part("rows", size, dim), *parts)
    for mine, part in zip((rows, *more), shapes, strict=True):
        check_rows(mine.rows, part)
        mine.check_finite()
    triangle.check_finite(packed_size(dim))


@dataclass(frozen=True, eq=False)
class _PackedRows:
    """Rows as they came, of the size that they should have."""

    rows: Rows  # (n,)
    steps: npt.NDArray[np.int8]  # (n, width)
    widths: npt.NDArray[np.float32]  # (n,)

    def unpack(self) -> npt.NDArray[np.float64]:
        """The numbers: (n, width)."""
        with np.errstate(over="ignore", invalid="ignore"):  # RowUpdate.check refuses what is left
            return QuantizedRows(self.steps, self.widths).to_float().astype(np.float64)

    def check_finite(self, count: int | None = None) -> None:
        """The first `count` numbers, or all, are finite and small enough; raises NotFinite."""
        if not (np.abs(self.widths) <= _WIDEST).all():  # also false for NaN
            check_finite(self.unpack().ravel()[:count])


_WIDEST = np.float32(LARGEST / 256.0)  # of a step: 128 of them are below LARGEST in any rounding


def _read_share(
    raw: bytes, dim: int, parts: Sequence[Part]
) -> tuple[int, _PackedRows, _PackedRows, list[_PackedRows]]:
    """The clipping bit, the rows of C, the triangle and the other parts; raises as above."""
    if len(raw) < 4:
        raise MalformedMessage("a share is longer than that")
    (length,) = struct.unpack_from("<I", raw)
    if len(raw) != bucket_bytes(4 + length):  # a device that forgets to pad would tell a length
        raise MalformedMessage("a share is not padded to its bucket")
    share = decode(Share, raw[4 : 4 + length])
    rows = _packed(_numbers(share.rows), share.values, share.scales, dim)
    folded = np.arange(folded_rows(dim))
    triangle = _packed(folded, share.triangle, share.triangle_scales, dim)
    came = [] if share.parts is OFF else share.parts
    if [one.name for one in came] != [part.name for part in parts]:
        raise WrongShape("a share has other parts than the plan")
    more = [_part(one, part) for one, part in zip(came, parts, strict=True)]
    return share.fits, rows, triangle, more


def _part(came: SharePart, part: Part) -> _PackedRows:
    count = part.rows if part.whole else len(came.rows) // 4
    if count > part.rows or (part.whole and came.rows):
        raise WrongShape(f"{part.name} has at most {part.rows} rows")
    rows = np.arange(count) if part.whole else _numbers(came.rows)
    return _packed(rows, came.values, came.scales, part.width)


def _packed(rows: Rows, values: bytes, scales: bytes, dim: int) -> _PackedRows:
    count = len(rows)
    if len(values) != count * dim or len(scales) != 4 * count:
        raise WrongShape(f"expected {count} rows of {dim} numbers")
    steps = np.frombuffer(values, dtype=np.int8).reshape(count, dim)
    return _PackedRows(rows, steps, np.frombuffer(scales, dtype="<f4").astype(np.float32))


def _numbers(raw: bytes) -> Rows:
    """Row numbers: (n,)."""
    if len(raw) % 4:
        raise MalformedMessage("an array ends in the middle of a number")
    return np.frombuffer(raw, dtype="<u4").astype(np.int64)
