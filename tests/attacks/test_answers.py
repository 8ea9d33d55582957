"""What an answer to a question about quality tells of one device: no more than its epsilon."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap.rounds import ledger
from fedrap.rounds.ledger import Entry
from fedrap_coordinator.settings import Questions
from fedrap_core.errors import NotFinite
from fedrap_core.privacy.accounting import gaussian_epsilon
from fedrap_core.privacy.mechanisms import question_noise, task_noise_key
from fedrap_core.questions.answers import Layout, unpack

KEY = task_noise_key(b"k" * 32, b"t" * 16)
LAYOUT = Layout(1, 1, 1)
PAIRED = Layout(1, 1, 0, signed=True)  # of a staged release
TRIES = 2000


def told_apart(noise: float, layout: Layout = LAYOUT) -> float:
    """AUC of an attacker who knows every other answer and the victim's: was it in the sum?"""
    said = (-1.0,) if layout.signed else (1.0, 0.0)  # as far from nothing as an answer can be
    victim = layout.vector([said], 0)
    assert np.linalg.norm(victim) == pytest.approx(layout.clip)
    stddev = noise * layout.clip
    scores = np.zeros((TRIES, 2))
    for number in range(TRIES):
        for there in (0, 1):
            made_of = bytes([there]) * 32  # another set of answers has another noise
            name = number.to_bytes(16, "big")
            total = there * victim + question_noise(KEY, name, made_of, layout.size, stddev)
            scores[number, there] = total @ victim
    absent, present = np.sort(scores[:, 0]), scores[:, 1]
    return float(np.searchsorted(absent, present).mean() / TRIES)


@pytest.mark.parametrize("layout", [LAYOUT, PAIRED])
@pytest.mark.parametrize("noise", [1.0, 4.0])
def test_one_answer_is_hidden_as_well_as_its_epsilon_says(noise: float, layout: Layout) -> None:
    limit = 0.5 * math.erfc(-(1.0 / noise) / 2)  # Phi(mu/sqrt 2), the best that any attack can do
    assert told_apart(noise, layout) <= limit + 4 * math.sqrt(limit * (1 - limit) / TRIES) + 0.01


def test_without_noise_it_is_told_apart() -> None:
    assert told_apart(0.0) == told_apart(0.0, PAIRED) == 1.0  # so the attack is one


@given(st.lists(st.floats(width=32), min_size=3, max_size=3))
def test_who_lies_about_a_staged_release_moves_its_sum_by_the_clip_at_most(
    lie: list[float],
) -> None:
    """So one of n devices in a share moves the mean lead by S/n, an honest one by 1/n."""
    try:
        counted = unpack(np.array(lie, dtype="<f4").tobytes(), PAIRED)
    except NotFinite:
        return
    assert np.linalg.norm(counted) <= PAIRED.clip * (1 + 1e-6)
    assert pytest.approx(1.0607, abs=1e-4) == PAIRED.clip


def test_asking_again_costs_no_more_than_the_budget() -> None:
    """Whatever cohorts are asked: a device that answers all it may has spent the stated epsilon."""
    asking, delta = Questions(epsilon=1.0, answers=10), 1e-5
    noise = asking.noise(delta)
    entries = [
        Entry(0, bytes([number]) * 16, noise, delta, float(number), question=True)
        for number in range(asking.answers)
    ]
    spent = [ledger.epsilon(entries[:count]) for count in range(asking.answers + 1)]
    assert all(before < after for before, after in pairwise(spent))
    assert spent[-1] == pytest.approx(1.0, abs=1e-6)
    assert spent[-1] == pytest.approx(gaussian_epsilon(math.sqrt(10) / noise, delta), abs=1e-6)


def test_the_noise_of_a_question_is_no_other_questions() -> None:
    draws = [
        question_noise(KEY, name, made_of, 1000, 1.0)
        for name in (b"a" * 16, b"b" * 16)
        for made_of in (bytes(32), b"x" * 32)
    ]
    for place, one in enumerate(draws):
        assert abs(one.std() - 1.0) < 0.1
        for other in draws[place + 1 :]:
            assert abs(np.corrcoef(one, other)[0, 1]) < 0.12
    np.testing.assert_array_equal(draws[0], question_noise(KEY, b"a" * 16, bytes(32), 1000, 1.0))
