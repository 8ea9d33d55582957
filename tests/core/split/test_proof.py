"""The proof: whole for what is true, and refused for everything else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_core.split.field import from_signed, reduce, sub
from fedrap_core.split.proof import (
    BASE,
    PROOFS,
    Circuit,
    R,
    decide,
    prove,
    query,
    slack_digits,
)
from fedrap_core.split.xof import field_numbers, kdf16

JOINT, SECRET, SEED = b"j" * 16, b"v" * 16, b"s" * 16
CIRCUIT = Circuit(numbers=40, limit=5000)


def verdict(
    numbers: np.ndarray, extra: np.ndarray, circuit: Circuit = CIRCUIT, spoil: int | None = None
) -> bool:
    """Prove, split into two shares, ask both servers and decide; `spoil` adds 1 to a proof word."""
    x, last = from_signed(numbers), from_signed(extra)
    proofs = prove(circuit, x, last, JOINT, SEED)
    if spoil is not None:
        proofs = proofs.copy()
        proofs[spoil] = (int(proofs[spoil]) + 1) % (2**31 - 1)
    masks = [field_numbers(kdf16(b"mask", bytes([i])), len(v)) for i, v in enumerate((x, last))]
    mask = field_numbers(kdf16(b"mask of proofs"), len(proofs))
    first = [reduce(sub(v, m)) for v, m in zip((x, last), masks, strict=True)]
    leader = query(circuit, True, first[0], first[1], reduce(sub(proofs, mask)), JOINT, SECRET)
    helper = query(circuit, False, masks[0], masks[1], mask, JOINT, SECRET)
    return decide(circuit, leader, helper, JOINT)


def honest(circuit: Circuit, numbers: np.ndarray, fits: int = R) -> np.ndarray:
    return np.append(slack_digits(circuit, int(np.sum(numbers**2))), fits)


@settings(max_examples=20)
@given(
    st.lists(st.integers(-R, R), min_size=1, max_size=60),
    st.sampled_from([-R, 0, R]),
    st.integers(0, 3000),
)
def test_what_is_small_passes(values: list[int], fits: int, more: int) -> None:
    numbers = np.array(values)
    circuit = Circuit(len(values), int(np.sum(numbers**2)) + more)
    assert verdict(numbers, honest(circuit, numbers, fits), circuit)


@pytest.mark.parametrize("value", [R + 1, -R - 1, 40, 2**20, -(2**29)])
def test_a_number_that_is_too_large_is_refused(value: int) -> None:
    numbers = np.zeros(40, np.int64)
    numbers[7] = value
    extra = np.append(slack_digits(CIRCUIT, min(value**2, 5000)), 0)
    assert not verdict(numbers, extra)


def test_many_numbers_that_are_too_long_together_are_refused() -> None:
    numbers = np.full(40, 12)  # 5,760 > 5,000
    for claimed in (0, 4999, 5000):
        assert not verdict(numbers, np.append(slack_digits(CIRCUIT, claimed), 0))
    # a digit out of range makes up for the slack that is missing
    digits = slack_digits(CIRCUIT, 5000)
    digits[0] -= 760
    assert not verdict(numbers, np.append(digits, 0))


def test_a_slack_that_is_not_the_rest_is_refused() -> None:
    numbers = np.zeros(40, np.int64)
    digits = slack_digits(CIRCUIT, 0)
    digits[0] += 1 if digits[0] < R else -1
    assert not verdict(numbers, np.append(digits, 0))


@pytest.mark.parametrize("fits", [R + 1, -R - 1, 1000])
def test_a_clipping_number_out_of_range_is_refused(fits: int) -> None:
    numbers = np.zeros(40, np.int64)
    assert not verdict(numbers, honest(CIRCUIT, numbers, fits))


def test_any_changed_word_of_a_proof_is_refused() -> None:
    numbers = np.arange(40) % 11 - 5
    extra = honest(CIRCUIT, numbers)
    assert verdict(numbers, extra)
    words = PROOFS * CIRCUIT.proof_words
    for spoil in (0, 1, words // 4, words // 2 - 1, words // 2, words - 1):
        assert not verdict(numbers, extra, spoil=spoil)


def test_digits_are_those_of_the_slack() -> None:
    for squares in (0, 1, 62, 63, 4999, 5000):
        digits = slack_digits(CIRCUIT, squares)
        assert (abs(digits) <= R).all()
        assert sum((int(d) + R) * BASE**j for j, d in enumerate(digits)) == 5000 - squares


def test_what_a_server_shows_does_not_tell_the_numbers() -> None:
    """A share of the query is the same function of random words, whatever the numbers are."""
    words = field_numbers(b"k" * 16, PROOFS * CIRCUIT.proof_words)
    mask = field_numbers(b"m" * 16, 40), field_numbers(b"n" * 16, CIRCUIT.extra)
    shown = query(CIRCUIT, False, *mask, words, JOINT, SECRET)
    assert len(shown) == PROOFS * CIRCUIT.verifier_words
    assert len(set(shown.tolist())) > len(shown) - 3
