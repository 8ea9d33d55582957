"""What lists consist of: within the clip, and figures that hold the planted truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.questions.answers import Layout, Vector
from fedrap_core.questions.estimates import Estimate, estimates
from fedrap_core.questions.lists import BUCKETS, LONGEST, items_of, shares_of, variety

LAYOUT = Layout(1, 1, 0, buckets=BUCKETS)


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=LONGEST), st.floats(0, 1))
def test_no_list_lies_above_the_clip(items: list[str], popular: float) -> None:
    shares = shares_of(items, b"q" * 16, BUCKETS)
    assert shares.sum() == pytest.approx(1.0)
    answer = LAYOUT.vector([[popular, *shares]], 0)
    assert answer.shape == (3 + BUCKETS,)
    assert np.linalg.norm(answer) <= LAYOUT.clip * (1 + 1e-12)


def test_the_clip_is_reached_and_so_it_is_the_sensitivity() -> None:
    shares = shares_of(["the same"] * LONGEST, b"q" * 16, BUCKETS)
    answer = LAYOUT.vector([[1.0, *shares]], 0)
    assert np.linalg.norm(answer) == pytest.approx(LAYOUT.clip)


def test_another_question_has_other_buckets() -> None:
    items = [f"item {n}" for n in range(LONGEST)]
    one, other = (shares_of(items, name * 16, BUCKETS) for name in (b"a", b"b"))
    assert not np.array_equal(one, other)


def summed(weights: Vector, devices: int, name: bytes, rng: np.random.Generator) -> Vector:
    """Of devices whose lists are drawn by these weights of the items."""
    total = np.zeros(LAYOUT.size)
    order = np.argsort(
        -(np.log(weights) + rng.gumbel(size=(devices, len(weights)))), axis=1, kind="stable"
    )
    place = np.array(
        [shares_of([f"item {n}"], name, BUCKETS).argmax() for n in range(len(weights))]
    )
    for row in order[:, :LONGEST]:
        shares = np.bincount(place[row], minlength=BUCKETS) / LONGEST
        total += LAYOUT.vector([[float(np.mean(row < 30)), *shares]], 0)
    return total


@pytest.mark.parametrize("stddev", [0.0, 3.0])
def test_figures_hold_what_was_planted(stddev: float) -> None:
    rng, devices = np.random.default_rng(3), 800
    weights = np.array([1.0 / (place + 10.0) for place in range(300)])  # a head and a long tail
    many = np.argsort(-(np.log(weights) + rng.gumbel(size=(10_000, 300))), axis=1)[:, :LONGEST]
    shown = np.bincount(many.ravel(), minlength=300) / many.size
    truth = 1.0 / float(shown @ shown)
    held, found = 0, []
    for number in range(20):
        name = number.to_bytes(16, "big")
        total = summed(weights, devices, name, rng) + rng.normal(0, 1, LAYOUT.size) * stddev
        [[block]] = estimates(total, LAYOUT, stddev, 100)
        assert block is not None
        assert block.differences == ()
        assert 0.2 < block.first.value < 0.8
        value, low, high = items_of(variety(total, LAYOUT, stddev, block.devices), 300)
        assert low <= value <= high
        held += low <= truth <= high
        found.append(value)
    assert held >= 17  # 95 % of 20, less three standard errors
    assert np.median(found) == pytest.approx(truth, rel=0.15)


def test_where_everybody_has_the_same_list_it_is_ten_items() -> None:
    rng = np.random.default_rng(0)
    weights = np.array([1e9 if place < LONGEST else 1e-9 for place in range(300)])
    found = []
    for number in range(10):
        total = summed(weights, 500, number.to_bytes(16, "big"), rng)
        found.append(items_of(variety(total, LAYOUT, 0.0, 500.0), 300)[0])
    assert np.median(found) == pytest.approx(10, rel=0.2)


def test_what_cannot_be_told_is_at_most_all_there_are() -> None:
    value, low, high = items_of(Estimate(0.0, 0.1), 300)
    assert (value, high) == (300.0, 300.0)
    assert low == pytest.approx(1 / (0.1 * 1.96), 1e-3)
