"""Draws: only from what may be drawn from, and the same draws for the same key."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.paper.sampling import (
    draw_negatives,
    initial_personal,
    initial_user,
    private_stream,
    spread_over_steps,
)
from tests.core.made import quick, seeds

KEY = bytes(range(32))


@given(seed=seeds, count=st.integers(0, 50), pool=st.integers(0, 30))
def test_negatives_come_only_from_the_unseen(seed: int, count: int, pool: int) -> None:
    rng = np.random.default_rng(seed)
    unseen = rng.choice(1000, size=pool, replace=False).astype(np.int64)
    drawn = draw_negatives(unseen, count, rng.random)
    assert len(drawn) == (count if pool else 0)
    assert np.isin(drawn, unseen).all()


def test_the_largest_uniform_number_stays_inside_the_pool() -> None:
    unseen = np.arange(7)
    highest = np.nextafter(1.0, 0.0)
    assert draw_negatives(unseen, 3, lambda n: np.full(n, highest)).tolist() == [6, 6, 6]


def test_every_unseen_item_is_drawn_about_as_often() -> None:
    drawn = draw_negatives(np.arange(10), 20_000, private_stream(KEY, b"even"))
    counts = np.bincount(drawn, minlength=10)
    assert counts.min() > 1800
    assert counts.max() < 2200


def test_a_stream_is_fixed_by_its_key_and_its_purpose() -> None:
    first = private_stream(KEY, b"round 1")(4)
    # These very numbers on every platform, or a device would not redraw what it drew.
    assert first.tolist() == pytest.approx(
        [0.87346337, 0.88173050, 0.53971792, 0.21402204], abs=1e-8
    )
    assert private_stream(KEY, b"round 1")(4).tolist() == first.tolist()
    assert private_stream(KEY, b"round 2")(4).tolist() != first.tolist()
    assert private_stream(bytes(32), b"round 1")(4).tolist() != first.tolist()


@quick
@given(seed=seeds, batch=st.integers(16, 200))
def test_steps_hold_every_sample_of_an_epoch_once(seed: int, batch: int) -> None:
    rng = np.random.default_rng(seed)
    positives, negatives = rng.integers(0, 3, size=40), rng.integers(0, 5, size=40)
    total = int(positives.sum() + negatives.sum())
    weights, liked = spread_over_steps(positives, negatives, batch, 3, rng.random)
    parts = -(-total // batch)
    assert len(weights) == 3 * parts
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert (liked <= weights).all()
    sizes = [len(part) for part in np.array_split(np.arange(total), parts)]
    for epoch in range(3):
        steps = slice(epoch * parts, (epoch + 1) * parts)
        copies = (weights[steps] * np.array(sizes)[:, None]).sum(axis=0)
        np.testing.assert_allclose(copies, positives + negatives)
        copies = (liked[steps] * np.array(sizes)[:, None]).sum(axis=0)
        np.testing.assert_allclose(copies, positives)


def test_all_devices_of_a_task_start_from_one_user_vector() -> None:
    user = initial_user(7, 32)
    assert user.tolist() == initial_user(7, 32).tolist()
    assert user.tolist() != initial_user(8, 32).tolist()
    assert np.abs(user).max() <= 1 / np.sqrt(32)


def test_first_rows_of_d_are_normal() -> None:
    rows = initial_personal(500, 40, 2.0, private_stream(KEY, b"rows"))
    assert rows.shape == (500, 40)
    assert rows.mean() == pytest.approx(0.0, abs=0.05)
    assert rows.std() == pytest.approx(2.0, rel=0.02)
