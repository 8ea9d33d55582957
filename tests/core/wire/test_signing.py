"""Signed requests: any change breaks the signature, and no bytes crash the check."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import SignatureInvalid
from fedrap_core.wire.keys import new_private_key, private_from_bytes
from fedrap_core.wire.signing import MAX_NONCE, SIGNATURE_BYTES, sign, signed_bytes, verify
from tests.core.made import quick

PRIVATE = private_from_bytes(bytes(range(1, 33)))
PUBLIC = PRIVATE.public_key()
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
REQUEST = ("POST", "/v1/updates", b"body", bytes(range(16)), 41)
MESSAGE = signed_bytes(*REQUEST)
SIGNATURE = sign(PRIVATE, MESSAGE)

methods = st.sampled_from(["GET", "POST", "PUT", "DELETE"])
nonces = st.integers(0, MAX_NONCE)
requests = st.tuples(
    methods, st.text(max_size=30), st.binary(max_size=50), st.binary(max_size=16), nonces
)


@quick
@given(requests)
def test_what_a_device_signed_verifies(request: tuple[str, str, bytes, bytes, int]) -> None:
    message = signed_bytes(*request)
    signature = sign(PRIVATE, message)
    assert len(signature) == SIGNATURE_BYTES
    verify(PUBLIC, message, signature)


@pytest.mark.parametrize(
    "changed",
    [
        ("GET", *REQUEST[1:]),
        ("POST", "/v1/updates/", *REQUEST[2:]),
        ("POST", "/v1/updates?x=1", *REQUEST[2:]),
        (*REQUEST[:2], b"Body", *REQUEST[3:]),
        (*REQUEST[:2], b"", *REQUEST[3:]),
        (*REQUEST[:3], bytes(16), 41),
        (*REQUEST[:4], 42),
        (*REQUEST[:4], 4),
    ],
)
@pytest.mark.spec("2.1")
def test_any_change_of_the_request_breaks_the_signature(
    changed: tuple[str, str, bytes, bytes, int],
) -> None:
    with pytest.raises(SignatureInvalid):
        verify(PUBLIC, signed_bytes(*changed), SIGNATURE)


@quick
@given(requests, requests)
def test_no_two_requests_give_the_same_bytes_to_sign(
    one: tuple[str, str, bytes, bytes, int], other: tuple[str, str, bytes, bytes, int]
) -> None:
    assert (signed_bytes(*one) == signed_bytes(*other)) == (one == other)


@pytest.mark.spec("2.1")
def test_the_bytes_to_sign_are_one_line_each() -> None:
    assert MESSAGE.decode("ascii").split("\n") == [
        "fedrap/1 request",
        "POST",
        "/v1/updates",
        hashlib.sha256(b"body").hexdigest(),
        bytes(range(16)).hex(),
        "41",
    ]


def test_the_key_of_another_device_does_not_verify() -> None:
    with pytest.raises(SignatureInvalid):
        verify(new_private_key().public_key(), MESSAGE, SIGNATURE)


@quick
@given(st.integers(0, 8 * SIGNATURE_BYTES - 1))
def test_a_single_flipped_bit_breaks_the_signature(bit: int) -> None:
    damaged = bytearray(SIGNATURE)
    damaged[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(SignatureInvalid):
        verify(PUBLIC, MESSAGE, bytes(damaged))


@quick
@given(st.binary(max_size=100) | st.binary(min_size=64, max_size=64))
def test_arbitrary_bytes_are_an_invalid_signature_and_nothing_worse(raw: bytes) -> None:
    with pytest.raises(SignatureInvalid):
        verify(PUBLIC, MESSAGE, raw)


def test_the_same_numbers_in_another_length_are_an_invalid_signature() -> None:
    with pytest.raises(SignatureInvalid):
        verify(PUBLIC, MESSAGE, SIGNATURE[:32] + b"\0" + SIGNATURE[32:])


@pytest.mark.parametrize("r", [0, 1, ORDER - 1, ORDER, 2**256 - 1])
@pytest.mark.parametrize("s", [0, 1, ORDER - 1, ORDER, 2**256 - 1])
def test_numbers_at_the_edge_of_the_curve_are_an_invalid_signature(r: int, s: int) -> None:
    with pytest.raises(SignatureInvalid):
        verify(PUBLIC, MESSAGE, r.to_bytes(32, "big") + s.to_bytes(32, "big"))
