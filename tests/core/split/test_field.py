"""Arithmetic modulo 2^31 - 1 against Python's own integers; streams of field numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.split import field
from fedrap_core.split.field import P
from fedrap_core.split.xof import Blocks, field_numbers, kdf16, stream

numbers = st.integers(0, P)
EDGES = [0, 1, 2, P // 2, P - 1, P]


def words(values: list[int]) -> field.Words:
    return np.array(values, dtype=np.uint64)


@given(st.lists(numbers, min_size=1, max_size=20), numbers)
def test_products_and_differences_are_those_of_integers(many: list[int], one: int) -> None:
    left, right = words(many + EDGES), words([one] * (len(many) + len(EDGES)))
    assert field.reduce(field.mul(left, right)).tolist() == [x * one % P for x in left.tolist()]
    assert field.reduce(field.sub(left, right)).tolist() == [(x - one) % P for x in left.tolist()]
    assert (field.mul(left, right) <= P).all()
    assert (field.sub(left, right) <= P).all()


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(0, 100))
def test_a_matrix_product_is_that_of_integers(a: int, b: int, c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = rng.integers(0, P, (a, b), dtype=np.uint64, endpoint=True)
    right = rng.integers(0, P, (b, c), dtype=np.uint64, endpoint=True)
    exact = left.astype(object) @ right.astype(object) % P
    assert (field.reduce(field.product(left, right)) == exact).all()


@given(st.lists(st.integers(-(P // 2), P // 2)))
def test_signed_numbers_come_back(many: list[int]) -> None:
    assert field.to_signed(field.from_signed(many)).tolist() == many


@given(numbers, st.integers(1, 40))
def test_powers(base: int, count: int) -> None:
    assert field.powers(base, count).tolist() == [pow(base, n, P) for n in range(count)]


@given(st.lists(st.integers(1, P - 1), min_size=1, max_size=10))
def test_inverses(many: list[int]) -> None:
    assert [x * y % P for x, y in zip(many, field.inverses(many), strict=True)] == [1] * len(many)


def test_zero_has_no_inverse() -> None:
    with pytest.raises(ZeroDivisionError):
        field.inverse(P)


@given(st.lists(numbers, min_size=1, max_size=8), numbers)
def test_lagrange_weights_evaluate_a_polynomial(coefficients: list[int], point: int) -> None:
    def value(x: int) -> int:
        return sum(c * pow(x, n, P) for n, c in enumerate(coefficients)) % P

    count = len(coefficients) + 1
    weights = field.lagrange(count, [point])[0].tolist()
    assert sum(w * value(i) for i, w in enumerate(weights)) % P == value(point)


def test_streams_follow_from_their_key_and_skip_p() -> None:
    key = kdf16(b"a label", b"part", b"another")
    assert kdf16(b"a label", b"par", b"tanother") != key  # a part has its length
    assert stream(key, 40) == stream(key, 80)[:40]
    found = field_numbers(key, 1000)
    assert (found < P).all()
    assert (found[:10] == field_numbers(key, 10)).all()


def test_blocks_are_the_fixed_key_construction() -> None:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key, seed = bytes(range(16)), bytes(range(16, 32))
    made = Blocks(key).expand(np.frombuffer(seed, "<u8").reshape(1, 2), 3)
    for number in range(3):
        mixed = int.from_bytes(seed, "little") ^ number
        low, high = mixed & (1 << 64) - 1, mixed >> 64
        sigma = (high | (high ^ low) << 64).to_bytes(16, "little")
        hashed = Cipher(algorithms.AES128(key), modes.ECB()).encryptor().update(sigma)
        exact = bytes(a ^ b for a, b in zip(hashed, sigma, strict=True))
        assert made[0, number].tobytes() == exact
