"""Intervals hold the truth as often as they say, with and without noise."""

from __future__ import annotations

import numpy as np
import pytest

from fedrap_core.questions.answers import Layout
from fedrap_core.questions.estimates import estimates, pick

REPETITIONS = 400


def hold(noise: float, devices: int, groups: int = 1) -> tuple[float, float]:
    """How often the interval of a mean, and of a difference, holds the truth of a population."""
    rng = np.random.default_rng(7)
    layout = Layout(1, groups, 1)
    stddev = noise * layout.clip
    first = np.where(rng.random(50_000) < 0.2, rng.random(50_000), 0.0)  # most lists miss
    other = np.clip(first + rng.normal(-0.01, 0.05, len(first)), 0.0, 1.0)
    truth = first.mean(), (other - first).mean()
    held = np.zeros((REPETITIONS, 2))
    for place in range(REPETITIONS):
        chosen = rng.integers(0, len(first), devices)
        total = np.zeros(layout.size)
        for group in range(groups):
            mine = chosen[group::groups]
            rows = [layout.vector([(first[i], other[i])], group) for i in mine]
            total += np.sum(rows, axis=0)
        total += rng.normal(0.0, stddev, layout.size)
        [[found, *_]] = estimates(total, layout, stddev, 1)
        assert found is not None
        for column, (one, true) in enumerate(
            zip((found.first, found.differences[0]), truth, strict=True)
        ):
            held[place, column] = one.low <= true <= one.high
    mean, difference = held.mean(axis=0)
    return float(mean), float(difference)


@pytest.mark.parametrize(
    ("noise", "devices", "groups"), [(0.0, 400, 1), (4.0, 400, 1), (2.0, 300, 2)]
)
def test_intervals_hold_the_truth(noise: float, devices: int, groups: int) -> None:
    for share in hold(noise, devices, groups):
        assert share >= 0.95 - 2.6 * np.sqrt(0.95 * 0.05 / REPETITIONS)


def test_nothing_is_said_of_fewer_than_the_least() -> None:
    layout = Layout(1, 2, 1)
    total = 30 * layout.vector([(0.5, 0.4)], 0) + 5 * layout.vector([(0.5, 0.4)], 1)
    [[every, light, heavy]] = estimates(total, layout, 0.0, 20)
    assert every is not None
    assert round(every.devices) == 35
    assert light is not None
    assert light.first.value == pytest.approx(0.5)
    assert heavy is None


def test_a_lead_must_lie_above_luck_and_noise() -> None:
    assert pick([300.0, 310.0, 320.0], 900) == 2
    assert pick([300.0, 302.0], 900) == 0  # luck
    assert pick([300.0, 320.0], 900, noise=20.0) == 0  # noise
    assert pick([300.0, 360.0], 900, noise=20.0) == 1
    assert pick([300.0, 299.0], 900) == 0
