"""A device that sends a Gram matrix no user could have: is the clip still the bound?

Version 0.1 clipped first and projected onto the semidefinite cone afterwards, which made such an
update up to 1.0607·S long: more than the noise was made for.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_core.aggregate import Accumulator
from fedrap_core.sparse import RowUpdate, pack_gram, packed_size

KEY = bytes(32)


def length_in_the_sum(update: RowUpdate, size: int, dim: int, clip: float) -> float:
    """The norm that one update has in a sum of its own."""
    total = Accumulator(size, dim, clip)
    total.add(update)
    released = total.total(0.0, KEY, 0)
    return float(np.sqrt(np.sum(released.values**2) + np.sum(released.packed_gram**2)))


def test_the_worst_known_gram_matrix_stays_within_the_clip() -> None:
    """One entry off the diagonal: half of it goes to the diagonal when it is projected."""
    square = np.array([[0.0, 1.0], [1.0, 0.0]])
    update = RowUpdate(np.zeros(0, dtype=np.int64), np.zeros((0, 2)), pack_gram(square))
    assert length_in_the_sum(update, 3, 2, 1.0) <= 1.0 + 1e-12


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(0.01, 100.0))
def test_no_update_is_longer_than_the_clip_in_the_sum(seed: int, dim: int, clip: float) -> None:
    rng = np.random.default_rng(seed)
    packed = rng.normal(size=packed_size(dim)) * rng.choice([0.0, 1.0, 1e6], size=packed_size(dim))
    rows = np.flatnonzero(rng.random(5) < 0.5)
    update = RowUpdate(rows, rng.normal(size=(len(rows), dim)) * rng.choice([0, 1, 1e4]), packed)
    assert length_in_the_sum(update, 5, dim, clip) <= clip * (1 + 1e-9)


def test_an_honest_update_within_the_clip_is_added_as_it_is() -> None:
    user = np.array([0.3, -0.2, 0.1])
    update = RowUpdate(np.array([1]), user[None], pack_gram(np.outer(user, user)))
    assert length_in_the_sum(update, 4, 3, 5.0) == pytest.approx(update.norm(), rel=1e-12)
