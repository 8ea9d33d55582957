"""Vectors of arrays: quantised rows and padded shares. All bit-exact."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import numpy as np

from fedrap_core.errors import FedRapError
from fedrap_core.quantize import quantize_rows
from fedrap_core.sparse import RowUpdate
from fedrap_core.wire import messages
from fedrap_core.wire.codec import encode
from fedrap_core.wire.share import decode_share, encode_share, folded_rows, pad
from spec.vector_format import Case, File, error_name, fractions


def quantize() -> File:
    """quantize.json: rounding to the nearest and at random, bit by bit."""
    some = [[0.1, -0.25, 0.333, 0.0], [1e-3, 2e-3, -3e-3, 1.5e-3], [-7.5, 100.0, 12.3456, 0.7]]
    halves = [127.0, 0.5, 1.5, 2.5, 3.5, -0.5, -1.5, -2.5, -3.5, 126.5, -126.5]
    smallest = 2.0**-126
    given: list[tuple[str, list[list[Any]], list[list[float]] | None]] = [
        ("three rows", some, None),
        ("halves go to the even neighbour, below zero too", [halves], None),
        ("a row of zeros has scale 0", [[0.0, 0.0], [1.0, -1.0]], None),
        ("a scale below 2^-126 becomes 0 and the row zeros", [[126 * smallest, smallest]], None),
        ("the smallest scale, 2^-126", [[127 * smallest, -63 * smallest]], None),
        ("the largest numbers", [[1e30, -1e30, 1e29]], None),
        ("numbers that float32 rounds first", [[0.1234567891234, 16777217.0]], None),
        ("random rounding", some, fractions("quantize", 3, 4)),
        ("random rounding of halves", [halves], fractions("quantize halves", 1, 11)),
        ("random rounding with 0 is the floor", [[127.0, 0.9, -0.1]], [[0.0, 0.0, 0.0]]),
        ("random rounding of zeros", [[0.0, 0.0]], [[0.5, 0.99]]),
        ("not a number", [["NaN", 1.0]], None),
        ("infinite", [[1.0, "-Infinity"]], None),
        ("above 1e30", [[1.0], [1.1e30]], None),
        ("above float32", [[1e39]], None),
    ]
    about = (
        "rows -> float32; scale = max|row|/127 in float32, 0 if below 2^-126; step = row/scale in "
        "float64; values = rint(step), or floor(step + uniform) where uniform is not null, clipped "
        'to -127..127. Bit-exact. The strings "NaN" and "Infinity" stand for those numbers.'
    )
    return {"about": about, "cases": [_quantize_case(*case) for case in given]}


def _quantize_case(comment: str, rows: list[list[Any]], uniform: list[list[float]] | None) -> Case:
    given = np.array([[float(x) for x in row] for row in rows])
    drawn = None if uniform is None else np.array(uniform)
    case: Case = {"comment": comment, "valid": True, "rows": rows, "uniform": uniform}
    try:
        made = quantize_rows(given, drawn)
    except FedRapError as error:
        return {**case, "valid": False, "error": type(error).__name__}
    return {**case, "scales": made.scales.tolist(), "values": made.values.tolist()}


def shares() -> File:
    """share.json: the padded plaintext of an update."""
    cases = []
    for comment, dim, rows in (
        ("two rows, k = 3", 3, [1, 4]),
        ("no rows, k = 2", 2, []),
        ("rows beyond 65,535, k = 4", 4, [0, 7, 70_000, 2**31]),
        ("enough rows for the second bucket, k = 8", 8, list(range(0, 60, 2))),
    ):
        numbers = fractions(comment, len(rows) + dim, dim, per=200)
        values = [[x - 0.5 for x in row] for row in numbers[: len(rows)]]
        square = numbers[len(rows) :]
        triangle = [square[i][j] for i in range(dim) for j in range(i, dim)]
        update = RowUpdate(
            np.array(rows, dtype=np.int64), np.array(values).reshape(-1, dim), np.array(triangle)
        )
        uniform = fractions(f"{comment} u", len(rows) + folded_rows(dim), dim)
        raw = encode_share(update, np.array(uniform))
        back = decode_share(raw, dim)
        cases.append(
            {
                "comment": comment, "valid": True, "dim": dim, "rows": rows, "values": values,
                "triangle": triangle, "uniform": uniform, "bytes": raw.hex(),
                "decoded_values": back.values.tolist(),
                "decoded_triangle": back.packed_gram.tolist(),
            }
        )  # fmt: skip
    about = (
        "u32 little-endian length | msgpack share | zeros up to a bucket (512, 768, 1024, ...). "
        "The triangle, row by row, is filled with zeros to whole rows of dim; uniform has a row "
        "for each row of values, then for each row of the triangle. Bit-exact both ways."
    )
    return {"about": about, "cases": cases + _refused_shares(bytes.fromhex(cases[0]["bytes"]))}


def _refused_shares(good: bytes) -> list[Case]:
    body = encode(messages.Share(
        rows=bytes(7), scales=bytes(4), values=bytes(3), triangle_scales=bytes(8), triangle=bytes(6)
    ))  # fmt: skip
    other = encode(messages.OfferRequest(release=1))
    bad = [
        ("no bytes", 3, b""),
        ("a length beyond the end", 3, good[:40]),
        ("another dim", 4, good),
        ("a row number cut in the middle", 3, pad(body)),
        ("another message", 3, pad(other)),
        ("a share without its padding", 3, good[:-1]),
        ("a whole share that says it is longer", 3, struct.pack("<I", 509) + good[4:]),
        ("zeros", 3, bytes(512)),
    ]
    return [
        {
            "comment": comment, "valid": False, "dim": dim, "bytes": raw.hex(),
            "error": error_name(partial(decode_share, raw, dim)),
        }
        for comment, dim, raw in bad
    ]  # fmt: skip
