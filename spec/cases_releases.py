"""Vectors of releases and deltas: hash, bitmap and values. All bit-exact."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import msgspec
import numpy as np

from fedrap_core.model import CommonItems
from fedrap_core.plan import Scoring
from fedrap_core.quantize import QuantizedRows
from fedrap_core.wire import messages
from fedrap_core.wire.codec import encode
from fedrap_core.wire.releases import (
    apply_delta,
    model_hash,
    pack_delta,
    pack_release,
    unpack_release,
)
from spec.vector_format import Case, File, builtins, common_items, error_name, model

_TASK = bytes(range(16))


def releases() -> File:
    """release.json: the hash that names a model, and its message."""
    cases: list[Case] = []
    for comment, size, dim in (("three items", 3, 4), ("no items", 0, 2), ("one item", 1, 1)):
        cases.append(_good_release(comment, model(comment, size, dim)))
    halves = _halved(model("half of it zeros", 5, 3))
    cases.append(_good_release("half of it zeros, 15 bits", halves))
    empty = {**model("nothing but zeros", 3, 4), "values": [[0] * 4] * 3}
    cases.append(_good_release("nothing but zeros", empty))
    good = pack_release(_TASK, 5, common_items(halves), 2, Scoring())
    changed: list[tuple[str, dict[str, Any]]] = [
        ("another hash", {"model": bytes(32)}),
        ("a value changed", {"values": b"\1" + good.values[1:]}),
        ("a scale changed", {"scales": struct.pack("<f", 1.0) + good.scales[4:]}),
        ("a value missing", {"values": good.values[:-1]}),
        ("a value too many", {"values": good.values + b"\1"}),
        ("a value of zero", {"values": b"\0" + good.values[1:]}),
        ("a scale missing", {"scales": good.scales[:-4]}),
        ("a bitmap of one byte", {"bitmap": good.bitmap[:1]}),
        ("a bitmap of three bytes", {"bitmap": good.bitmap + b"\0"}),
        ("another bit and its value", {"bitmap": _flipped(good), "values": good.values + b"\1"}),
        ("a bit after the last entry", {
            "bitmap": good.bitmap[:1] + bytes([good.bitmap[1] | 128]),
            "values": good.values + b"\1",
        }),
        ("all values, as if there were no bitmap", {"values": _all_values(halves)}),
        ("another size", {"size": 6}),
        ("more entries than bytes could state", {"size": 2**31, "dim": 256}),
        ("the shape transposed", {"size": 3, "dim": 5, "scales": good.scales[:12]}),
    ]  # fmt: skip
    for comment, fields in changed:
        broken = msgspec.structs.replace(good, **fields)
        cases.append(_refused(comment, broken, partial(unpack_release, broken)))
    for scale in (float("nan"), float("inf"), -1.0, 20_000.0):
        items = QuantizedRows(np.ones((1, 2), dtype=np.int8), np.array([scale], dtype=np.float32))
        hostile = messages.Release(
            task=_TASK, version=1, step=1, size=1, dim=2, catalogue=2,
            scoring=Scoring(), model=model_hash(items),
            scales=items.scales.tobytes(), bitmap=b"\3", values=items.values.tobytes(),
        )  # fmt: skip
        comment = f"an honest hash over a scale of {scale}"
        cases.append(_refused(comment, hostile, partial(unpack_release, hostile)))
    about = (
        'model = SHA-256 of "fedrap/1 model" | u32 size | u32 dim | f32 scales | i8 values, all '
        "little-endian; bytes is the release message, with a bitmap of the values that are not 0 "
        "(entry i is bit i mod 8, from the lowest, of byte i div 8) and those values alone. "
        "Refused cases decode, but must not be used."
    )
    return {"about": about, "cases": cases}


def deltas() -> File:
    """delta.json: a C, what changes it, and the C that it gives."""
    old = _halved(model("delta", 9, 3))
    changed, grown, same = dict(old), dict(old), dict(old)
    changed["values"] = [[0, 0, 7] if row in (2, 6) else r for row, r in enumerate(old["values"])]
    fresh = _halved(model("fresh rows", 2, 3))
    grown["values"] = changed["values"] + fresh["values"]
    grown["scales"] = old["scales"] + fresh["scales"]
    given = [("two rows changed", changed), ("two changed, two new", grown), ("nothing", same)]
    cases = []
    for comment, new in given:
        delta = _delta(old, new)
        cases.append(
            {
                "comment": comment, "valid": True, "old": old, "new": new,
                "hash": delta.model.hex(), "bytes": encode(delta).hex(),
            }
        )  # fmt: skip
    good = _delta(old, grown)
    broken: list[tuple[str, dict[str, Any]]] = [
        ("from another version", {"since": 7}),
        ("another hash", {"model": bytes(32)}),
        ("a value missing", {"values": good.values[:-1]}),
        ("a value of zero", {"values": b"\0" + good.values[1:]}),
        ("a bitmap cut", {"bitmap": good.bitmap[:-1]}),
        ("a row missing", {"rows": good.rows[:-4], "scales": good.scales[:-4]}),
        ("rows out of order", {"rows": good.rows[4:] + good.rows[:4]}),
    ]
    for comment, fields in broken:
        bad = msgspec.structs.replace(good, **fields)
        made = _refused(comment, bad, partial(apply_delta, common_items(old), bad))
        cases.append({**made, "old": old})
    about = (
        "bytes is the delta message that makes `new` out of `old` (version 1): rows, and for each "
        "its scale and its entries as in release.json. `hash` is that of `new`. Refused cases "
        "decode, but must not be used."
    )
    return {"about": about, "cases": cases}


def _delta(old: Case, new: Case) -> messages.Delta:
    common = CommonItems(2, common_items(new).items)
    made = pack_delta(common_items(old), common, pack_release(_TASK, 5, common, 2, Scoring()))
    assert made is not None
    return made


def _good_release(comment: str, stored: Case) -> Case:
    release = pack_release(_TASK, 5, common_items(stored), 2, Scoring(w0=0.25))
    return {
        "comment": comment, "valid": True, "hash": release.model.hex(),
        "task": release.task.hex(), "version": release.version, "step": release.step,
        "catalogue": release.catalogue, "scoring": builtins(release.scoring), "items": stored,
        "bytes": encode(release).hex(),
    }  # fmt: skip


def _refused(comment: str, message: messages.Release | messages.Delta, use: Any) -> Case:
    return {
        "comment": comment, "valid": False, "hash": message.model.hex(),
        "bytes": encode(message).hex(), "error": error_name(use),
    }  # fmt: skip


def _halved(stored: Case) -> Case:
    """The same with zeros for all steps of odd numbers."""
    return {**stored, "values": [[0 if s % 2 else s for s in row] for row in stored["values"]]}


def _all_values(stored: Case) -> bytes:
    return common_items(stored).items.values.tobytes()


def _flipped(release: messages.Release) -> bytes:
    """The bitmap with one more bit set: the first that is not."""
    first = next(i for i in range(8) if not release.bitmap[0] >> i & 1)
    return bytes([release.bitmap[0] | 1 << first]) + release.bitmap[1:]
