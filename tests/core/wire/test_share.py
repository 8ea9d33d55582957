"""A share as padded plaintext: what survives, what it weighs, and what damage does."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import MalformedMessage, NotFinite, TooLarge, UnsupportedVersion, WrongShape
from fedrap_core.plan import OFF
from fedrap_core.quantize import STEPS
from fedrap_core.sparse import RowUpdate, bucket_bytes, packed_size
from fedrap_core.wire.codec import MAX_BYTES, encode
from fedrap_core.wire.messages import OfferRequest, Share
from fedrap_core.wire.share import (
    check_share,
    decode_share,
    encode_share,
    folded_rows,
    pad,
    uniform_count,
)
from tests.core.made import quick, random_update, seeds

DOCUMENTED = (MalformedMessage, UnsupportedVersion, TooLarge, WrongShape)
dims = st.integers(1, 9)


def _encoded(update: RowUpdate, seed: int) -> bytes:
    return encode_share(update, np.random.default_rng(seed).random(uniform_count(update)))


def _framed(share: Share) -> bytes:
    body = encode(share)
    return pad(body)


@quick
@given(seeds, dims, st.integers(0, 20))
def test_a_share_comes_back_within_one_step_of_the_quantiser(
    seed: int, dim: int, count: int
) -> None:
    update = random_update(np.random.default_rng(seed), dim=dim, count=count)
    back = decode_share(_encoded(update, seed + 1), dim)
    assert np.array_equal(back.rows, update.rows)
    step = np.abs(update.values).max(axis=1, keepdims=True, initial=0.0) / STEPS
    assert np.all(np.abs(back.values - update.values) <= 1.0001 * step)
    step = np.abs(update.packed_gram).max() / STEPS
    assert back.packed_gram.shape == (packed_size(dim),)
    assert np.all(np.abs(back.packed_gram - update.packed_gram) <= 1.0001 * step)
    back.check(20, dim)


@quick
@given(dims)
def test_the_folded_triangle_has_room_for_all_and_no_row_to_spare(dim: int) -> None:
    assert folded_rows(dim) * dim >= packed_size(dim) > (folded_rows(dim) - 1) * dim


@quick
@given(seeds, dims, st.integers(0, 60))
def test_the_length_of_a_share_is_always_a_bucket(seed: int, dim: int, count: int) -> None:
    update = random_update(np.random.default_rng(seed), size=100, dim=dim, count=count)
    raw = _encoded(update, seed)
    assert len(raw) == bucket_bytes(len(raw))


def test_the_padding_is_zeros() -> None:
    raw = _encoded(random_update(np.random.default_rng(1)), 1)
    (length,) = struct.unpack_from("<I", raw)
    assert not any(raw[4 + length :])


def test_short_histories_of_different_lengths_look_alike() -> None:
    rng = np.random.default_rng(2)
    sizes = {len(_encoded(random_update(rng, count=count), count)) for count in (0, 1, 5, 15)}
    assert sizes == {512}


@quick
@given(seeds, st.data())
def test_a_share_cut_short_raises_only_documented_errors(seed: int, data: st.DataObject) -> None:
    raw = _encoded(random_update(np.random.default_rng(seed)), seed)
    (length,) = struct.unpack_from("<I", raw)
    with pytest.raises(MalformedMessage):
        decode_share(raw[: data.draw(st.integers(0, 3 + length))], 4)
    with pytest.raises(MalformedMessage):  # all of it is there, but not its padding
        decode_share(raw[: 4 + length], 4)


@quick
@given(seeds, st.data())
def test_a_damaged_share_is_refused_or_still_a_share(seed: int, data: st.DataObject) -> None:
    raw = bytearray(_encoded(random_update(np.random.default_rng(seed)), seed))
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=8)):
        raw[place] = data.draw(st.integers(0, 255))
    try:
        update = decode_share(bytes(raw), 4)
    except DOCUMENTED:
        return
    assert update.values.shape == (len(update.rows), 4)


@quick
@given(st.binary(max_size=300), dims)
def test_arbitrary_bytes_raise_only_documented_errors(raw: bytes, dim: int) -> None:
    with pytest.raises(DOCUMENTED):
        decode_share(raw, dim)


def test_a_length_of_more_than_there_is_is_malformed_even_around_a_whole_share() -> None:
    body = encode(_share())
    with pytest.raises(MalformedMessage):
        decode_share(struct.pack("<I", len(body) + 1) + body, 2)


def test_another_message_in_place_of_a_share_is_refused() -> None:
    body = encode(OfferRequest(release=1))
    with pytest.raises(UnsupportedVersion):
        decode_share(pad(body), 4)


def test_a_share_beyond_the_limit_of_messages_is_too_large() -> None:
    with pytest.raises(TooLarge):
        decode_share(pad(bytes(MAX_BYTES + 1)), 4)


def _share(**changed: bytes) -> Share:
    fields = {
        "rows": struct.pack("<II", 1, 4),
        "scales": struct.pack("<ff", 0.5, 0.25),
        "values": bytes(4),
        "triangle_scales": struct.pack("<ff", 1.0, 1.0),
        "triangle": bytes(4),
    }
    return Share(**{**fields, **changed}, fits=0, parts=OFF)


def test_the_share_of_the_cases_below_is_fine_as_it_is() -> None:
    assert decode_share(_framed(_share()), 2).rows.tolist() == [1, 4]


@pytest.mark.parametrize(
    "share",
    [
        _share(scales=struct.pack("<f", 0.5)),
        _share(scales=bytes(9)),
        _share(values=bytes(5)),
        _share(rows=struct.pack("<I", 1)),
        _share(triangle=bytes(6)),
        _share(triangle_scales=b""),
    ],
)
def test_arrays_that_do_not_fit_each_other_have_the_wrong_shape(share: Share) -> None:
    with pytest.raises(WrongShape):
        decode_share(_framed(share), 2)
    with pytest.raises(WrongShape):
        decode_share(_framed(_share()), 3)


def test_rows_that_end_in_the_middle_of_a_number_are_malformed() -> None:
    with pytest.raises(MalformedMessage):
        decode_share(_framed(_share(rows=bytes(7))), 2)


@pytest.mark.parametrize("scale", [np.inf, -np.inf, np.nan, 3e38])
def test_scales_that_are_not_finite_are_refused_by_the_check(scale: float) -> None:
    steps = np.array([127, -128, 0, 1], dtype=np.int8).tobytes()
    in_rows = _share(scales=struct.pack("<ff", 0.5, scale), values=steps)
    in_triangle = _share(triangle_scales=struct.pack("<ff", scale, 1.0), triangle=steps)
    for share in (in_rows, in_triangle):
        update = decode_share(_framed(share), 2)
        with pytest.raises(NotFinite):
            update.check(10, 2)


def test_an_update_that_cannot_be_quantised_is_refused_before_it_leaves() -> None:
    update = RowUpdate(np.array([0]), np.array([[np.nan, 0.0]]), np.zeros(3))
    with pytest.raises(NotFinite):
        encode_share(update, np.zeros(uniform_count(update)))


def _verdict(raw: bytes, size: int, dim: int) -> type[Exception] | None:
    """What unpacking everything and looking at each number says."""
    try:
        decode_share(raw, dim).check(size, dim)
    except (*DOCUMENTED, NotFinite) as error:
        return type(error)
    return None


@quick
@given(
    st.lists(st.integers(0, 12), max_size=4),
    st.lists(st.one_of(st.floats(width=32), st.just(4e6), st.just(8.5e6)), min_size=4, max_size=4),
    st.binary(min_size=8, max_size=8),
)
def test_a_packed_share_is_judged_as_its_numbers_are(
    rows: list[int], scales: list[float], steps: bytes
) -> None:
    share = _share(
        rows=struct.pack(f"<{len(rows)}I", *rows),
        scales=struct.pack(f"<{len(rows)}f", *scales[: len(rows)]),
        values=steps[: 2 * len(rows)],
        triangle_scales=struct.pack("<ff", *scales[2:]),
        triangle=steps[4:],
    )
    raw = _framed(share)
    expected = _verdict(raw, 10, 2)
    if expected is None:
        check_share(raw, 10, 2)
    else:
        with pytest.raises(expected):
            check_share(raw, 10, 2)
