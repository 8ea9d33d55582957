"""Summing a round: what counts, what is clipped, and where the noise goes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from fedrap_core.aggregate import Accumulator
from fedrap_core.errors import FedRapError, NotFinite, WrongShape
from fedrap_core.privacy.mechanisms import release_noise
from fedrap_core.sparse import RowUpdate
from tests.core.made import quick, random_update, seeds

KEY = bytes(range(32))
SIZE, DIM = 20, 4


def _summed(updates: list[RowUpdate], clip: float = 1e6) -> Accumulator:
    total = Accumulator(SIZE, DIM, clip)
    for update in updates:
        total.add(update)
    return total


@quick
@given(seeds)
def test_the_order_of_devices_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    updates = [random_update(rng, spread=3.0) for _ in range(8)]
    there = _summed(updates, clip=5.0).total(0.0, KEY, 0)
    shuffled = [updates[i] for i in rng.permutation(8)]
    back = _summed(shuffled, clip=5.0).total(0.0, KEY, 0)
    assert np.array_equal(there.rows, back.rows)
    assert np.allclose(there.values, back.values, rtol=0, atol=1e-9)
    assert np.allclose(there.packed_gram, back.packed_gram, rtol=0, atol=1e-9)
    assert there.devices == back.devices == 8


def test_every_device_is_in_the_sum_once() -> None:
    """Device i adds one to cell i only, so the sum shows who was counted and how often."""
    total = Accumulator(SIZE, DIM, 10.0)
    for device in range(SIZE):
        total.add(RowUpdate(np.array([device]), np.full((1, DIM), 1.0), np.zeros(10)))
    released = total.total(0.0, KEY, 0)
    assert np.array_equal(released.values, np.ones((SIZE, DIM)))
    assert released.devices == total.devices == SIZE
    assert total.shape == (SIZE, DIM)


def test_an_update_above_the_clip_is_clipped_again() -> None:
    """A device's own clip is a courtesy; this one is the bound."""
    update = random_update(np.random.default_rng(1), spread=100.0)
    released = _summed([update], clip=2.0).total(0.0, KEY, 0)
    norm = np.sqrt(np.sum(released.values**2) + np.sum(released.packed_gram**2))
    assert norm == pytest.approx(2.0)
    assert np.allclose(released.values, update.values * 2.0 / update.norm())


def test_without_noise_only_touched_rows_are_released() -> None:
    rng = np.random.default_rng(2)
    one, other = random_update(rng, count=3), random_update(rng, count=2)
    released = _summed([one, other]).total(0.0, KEY, 0)
    assert set(released.rows) == set(one.rows) | set(other.rows)
    assert np.all(np.diff(released.rows) > 0)


def test_a_row_that_cancels_out_was_still_touched() -> None:
    update = random_update(np.random.default_rng(3), count=2)
    opposite = RowUpdate(update.rows, -update.values, -update.packed_gram)
    released = _summed([update, opposite]).total(0.0, KEY, 0)
    assert np.array_equal(released.rows, update.rows)
    assert not released.values.any()


@quick
@given(seeds)
def test_with_noise_every_row_and_the_triangle_are_noised(seed: int) -> None:
    update = random_update(np.random.default_rng(seed))
    total = _summed([update], clip=3.0)
    exact, noised = total.total(0.0, KEY, 5), total.total(0.5, KEY, 5)
    assert np.array_equal(noised.rows, np.arange(SIZE))
    full = np.zeros((SIZE, DIM))
    full[exact.rows] = exact.values
    added = np.concatenate([noised.packed_gram - exact.packed_gram, (noised.values - full).ravel()])
    assert np.allclose(added, release_noise(KEY, 5, 1 + 10 + SIZE * DIM, 1.5)[1:], atol=1e-12)
    assert np.all(added != 0.0)


def test_releasing_twice_gives_the_same_sum() -> None:
    """A second draw over one sum could be averaged with the first."""
    total = _summed([random_update(np.random.default_rng(4))])
    assert np.array_equal(total.total(1.0, KEY, 6).values, total.total(1.0, KEY, 6).values)


