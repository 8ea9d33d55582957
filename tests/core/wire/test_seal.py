"""Sealing: only the holder of the key opens it, and only in the context it was made for."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import MalformedMessage
from fedrap_core.wire.keys import (
    new_private_key,
    private_from_bytes,
    private_to_bytes,
    public_from_point,
    public_point,
)
from fedrap_core.wire.messages import Offer, Update
from fedrap_core.wire.seal import open_update, seal_context, seal_id, seal_update
from tests.core.made import quick

PRIVATE = private_from_bytes(bytes(range(1, 33)))
DEVICE = bytes(range(16))
OFFER = Offer(
    task=b"t" * 16,
    round=b"r" * 16,
    step=7,
    plan=b"the plan's bytes",
    release=6,
    model=b"m" * 32,
    seal_key=public_point(PRIVATE.public_key()),
    seal_id=seal_id(PRIVATE.public_key()),
)
SEALED = seal_update(OFFER, DEVICE, b"a share")


@quick
@given(st.binary(max_size=2000))
def test_what_was_sealed_opens(plaintext: bytes) -> None:
    update = seal_update(OFFER, DEVICE, plaintext)
    assert open_update(update, PRIVATE) == plaintext
    assert len(update.sealed) == len(plaintext) + 65 + 16  # encapsulated point and tag


def test_an_update_names_its_context_in_clear() -> None:
    assert (SEALED.task, SEALED.round, SEALED.step) == (OFFER.task, OFFER.round, OFFER.step)
    assert (SEALED.model, SEALED.device, SEALED.seal_id) == (OFFER.model, DEVICE, OFFER.seal_id)
    assert SEALED.plan == hashlib.sha256(OFFER.plan).digest()


def test_sealing_twice_gives_different_bytes() -> None:
    assert seal_update(OFFER, DEVICE, b"a share").sealed != SEALED.sealed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task", b"T" * 16),
        ("round", b"R" * 16),
        ("step", 8),
        ("model", b"M" * 32),
        ("plan", hashlib.sha256(b"another plan").digest()),
        ("device", bytes(16)),
        ("seal_id", bytes(8)),
    ],
)
def test_any_changed_field_of_the_context_keeps_it_shut(field: str, value: bytes | int) -> None:
    with pytest.raises(MalformedMessage):
        open_update(msgspec.structs.replace(SEALED, **{field: value}), PRIVATE)


def test_every_field_but_the_sealed_one_is_bound() -> None:
    bound = {"task", "round", "step", "model", "plan", "device", "seal_id"}
    assert set(Update.__struct_fields__) - {"sealed"} == bound


def test_another_key_does_not_open_it() -> None:
    with pytest.raises(MalformedMessage):
        open_update(SEALED, new_private_key())


@quick
@given(st.integers(0, 8 * len(SEALED.sealed) - 1))
def test_a_single_flipped_bit_keeps_it_shut(bit: int) -> None:
    damaged = bytearray(SEALED.sealed)
    damaged[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(MalformedMessage):
        open_update(msgspec.structs.replace(SEALED, sealed=bytes(damaged)), PRIVATE)


@quick
@given(st.binary(max_size=200))
def test_arbitrary_bytes_do_not_open(sealed: bytes) -> None:
    with pytest.raises(MalformedMessage):
        open_update(msgspec.structs.replace(SEALED, sealed=sealed), PRIVATE)


@quick
@given(st.integers(0, len(SEALED.sealed) - 1))
def test_a_sealed_part_cut_short_does_not_open(length: int) -> None:
    with pytest.raises(MalformedMessage):
        open_update(msgspec.structs.replace(SEALED, sealed=SEALED.sealed[:length]), PRIVATE)


fields = st.tuples(*[st.binary(max_size=3)] * 6, st.integers(0, 2**31))


@quick
@given(fields, fields)
def test_no_two_contexts_give_the_same_info(
    one: tuple[bytes, bytes, bytes, bytes, bytes, bytes, int],
    other: tuple[bytes, bytes, bytes, bytes, bytes, bytes, int],
) -> None:
    def info(f: tuple[bytes, bytes, bytes, bytes, bytes, bytes, int]) -> bytes:
        return seal_context(f[0], f[1], f[6], f[2], f[3], f[4], f[5])

    assert (info(one) == info(other)) == (one == other)


def test_the_name_of_a_key_is_the_start_of_its_hash() -> None:
    point = public_point(PRIVATE.public_key())
    assert seal_id(PRIVATE.public_key()) == hashlib.sha256(point).digest()[:8]


def test_an_offer_with_a_key_that_is_no_point_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        seal_update(msgspec.structs.replace(OFFER, seal_key=bytes(65)), DEVICE, b"")


def test_keys_come_back_from_their_bytes() -> None:
    private = new_private_key()
    again = private_from_bytes(private_to_bytes(private))
    point = public_point(again.public_key())
    assert private_to_bytes(again) == private_to_bytes(private)
    assert public_point(public_from_point(point)) == point
    assert len(point) == 65


@pytest.mark.parametrize("raw", [b"", bytes(31), bytes(33), bytes(32), b"\xff" * 32])
def test_bytes_that_are_no_scalar_of_the_curve_are_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        private_from_bytes(raw)


@quick
@given(st.binary(max_size=70) | st.binary(min_size=64, max_size=64).map(lambda xy: b"\x04" + xy))
def test_bytes_that_are_no_point_of_the_curve_are_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        public_from_point(raw)


def test_a_compressed_point_is_malformed() -> None:
    point = public_point(PRIVATE.public_key())
    with pytest.raises(MalformedMessage):
        public_from_point(bytes([2 + point[-1] % 2]) + point[1:33])
