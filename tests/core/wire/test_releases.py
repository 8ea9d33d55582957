"""A release of C as a message: its hash names its numbers, and nothing else is used."""

from __future__ import annotations

import hashlib
import struct

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import BrokenModel
from fedrap_core.model import CommonItems
from fedrap_core.plan import Scoring
from fedrap_core.quantize import QuantizedRows, quantize_rows
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import (
    MAX_RELEASE_BYTES,
    model_hash,
    pack_release,
    served_rows,
    unpack_release,
)
from tests.core.made import quick, random_items, scaled_items, seeds

TASK = b"t" * 16


def _release(seed: int = 1, size: int = 6, dim: int = 3) -> Release:
    common = random_items(np.random.default_rng(seed), size=size, dim=dim)
    return pack_release(TASK, 4, common, 1, Scoring())


@quick
@given(seeds, st.integers(0, 12), st.integers(1, 6))
def test_a_release_comes_back_bit_for_bit(seed: int, size: int, dim: int) -> None:
    common = CommonItems(9, random_items(np.random.default_rng(seed), size=size, dim=dim).items)
    sent = encode(pack_release(TASK, 4, common, 1, Scoring(tau=2.5)))
    release = decode(Release, sent, MAX_RELEASE_BYTES)
    back = unpack_release(release)
    assert (back.version, release.step, release.scoring) == (9, 4, Scoring(tau=2.5))
    assert np.array_equal(back.items.values, common.items.values)
    assert np.array_equal(back.items.scales, common.items.scales)
    assert model_hash(back.items) == release.model


def test_the_hash_is_over_shape_scales_and_values_in_little_endian() -> None:
    items = scaled_items([[1, -2], [3, 4]], [0.5, 2.0]).items
    parts = b"fedrap/1 model" + struct.pack("<IIff", 2, 2, 0.5, 2.0) + b"\x01\xfe\x03\x04"
    assert model_hash(items) == hashlib.sha256(parts).digest()


def test_the_hash_does_not_depend_on_how_the_numbers_lie_in_memory() -> None:
    values = np.arange(12, dtype=np.int8).reshape(3, 4)
    scales = np.ones(3, dtype=np.float32)
    plain = model_hash(QuantizedRows(values, scales))
    assert model_hash(QuantizedRows(np.asfortranarray(values), scales)) == plain
    assert model_hash(QuantizedRows(values, scales.astype(">f4"))) == plain


def test_another_shape_of_the_same_bytes_has_another_hash() -> None:
    wide, tall = np.zeros((2, 6), dtype=np.int8), np.zeros((2, 6), dtype=np.int8).reshape(4, 3)
    scales = np.zeros(2, dtype=np.float32)
    assert model_hash(QuantizedRows(wide, scales)) != model_hash(QuantizedRows(tall, scales))


@quick
@given(st.sampled_from(["scales", "bitmap", "values", "model"]), st.data())
def test_numbers_that_do_not_have_the_stated_hash_break_a_model(
    field: str, data: st.DataObject
) -> None:
    release = _release()
    raw = bytearray(getattr(release, field))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BrokenModel):
        unpack_release(msgspec.structs.replace(release, **{field: bytes(raw)}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", 5),
        ("size", 7),
        ("size", 0),
        ("dim", 2),
        ("dim", 4),
        ("size", 2**31),
        ("scales", b""),
        ("bitmap", b""),
        ("bitmap", b"\xff\xff\x03\x00"),
        ("values", b""),
    ],
)
def test_arrays_of_another_size_than_stated_break_a_model(field: str, value: int | bytes) -> None:
    with pytest.raises(BrokenModel):
        unpack_release(msgspec.structs.replace(_release(), **{field: value}))


def test_a_transposed_release_breaks_a_model() -> None:
    """Same number of values, other shape: the hash covers the shape."""
    release = _release(size=3, dim=3)
    items = QuantizedRows(np.zeros((3, 3), dtype=np.int8), np.ones(3, dtype=np.float32))
    with pytest.raises(BrokenModel):
        unpack_release(msgspec.structs.replace(release, model=model_hash(items)))


@pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0, 2e4])
def test_a_release_with_an_honest_hash_and_hostile_scales_breaks_a_model(scale: float) -> None:
    items = QuantizedRows(np.ones((1, 3), dtype=np.int8), np.array([scale], dtype=np.float32))
    hostile = msgspec.structs.replace(
        _release(size=1),
        scales=items.scales.tobytes(),
        bitmap=b"\x07",
        values=items.values.tobytes(),
        model=model_hash(items),
    )
    with pytest.raises(BrokenModel):
        unpack_release(hostile)


@pytest.mark.spec("7.18")
@quick
@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_withheld_rows_arrive_and_none_take_no_bytes(rows: list[bool]) -> None:
    withheld = np.array(rows)
    common = CommonItems(7, quantize_rows(np.ones((len(rows), 3))))
    message = decode(Release, encode(pack_release(TASK, 4, common, 1, Scoring(), 0.0, withheld)))
    assert np.array_equal(served_rows(message.withheld, len(rows)), ~withheld)
    assert len(message.withheld) == (-(-len(rows) // 8) if withheld.any() else 0)
    unpack_release(message)


@pytest.mark.spec("7.18")
@pytest.mark.parametrize("withheld", [b"\0\0", b"\0" * 1000])
def test_bits_for_another_number_of_rows_break_a_model(withheld: bytes) -> None:
    with pytest.raises(BrokenModel, match="withholds"):
        unpack_release(msgspec.structs.replace(_release(), withheld=withheld))


def test_a_release_of_a_coordinator_that_withholds_nothing_is_read() -> None:
    fields = msgpack.unpackb(encode(_release()))
    del fields["withheld"]
    assert decode(Release, msgpack.packb(fields)) == _release()