def test_what_was_released_does_not_change_when_more_is_added() -> None:
    update = random_update(np.random.default_rng(5))
    total = _summed([update])
    released = total.total(0.0, KEY, 0)
    triangle, values = released.packed_gram.copy(), released.values.copy()
    total.add(update)
    assert np.array_equal(released.packed_gram, triangle)
    assert np.array_equal(released.values, values)


@pytest.mark.parametrize(
    ("update", "error"),
    [
        (RowUpdate(np.array([SIZE]), np.zeros((1, DIM)), np.zeros(10)), WrongShape),
        (RowUpdate(np.array([3, 3]), np.zeros((2, DIM)), np.zeros(10)), WrongShape),
        (RowUpdate(np.array([3]), np.zeros((1, DIM)), np.zeros(9)), WrongShape),
        (RowUpdate(np.array([3]), np.full((1, DIM), np.nan), np.zeros(10)), NotFinite),
        (RowUpdate(np.array([3]), np.zeros((1, DIM)), np.full(10, np.inf)), NotFinite),
    ],
)
def test_a_refused_update_is_not_counted(update: RowUpdate, error: type[FedRapError]) -> None:
    total = _summed([random_update(np.random.default_rng(6))])
    before = total.total(0.0, KEY, 0)
    with pytest.raises(error):
        total.add(update)
    after = total.total(0.0, KEY, 0)
    assert total.devices == after.devices == 1
    assert np.array_equal(before.rows, after.rows)
    assert np.array_equal(before.values, after.values)
    assert np.array_equal(before.packed_gram, after.packed_gram)


def test_a_round_of_nobody_sums_to_nothing() -> None:
    released = Accumulator(SIZE, DIM, 1.0).total(0.0, KEY, 0)
    assert released.devices == 0
    assert len(released.rows) == 0
    assert not released.packed_gram.any()


def test_a_row_above_the_row_clip_is_clipped_again_before_the_whole() -> None:
    update = random_update(np.random.default_rng(7), spread=5.0)
    total = Accumulator(SIZE, DIM, 1e6, row_clip=0.5)
    total.add(update)
    released = total.total(0.0, KEY, 0)
    assert np.all(np.linalg.norm(released.values, axis=1) <= 0.5 + 1e-12)
    assert np.array_equal(released.packed_gram, update.packed_gram)


def test_banded_noise_is_the_same_when_the_sum_is_made_again() -> None:
    bands = (1.0, 0.7, 0.6)
    total = _summed([random_update(np.random.default_rng(4))])
    one, other = total.total(1.0, KEY, 6, bands), total.total(1.0, KEY, 6, bands)
    assert np.array_equal(one.values, other.values)
    assert np.array_equal(one.packed_gram, other.packed_gram)
    assert not np.array_equal(one.values, total.total(1.0, KEY, 6).values)


def test_the_bits_are_summed_bounded_and_noised_with_noise_of_their_own() -> None:
    total = Accumulator(SIZE, DIM, 1e6)
    for fits in (1, 1, -1, 0, 90):  # no device has more than one vote, whatever it says
        made = random_update(np.random.default_rng(8))
        total.add(RowUpdate(made.rows, made.values, made.packed_gram, fits))
    assert total.fitting(0.0, KEY, 3) == pytest.approx(1.0)
    drawn = release_noise(KEY, 3, 1, 4.0)[0]
    assert total.fitting(4.0, KEY, 3) == pytest.approx(1.0 + drawn)


def test_the_noise_of_the_bits_is_no_noise_of_the_update() -> None:
    """Known noise on one coordinate must not tell that of another."""
    total = _summed([random_update(np.random.default_rng(9))])
    exact, noised = total.total(0.0, KEY, 3), total.total(1.0, KEY, 3)
    bit = total.fitting(1.0, KEY, 3)  # no device has a bit here: the noise alone
    others = (noised.packed_gram - exact.packed_gram) / 1e6  # in units of the clip
    assert not np.any(np.isclose(others, bit, atol=1e-6))
