"""A roll-out among 5,000 devices with planted truth, at epsilon 1 for its two answers.

`benchmarks/bench_rollouts.py` does the same over 20 seeds and with the releases of real sets.
"""

from __future__ import annotations

import numpy as np
import pytest

from fedrap_coordinator.domain.rollouts import Rollout, RolloutState
from fedrap_simulation.scenarios.staging import ndcg10, planted, roll_out, shift_for

SHARES = (0.01, 0.1)


def ended(seed: int, shift: float, **options: int) -> Rollout:
    rng = np.random.default_rng(seed)
    people = planted(5000, shift, rng)
    return roll_out(people, SHARES, rng, epsilon=1.0, answers=2, **options)


def test_a_tenth_worse_is_a_tenth() -> None:
    people = planted(100_000, shift_for(0.9), np.random.default_rng(1))
    assert ndcg10(people.before) == pytest.approx(0.137, abs=0.01)
    assert ndcg10(people.after) / ndcg10(people.before) == pytest.approx(0.9, abs=0.01)


def test_a_release_that_is_a_tenth_worse_never_becomes_everybodys() -> None:
    shift = shift_for(0.9)
    for seed in range(3):
        row = ended(seed, shift)
        assert row.state is RolloutState.HALTING, row.reason
        assert row.reason.startswith("worse")


def test_one_that_is_as_good_does() -> None:
    for seed in range(3):
        row = ended(seed, 0.0)
        assert row.state is RolloutState.PROMOTING, row.reason


def test_what_a_share_is_too_small_to_show_is_not_for_everybody() -> None:
    row = ended(0, 0.0, least=4000)  # 800 devices of the share must have had a say
    assert row.state is RolloutState.HALTING
    assert "too few devices" in row.reason
