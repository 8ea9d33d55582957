"""How devices choose scalars together: a sum of gains, and a lead that luck does not give."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedrap_simulation.methods.solve import pick_by_votes

USERS = 900  # a lead of 0.3 / 30 = 1 % is asked for


def gains_with_means(*means: float) -> np.ndarray:
    return np.repeat(np.array(means)[:, None], USERS, axis=1)


def test_a_clear_winner_is_taken() -> None:
    assert pick_by_votes(gains_with_means(0.30, 0.29, 0.31)) == 2


def test_a_narrow_winner_is_not() -> None:
    assert pick_by_votes(gains_with_means(0.300, 0.299, 0.302)) == 0


def test_more_voters_make_a_narrow_winner_clear() -> None:
    assert pick_by_votes(np.repeat(gains_with_means(0.300, 0.302), 16, axis=1)) == 1


@given(st.integers(0, 2**32 - 1))
def test_among_equals_what_is_in_force_stays(seed: int) -> None:
    """Candidates that differ by luck alone; a plain maximum would keep one time in four."""
    rng = np.random.default_rng(seed)
    same = rng.random(USERS)
    votes = same + rng.normal(0.0, 0.03, (4, USERS))  # as far apart as rankings of one C are
    assert pick_by_votes(np.clip(votes, 0.0, 1.0)) == 0
