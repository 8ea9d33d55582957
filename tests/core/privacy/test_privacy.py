"""The clip, and the noise that only key and step decide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import algorithms
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.plan import Adapt, Privacy
from fedrap_core.privacy.mechanisms import (
    adapted_clip,
    clip_rows,
    clip_share,
    clip_to_norm,
    release_noise,
    task_noise_key,
)
from fedrap_core.sparse import RowUpdate
from tests.core.made import Matrix, quick, random_update, seeds

KEY = bytes(range(32))


def _distance_from_normal(values: Matrix) -> float:
    """Kolmogorov and Smirnov's largest gap between the two distribution functions."""
    expected = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in np.sort(values)])
    steps = np.arange(len(values) + 1) / len(values)
    return float(max(np.max(expected - steps[:-1]), np.max(steps[1:] - expected)))


@quick
@given(seeds, st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_a_clip_never_enlarges_and_keeps_the_direction(
    seed: int, spread: float, limit: float
) -> None:
    update = random_update(np.random.default_rng(seed), spread=spread)
    clipped = clip_to_norm(update, limit)
    factor = min(1.0, limit / update.norm())
    assert clipped.norm() <= min(limit, update.norm()) * (1 + 1e-12)
    assert np.array_equal(clipped.rows, update.rows)
    assert np.allclose(clipped.values, factor * update.values, rtol=1e-12, atol=0)
    assert np.allclose(clipped.packed_gram, factor * update.packed_gram, rtol=1e-12, atol=0)


@quick
@given(seeds)
def test_an_update_within_the_norm_is_left_as_it_is(seed: int) -> None:
    update = random_update(np.random.default_rng(seed))
    assert clip_to_norm(update, update.norm()) is update


def test_the_update_of_an_empty_history_needs_no_clip() -> None:
    nothing = RowUpdate(np.zeros(0, dtype=np.int64), np.zeros((0, 2)), np.zeros(3))
    assert clip_to_norm(nothing, 1.0) is nothing


def test_the_noise_of_a_step_is_the_same_whenever_it_is_drawn() -> None:
    assert np.array_equal(release_noise(KEY, 7, 101, 2.0), release_noise(KEY, 7, 101, 2.0))


def test_the_noise_of_a_step_is_these_numbers() -> None:
    """Known answer: a changed derivation would give a second draw for the same step."""
    noise = release_noise(KEY, 0, 3, 1.0)
    assert noise == pytest.approx(
        [-0.587632982356629, -2.4445170224144, 0.453474724780952], abs=1e-12
    )


@pytest.mark.parametrize(("key", "step"), [(KEY, 8), (KEY, 17), (bytes(32), 7), (KEY[::-1], 7)])
def test_another_step_or_key_gives_unrelated_noise(key: bytes, step: int) -> None:
    one, other = release_noise(KEY, 7, 20_000, 1.0), release_noise(key, step, 20_000, 1.0)
    assert not np.any(one == other)
    assert abs(float(np.corrcoef(one, other)[0, 1])) < 5 / np.sqrt(20_000)


@pytest.mark.parametrize("stddev", [0.01, 1.0, 300.0])
def test_the_noise_is_normal_with_the_deviation_asked_for(stddev: float) -> None:
    size = 100_000
    noise = release_noise(KEY, 3, size, stddev)
    assert abs(noise.mean()) < 5 * stddev / np.sqrt(size)
    assert noise.var() == pytest.approx(stddev**2, rel=5 * np.sqrt(2 / size))
    assert _distance_from_normal(noise / stddev) < 1.95 / np.sqrt(size)  # p = 0.001


def test_numbers_of_one_draw_are_not_related_to_each_other() -> None:
    noise = release_noise(KEY, 4, 50_000, 1.0)
    for lag in (1, 2, 25_000):  # neighbours are the two of one Box-Muller pair, or not
        related = float(np.corrcoef(noise[:-lag], noise[lag:])[0, 1])
        squares = float(np.corrcoef(noise[:-lag] ** 2, noise[lag:] ** 2)[0, 1])
        assert abs(related) < 5 / np.sqrt(25_000)
        assert abs(squares) < 5 / np.sqrt(25_000)


def test_the_block_counter_of_the_stream_starts_at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Started anywhere else it could overflow, and that step could never be released."""
    nonces: list[bytes] = []
    cipher = algorithms.ChaCha20

    def spy(key: bytes, nonce: bytes) -> algorithms.ChaCha20:
        nonces.append(nonce)
        return cipher(key, nonce)

    monkeypatch.setattr(algorithms, "ChaCha20", spy)
    for step in range(20):
        release_noise(KEY, step, 2, 1.0)
    assert {nonce[:4] for nonce in nonces} == {bytes(4)}
    assert len(set(nonces)) == 20


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_any_number_of_draws_can_be_asked_for(size: int) -> None:
    assert release_noise(KEY, 0, size, 1.0).shape == (size,)


@pytest.mark.parametrize("key", [b"", bytes(16), bytes(33)])
def test_a_key_of_another_length_is_a_mistake_of_the_caller(key: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        release_noise(key, 0, 3, 1.0)


@pytest.mark.parametrize("key", [b"", bytes(16), bytes(33)])
def test_a_task_key_of_another_length_is_refused_too(key: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        task_noise_key(key, b"t" * 16)


def test_two_tasks_under_one_key_draw_other_numbers() -> None:
    """A new database beside old keys would otherwise repeat the noise, and a difference tell."""
    one, other = (task_noise_key(KEY, task * 16) for task in (b"a", b"b"))
    assert one == task_noise_key(KEY, b"a" * 16)
    drawn, another = release_noise(one, 1, 20_000, 1.0), release_noise(other, 1, 20_000, 1.0)
    assert abs(float(np.corrcoef(drawn, another)[0, 1])) < 5 / np.sqrt(20_000)


@pytest.mark.parametrize("coefficients", [(1.0,), (1.0, 0.76), (1.0, 0.7, 0.6, 0.5)])
def test_a_smaller_draw_is_the_beginning_of_a_larger_one(coefficients: tuple[float, ...]) -> None:
    """The catalogue grows: rows that were there before must keep the noise of earlier steps."""
    whole = release_noise(KEY, 5, 1001, 1.0, coefficients)
    for size in (1, 2, 17, 1000):
        assert np.array_equal(release_noise(KEY, 5, size, 1.0, coefficients), whole[:size])


def _draws(coefficients: tuple[float, ...], steps: int, size: int) -> Matrix:
    """Z_1 … Z_steps from the noise itself: Z_t = sum_j c_j·N_{t-j}: (steps, size)."""
    noise = [release_noise(KEY, step, size, 1.0, coefficients) for step in range(1, steps + 1)]
    return np.array(
        [
            sum(c * noise[step - lag] for lag, c in enumerate(coefficients) if lag <= step)
            for step in range(steps)
        ]
    )


@pytest.mark.parametrize("coefficients", [(1.0,), (1.0, 0.76), (1.0, 0.7, 0.6, 0.5)])
def test_banded_noise_follows_its_recursion_from_independent_draws(
    coefficients: tuple[float, ...],
) -> None:
    """N_t = Z_t - sum c_j N_{t-j}: undone, what is left is white, step by step and across."""
    size, steps = 20_000, 9
    drawn = _draws(coefficients, steps, size)
    covariance = drawn @ drawn.T / size
    assert np.allclose(covariance, np.eye(steps), atol=6 / np.sqrt(size))
    assert _distance_from_normal(drawn[-1]) < 1.95 / np.sqrt(size)


def test_the_recursion_is_that_of_the_same_draws_in_any_order_of_asking() -> None:
    coefficients = (1.0, 0.7, 0.6)
    drawn = _draws(coefficients, 7, 50)
    for step in (7, 3, 1, 7):
        noise: list[Matrix] = []
        for t in range(step):
            back = sum(c * noise[t - lag] for lag, c in enumerate(coefficients) if 1 <= lag <= t)
            noise.append(drawn[t] - back)
        asked = release_noise(KEY, step, 50, 1.0, coefficients)
        assert np.allclose(asked, noise[-1], rtol=0, atol=1e-12)


def test_other_coefficients_never_use_a_draw_again() -> None:
    """A plan that changes in the middle of a task would otherwise break the orthogonality."""
    one = release_noise(KEY, 1, 20_000, 1.0, (1.0, 0.76))
    other = release_noise(KEY, 1, 20_000, 1.0, (1.0, 0.75))
    assert abs(float(np.corrcoef(one, other)[0, 1])) < 5 / np.sqrt(20_000)


@quick
@given(seeds, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_no_row_is_longer_than_the_row_clip_and_short_ones_stay(
    seed: int, spread: float, limit: float
) -> None:
    update = random_update(np.random.default_rng(seed), spread=spread)
    clipped = clip_rows(update, limit)
    before = np.linalg.norm(update.values, axis=1)
    after = np.linalg.norm(clipped.values, axis=1)
    assert np.allclose(after, np.minimum(before, limit), rtol=1e-12, atol=0)
    assert np.array_equal(clipped.values[before <= limit], update.values[before <= limit])
    assert np.array_equal(clipped.packed_gram, update.packed_gram)
    assert clip_rows(update, None) is update


@quick
@given(seeds, st.floats(0.1, 10.0), st.floats(0.1, 10.0))
def test_a_share_is_clipped_by_row_and_then_whole_and_its_bit_says_whether_it_fitted(
    seed: int, row: float, whole: float
) -> None:
    update = random_update(np.random.default_rng(seed), spread=2.0)
    rule = Privacy(clip=whole, row_clip=row, adapt=Adapt())
    share = clip_share(update, rule)
    by_row = clip_rows(update, row)
    assert share.fits == (1 if by_row.norm() <= whole else -1)
    assert share.norm() <= whole * (1 + 1e-12)
    assert np.allclose(share.values, clip_to_norm(by_row, whole).values)
    assert clip_share(update, Privacy(clip=whole)).fits == 0


def test_the_clip_settles_at_the_quantile_of_the_norms() -> None:
    """Norms from a log-normal, noise on the bits: S finds the 70th percentile within 10 %."""
    rng = np.random.default_rng(0)
    adapt = Adapt(quantile=0.7, rate=0.2, noise=5.0)
    clip, kept = 100.0, []
    for _ in range(200):
        norms = rng.lognormal(0.5, 0.8, 200)
        fitting = float(np.sum(np.where(norms <= clip, 0.5, -0.5))) + rng.normal(0, adapt.noise)
        clip = adapted_clip(clip, adapt, fitting, 200)
        kept.append(clip)
    assert np.mean(kept[100:]) == pytest.approx(float(np.exp(0.5 + 0.8 * 0.5244)), rel=0.1)


@pytest.mark.parametrize("fitting", [-1e9, 1e9, 0.0])
def test_no_noise_moves_the_clip_further_than_its_rate(fitting: float) -> None:
    adapt = Adapt(quantile=0.5, rate=0.2)
    moved = adapted_clip(3.0, adapt, fitting, 10)
    assert 3.0 * np.exp(-0.1) * 0.995 <= moved <= 3.0 * np.exp(0.1) * 1.005  # three digits


@pytest.mark.parametrize(("clip", "fitting"), [(1e6, -1e9), (1e-6, 1e9)])
def test_the_clip_stays_where_a_plan_can_name_it(clip: float, fitting: float) -> None:
    assert adapted_clip(clip, Adapt(), fitting, 1) == clip
