"""A device's share as plaintext bytes: quantised, packed, and padded to a bucket.

    u32 length · msgpack Share · zeros up to the bucket

The triangle of x x' is folded into ceil((k+1)/2) rows of k numbers, the last one filled with
zeros, so that one quantiser serves all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import MalformedMessage, WrongShape
from fedrap_core.model import Floats
from fedrap_core.plan import OFF
from fedrap_core.quantize import QuantizedRows, quantize_rows
from fedrap_core.sparse import Part, RowPart, RowUpdate, bucket_bytes, packed_size
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
    if len(raw) < 4:
        raise MalformedMessage("a share is longer than that")
    (length,) = struct.unpack_from("<I", raw)
    if len(raw) != bucket_bytes(4 + length):  # a device that forgets to pad would tell a length
        raise MalformedMessage("a share is not padded to its bucket")
    share = decode(Share, raw[4 : 4 + length])
    rows = np.frombuffer(_whole(share.rows, 4), dtype="<u4").astype(np.int64)
    values = _dequantize(share.values, share.scales, len(rows), dim)
    triangle = _dequantize(share.triangle, share.triangle_scales, folded_rows(dim), dim)
    came = [] if share.parts is OFF else share.parts
    if [one.name for one in came] != [part.name for part in parts]:
        raise WrongShape("a share has other parts than the plan")
    more = tuple(_part(one, part) for one, part in zip(came, parts, strict=True))
    return RowUpdate(rows, values, triangle.ravel()[: packed_size(dim)], share.fits, more)


def _part(came: SharePart, part: Part) -> RowPart:
    count = part.rows if part.whole else len(_whole(came.rows, 4)) // 4
    if count > part.rows or (part.whole and came.rows):
        raise WrongShape(f"{part.name} has at most {part.rows} rows")
    values = _dequantize(came.values, came.scales, count, part.width)
    if part.whole:
        return RowPart(np.arange(count), values)
    return RowPart(np.frombuffer(came.rows, dtype="<u4").astype(np.int64), values)


def _dequantize(values: bytes, scales: bytes, count: int, dim: int) -> npt.NDArray[np.float64]:
    if len(values) != count * dim or len(scales) != 4 * count:
        raise WrongShape(f"expected {count} rows of {dim} numbers")
    steps = np.frombuffer(values, dtype=np.int8).reshape(count, dim)
    widths = np.frombuffer(scales, dtype="<f4").astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # RowUpdate.check refuses what is left
        return QuantizedRows(steps, widths).to_float().astype(np.float64)


def _whole(raw: bytes, width: int) -> bytes:
    if len(raw) % width:
        raise MalformedMessage("an array ends in the middle of a number")
    return raw
