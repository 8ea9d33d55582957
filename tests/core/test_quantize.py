"""float32 rows <-> int8 rows: how exact, how unbiased, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import NotFinite
from fedrap_core.quantize import STEPS, quantize_rows
from tests.core.made import Matrix, quick, seeds

widths = st.floats(1e-30, 1e29)


def _matrix(seed: int, spread: float) -> Matrix:
    rng = np.random.default_rng(seed)
    rows = rng.normal(0.0, 1.0, size=(4, 6)) * spread
    return np.asarray(rows, dtype=np.float32).astype(np.float64)


@quick
@given(seeds, widths)
def test_rounding_to_the_nearest_is_off_by_at_most_half_a_step(seed: int, spread: float) -> None:
    rows = _matrix(seed, spread)
    quantized = quantize_rows(rows)
    error = np.abs(quantized.values * quantized.scales.astype(np.float64)[:, None] - rows)
    assert np.all(error <= 0.5001 * quantized.scales[:, None])


@quick
@given(seeds, widths)
def test_random_rounding_is_off_by_less_than_a_step(seed: int, spread: float) -> None:
    rows = _matrix(seed, spread)
    quantized = quantize_rows(rows, np.random.default_rng(seed + 1).random(rows.shape))
    error = np.abs(quantized.values * quantized.scales.astype(np.float64)[:, None] - rows)
    assert np.all(error < 1.0001 * quantized.scales[:, None])


@quick
@given(seeds)
def test_random_rounding_picks_one_of_the_two_neighbours(seed: int) -> None:
    rows = _matrix(seed, 1.0)
    uniform = np.random.default_rng(seed + 1).random(rows.shape)
    quantized = quantize_rows(rows, uniform)
    steps = np.clip(rows / quantized.scales.astype(np.float64)[:, None], -STEPS, STEPS)
    assert np.all(np.floor(steps) <= quantized.values)
    assert np.all(quantized.values <= np.ceil(steps))


@pytest.mark.spec("6.2")
def test_random_rounding_is_unbiased() -> None:
    rng = np.random.default_rng(5)
    row = np.array([[1.0, 0.3, -0.3, 0.001, -0.777, 0.0]], dtype=np.float32)
    draws = 20_000
    many = quantize_rows(np.repeat(row, draws, axis=0), rng.random((draws, 6)))
    mean = many.to_float().astype(np.float64).mean(axis=0)
    step = 1.0 / STEPS
    assert np.all(np.abs(mean - row[0]) < 5 * 0.5 * step / np.sqrt(draws))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [(0.5, 0), (1.5, 2), (2.5, 2), (3.5, 4), (-0.5, 0), (-1.5, -2), (-2.5, -2), (126.5, 126)],
)
@pytest.mark.spec("6.2")
def test_halves_go_to_the_even_neighbour(steps: float, expected: int) -> None:
    quantized = quantize_rows(np.array([[127.0, steps]]))
    assert quantized.scales[0] == 1.0
    assert quantized.values[0].tolist() == [127, expected]


@pytest.mark.spec("6.1")
def test_the_largest_entry_of_a_row_has_127_steps_either_way() -> None:
    quantized = quantize_rows(np.array([[0.1, -0.3], [0.3, -0.1]]))
    assert quantized.values[0, 1] == -STEPS
    assert quantized.values[1, 0] == STEPS
    assert quantized.shape == (2, 2)


@pytest.mark.parametrize(("sign", "uniform"), [(-1.0, 0.0), (1.0, 1.0 - 2.0**-53)])
def test_the_largest_entry_never_leaves_the_127_steps(sign: float, uniform: float) -> None:
    """A scale that float32 rounded down makes it 127.000004 steps, and int8 would wrap."""
    peaks = sign * np.linspace(0.1, 1.0, 1000)[:, None]
    quantized = quantize_rows(peaks, np.full(peaks.shape, uniform))
    assert set(quantized.values.ravel().tolist()) <= {int(sign) * 127, int(sign) * 126}


@quick
@given(seeds)
def test_a_row_and_its_negative_quantise_alike(seed: int) -> None:
    rows = _matrix(seed, 1.0)
    there, back = quantize_rows(rows), quantize_rows(-rows)
    assert np.array_equal(there.values, -back.values)
    assert np.array_equal(there.scales, back.scales)


@quick
@given(seeds)
def test_quantising_what_was_quantised_changes_no_step(seed: int) -> None:
    once = quantize_rows(_matrix(seed, 1.0))
    twice = quantize_rows(once.to_float())
    assert np.array_equal(once.values, twice.values)


@pytest.mark.parametrize("peak", [0.0, -0.0, 5e-324, 1e-60, 1e-45, 1e-40, 127 * 2.0**-127])
def test_a_row_of_zeros_or_too_small_for_a_scale_becomes_zeros(peak: float) -> None:
    quantized = quantize_rows(np.array([[peak, -peak, 0.0]]))
    assert quantized.scales.tolist() == [0.0]
    assert not quantized.to_float().any()
    rounded = quantize_rows(np.array([[peak, -peak, 0.0]]), np.full((1, 3), 0.999))
    assert not rounded.values.any()


@pytest.mark.spec("6.1")
def test_the_smallest_scale_is_the_smallest_normal_float32() -> None:
    quantized = quantize_rows(np.array([[127 * 2.0**-126, -63 * 2.0**-126]]))
    assert quantized.scales.tolist() == [2.0**-126]
    assert quantized.values.tolist() == [[127, -63]]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.1e30, -1.1e30, 1e39, 1e308])
def test_a_row_that_is_not_finite_or_huge_is_refused(value: float) -> None:
    with pytest.raises(NotFinite):
        quantize_rows(np.array([[1.0, 2.0], [0.5, value]]))


def test_a_large_row_that_is_allowed_comes_back() -> None:
    back = quantize_rows(np.array([[1e30, -1e30]])).to_float()
    assert np.allclose(back, [[1e30, -1e30]], rtol=1e-6)


def test_matrices_without_rows_or_columns_stay_empty() -> None:
    assert quantize_rows(np.zeros((0, 3))).shape == (0, 3)
    assert quantize_rows(np.zeros((2, 0))).shape == (2, 0)
    assert quantize_rows(np.zeros((2, 0))).scales.tolist() == [0.0, 0.0]


def test_taking_rows_gives_the_same_numbers_as_the_whole() -> None:
    quantized = quantize_rows(_matrix(3, 1.0))
    chosen = np.array([3, 0, 3])
    assert np.array_equal(quantized.take(chosen), quantized.to_float()[chosen])
    assert quantized.take(chosen).dtype == np.float32
