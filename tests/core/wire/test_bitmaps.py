"""Rows as a bitmap and the entries that are not zero: back bit for bit, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrap_core.errors import BrokenModel
from fedrap_core.wire import releases
from fedrap_core.wire.releases import Values, pack_entries, unpack_entries
from tests.core.made import quick

shapes = st.tuples(st.integers(0, 9), st.integers(1, 9))
matrices = shapes.flatmap(
    lambda shape: arrays(np.int8, shape, elements=st.just(0) | st.integers(-127, 127))
)


@pytest.mark.spec("6.3")
@quick
@given(matrices)
def test_rows_come_back_bit_for_bit_and_zeros_cost_a_bit(matrix: Values) -> None:
    bitmap, values = pack_entries(matrix)
    assert np.array_equal(unpack_entries(bitmap, values, *matrix.shape), matrix)
    assert len(bitmap) == -(-matrix.size // 8)
    assert len(values) == np.count_nonzero(matrix)


@pytest.mark.spec("6.3")
def test_bits_run_from_the_lowest_and_rows_follow_each_other() -> None:
    matrix = np.array([[0, 5, 0, -1, 0], [0, 0, 0, 127, 0]], dtype=np.int8)
    assert pack_entries(matrix) == (bytes([0b00001010, 0b00000001]), b"\x05\xff\x7f")
    assert pack_entries(np.asfortranarray(matrix)) == pack_entries(matrix)


@pytest.mark.spec("6.3")
@quick
@given(matrices, st.data())
def test_every_other_bitmap_or_number_of_values_is_refused(
    matrix: Values, data: st.DataObject
) -> None:
    """A flipped bit, a byte more or less, a value more or less, a value of zero."""
    bitmap, values = pack_entries(matrix)
    broken = [(bitmap + b"\0", values), (bitmap, values + b"\1")]
    if bitmap:
        place = data.draw(st.integers(0, 8 * len(bitmap) - 1))
        raw = bytearray(bitmap)
        raw[place // 8] ^= 1 << place % 8
        broken += [(bytes(raw), values), (bitmap[:-1], values)]
    if values:
        place = data.draw(st.integers(0, len(values) - 1))
        zero = values[:place] + b"\0" + values[place + 1 :]
        broken += [(bitmap, values[:-1]), (bitmap, zero)]
    for one in broken:
        with pytest.raises(BrokenModel):
            unpack_entries(*one, *matrix.shape)


@quick
@given(st.binary(max_size=20), st.binary(max_size=40), st.integers(0, 2**31), st.integers(1, 256))
def test_hostile_bytes_give_rows_of_the_stated_shape_or_are_refused(
    bitmap: bytes, values: bytes, rows: int, dim: int
) -> None:
    try:
        made = unpack_entries(bitmap, values, rows, dim)
    except BrokenModel:
        return
    assert made.shape == (rows, dim)
    assert pack_entries(made) == (bitmap, values)


def test_a_small_bitmap_cannot_claim_more_entries_than_a_release_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(releases, "MAX_ENTRIES", 63)
    assert unpack_entries(bytes(8), b"", 21, 3).shape == (21, 3)
    with pytest.raises(BrokenModel):
        unpack_entries(bytes(8), b"", 16, 4)
