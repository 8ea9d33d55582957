"""A device's share as plaintext bytes: quantised, packed, and padded to a bucket.

    u32 length · msgpack Share · zeros up to the bucket

The triangle of x x' is folded into ceil((k+1)/2) rows of k numbers, the last one filled with
zeros, so that one quantiser serves all of it.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import MalformedMessage, WrongShape
from fedrap_core.model import Floats
from fedrap_core.quantize import QuantizedRows, quantize_rows
from fedrap_core.sparse import RowUpdate, bucket_bytes, packed_size
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Share


def folded_rows(dim: int) -> int:
    """Rows of k numbers that hold the triangle."""
    return (dim + 2) // 2


def uniform_shape(update: RowUpdate) -> tuple[int, int]:
    """Shape of the random numbers that `encode_share` needs for unbiased rounding."""
    dim = update.values.shape[1]
    return len(update.rows) + folded_rows(dim), dim


def encode_share(update: RowUpdate, uniform: Floats) -> bytes:
    """The padded plaintext of an update; `uniform` are numbers in [0, 1) for the rounding."""
    count, dim = update.values.shape
    folded = np.zeros(folded_rows(dim) * dim)
    folded[: packed_size(dim)] = update.packed_gram
    rows = quantize_rows(update.values, uniform[:count])
    triangle = quantize_rows(folded.reshape(-1, dim), uniform[count:])
    body = encode(
        Share(
            rows=update.rows.astype("<u4").tobytes(),
            scales=rows.scales.astype("<f4").tobytes(),
            values=rows.values.tobytes(),
            triangle_scales=triangle.scales.astype("<f4").tobytes(),
            triangle=triangle.values.tobytes(),
            fits=update.fits,
        )
    )
    return pad(body)


def pad(body: bytes) -> bytes:
    """Length, body, and zeros up to the bucket."""
    framed = struct.pack("<I", len(body)) + body
    return framed.ljust(bucket_bytes(len(framed)), b"\0")


def decode_share(raw: bytes, dim: int) -> RowUpdate:
    """The update in a padded plaintext.

    Raises:
        MalformedMessage, UnsupportedVersion, TooLarge: the bytes are not a share.
        WrongShape: the arrays do not fit `dim` or each other.
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
    return RowUpdate(rows, values, triangle.ravel()[: packed_size(dim)], share.fits)


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
