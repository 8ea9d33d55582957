"""The clip, and the noise that only key and step decide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import algorithms
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.privacy import clip_to_norm, release_noise
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
    assert np.allclose(clipped.triangle, factor * update.triangle, rtol=1e-12, atol=0)


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
        [1.55812918527246, -0.0958465244911982, 0.107096634915205], abs=1e-12
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
    for lag in (1, 2, 25_000):  # 25,000 apart are the two of one Box-Muller pair
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
