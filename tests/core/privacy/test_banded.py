"""Banded noise: known coefficients, and mu against a brute force over all patterns of joining."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.plan import Privacy
from fedrap_core.privacy.accounting import charged_noise
from fedrap_core.privacy.banded import (
    inverse_series,
    optimal_coefficients,
    sum_error,
)
from fedrap_core.wire.codec import decode_value, encode_value
from tests.core.made import Matrix, quick

falling = st.lists(st.floats(0.0, 1.0), max_size=4).map(
    lambda tail: (1.0, *sorted(tail, reverse=True))
)


def charged_error(coefficients: Sequence[float], steps: int) -> float:
    """`sum_error` with the noise that makes mu the same for every strategy: what to compare."""
    return math.hypot(*coefficients) * sum_error(coefficients, steps)


def _strategy(coefficients: tuple[float, ...], steps: int) -> Matrix:
    """C, lower triangular Toeplitz: (steps, steps)."""
    matrix = np.zeros((steps, steps))
    for lag, one in enumerate(coefficients[:steps]):
        matrix += one * np.eye(steps, k=-lag)
    return matrix


def _largest_change(matrix: Matrix, separation: int, cap: int) -> float:
    """Brute force: the largest |C x| over all allowed patterns, every x_t of norm 1.

    In many dimensions the x_t may point anywhere; the squared norm of the change is
    sum_{s,t} <C_s, C_t><x_s, x_t>, largest where the signs of the x_t follow those of C'C.
    """
    steps, gram = len(matrix), matrix.T @ matrix
    worst = 0.0
    for size in range(1, cap + 1):
        for joined in itertools.combinations(range(steps), size):
            if any(b - a < separation for a, b in itertools.pairwise(joined)):
                continue
            worst = max(worst, float(np.abs(gram[np.ix_(joined, joined)]).sum()))
    return math.sqrt(worst)


@quick
@given(falling, st.integers(0, 3), st.integers(1, 4))
def test_mu_is_that_of_the_worst_pattern_of_joining(
    coefficients: tuple[float, ...], more: int, cap: int
) -> None:
    """No pattern that b and K allow changes the mechanism by more than is charged; one does."""
    separation = len(coefficients) + more
    steps = separation * (cap - 1) + len(coefficients)  # room for K whole columns
    steps = min(steps, 14)
    brute = _largest_change(_strategy(coefficients, steps), separation, cap)
    charged = math.sqrt(cap) / charged_noise(1.0, coefficients, None)
    assert brute <= charged * (1 + 1e-9)
    if steps == separation * (cap - 1) + len(coefficients):
        assert brute == pytest.approx(charged, rel=1e-9)


def test_one_step_less_of_separation_costs_more_than_is_charged() -> None:
    """Why a plan with more bands than b is refused."""
    coefficients = (1.0, 0.7, 0.6)
    charged = math.sqrt(3) / charged_noise(1.0, coefficients, None)
    assert _largest_change(_strategy(coefficients, 9), 2, 3) > 1.1 * charged


@quick
@given(falling, st.integers(1, 30))
def test_the_series_is_the_first_column_of_the_inverse(
    coefficients: tuple[float, ...], steps: int
) -> None:
    inverse = np.linalg.inv(_strategy(coefficients, steps))
    series = inverse_series(coefficients, steps)
    assert np.allclose(series, inverse[:, 0], atol=1e-9)
    spread = np.tri(steps) @ inverse
    assert sum_error(coefficients, steps) == pytest.approx(
        math.sqrt(np.sum(spread**2) / steps), rel=1e-9
    )


@pytest.mark.parametrize(
    ("bands", "first"),
    [
        (2, (1.0, 0.761)),
        (4, (1.0, 0.707, 0.607, 0.525)),
        (10, (1.0, 0.592, 0.487, 0.430, 0.392)),
    ],
)
def test_the_best_coefficients_for_a_hundred_steps_are_known(
    bands: int, first: tuple[float, ...]
) -> None:
    found = optimal_coefficients(bands, 100)
    assert len(found) == bands
    assert found[: len(first)] == pytest.approx(first, abs=7e-4)


@pytest.mark.parametrize(
    ("bands", "ratio"), [(2, 0.73), (4, 0.55), (8, 0.44), (10, 0.42), (25, 0.35), (100, 0.33)]
)
def test_banded_noise_hurts_less_than_independent_noise_by_a_known_ratio(
    bands: int, ratio: float
) -> None:
    best = charged_error(optimal_coefficients(bands, 100), 100)
    assert best / charged_error((1.0,), 100) == pytest.approx(ratio, abs=0.006)


@quick
@given(st.integers(2, 12), st.integers(12, 60), st.integers(0, 2**32 - 1))
def test_nothing_near_the_best_coefficients_is_better(bands: int, steps: int, seed: int) -> None:
    best = optimal_coefficients(bands, steps)
    shift = np.random.default_rng(seed).normal(0, 0.02, bands - 1)
    near = (1.0, *(np.array(best[1:]) + shift).tolist())
    assert charged_error(best, steps) <= charged_error(near, steps) * (1 + 1e-6)
    assert list(best) == sorted(best, reverse=True)
    assert min(best) >= 0


@pytest.mark.parametrize("bands", [0, 7])
def test_no_coefficients_for_no_bands_or_for_more_than_steps(bands: int) -> None:
    with pytest.raises(ValueError, match="bands"):
        optimal_coefficients(bands, 6)


@pytest.mark.parametrize(
    ("coefficients", "separation", "word"),
    [
        ((1.0, 0.7, 0.6), 2, "more coefficients"),
        ((0.9,), 2, "start with 1"),
        ((1.0, 0.5, 0.6), 3, "rise"),
    ],
)
@pytest.mark.spec("5.5")
def test_a_policy_whose_noise_breaks_its_claim_is_no_policy(
    coefficients: tuple[float, ...], separation: int, word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        Privacy(coefficients=coefficients, separation=separation)
    tree = {"coefficients": list(coefficients), "separation": separation}
    with pytest.raises(msgspec.ValidationError, match=word):
        msgspec.convert(tree, Privacy)


def test_as_many_bands_as_steps_of_separation_are_a_policy() -> None:
    rule = Privacy(coefficients=(1.0, 0.7, 0.6), separation=3)
    assert decode_value(Privacy, encode_value(rule)) == rule
