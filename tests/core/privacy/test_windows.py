"""K per window: the guarantee of any window, and of several in a row, against brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.participation import in_window, renews_at, until_rested, why_not
from fedrap_core.plan import DAY, Plan, Privacy
from fedrap_core.privacy.accounting import gaussian_epsilon
from fedrap_core.privacy.statement import guarantee_in_words, state_policy
from fedrap_core.wire import problems
from fedrap_core.wire.codec import decode_value, encode_value
from tests.core.made import Matrix

STEPS = 9


def _rule(coefficients: tuple[float, ...], separation: int, cap: int, days: float) -> Privacy:
    return Privacy(
        noise=1.5,
        coefficients=coefficients,
        separation=separation,
        cap=cap,
        window_days=days,
    )


def _strategy(coefficients: tuple[float, ...]) -> Matrix:
    matrix = np.zeros((STEPS, STEPS))
    for lag, one in enumerate(coefficients):
        matrix += one * np.eye(STEPS, k=-lag)
    return matrix


def _patterns(rule: Privacy) -> Iterator[tuple[int, ...]]:
    """Every way to join steps 1, 2, … made a day apart each, as the rule alone lets a device."""
    for wanted in itertools.product((False, True), repeat=STEPS):
        joined: list[int] = []
        for step, asks in enumerate(wanted):
            now = step * DAY
            counted = in_window([one * DAY for one in joined], now, rule)
            last = joined[-1] if joined else None
            if asks and why_not(last, counted, step, rule) is None:
                joined.append(step)
        yield tuple(joined)


def _change(matrix: Matrix, joined: tuple[int, ...]) -> float:
    """The largest |C x|^2 that contributions of norm 1 in these steps can make."""
    gram = matrix.T @ matrix
    return float(np.abs(gram[np.ix_(joined, joined)]).sum()) if joined else 0.0


@pytest.mark.parametrize(
    ("coefficients", "separation", "cap", "days"),
    [
        ((1.0,), 1, 2, 4.0),
        ((1.0, 0.6), 2, 2, 5.0),
        ((1.0, 0.6), 2, 1, 3.0),  # a border between every two participations
        ((1.0, 0.7, 0.4), 3, 2, 7.0),
        ((1.0, 0.7, 0.4), 3, 1, 2.0),  # the window is shorter than the bands: b holds all the same
    ],
)
def test_no_window_and_no_life_costs_more_than_is_stated(
    coefficients: tuple[float, ...], separation: int, cap: int, days: float
) -> None:
    rule = _rule(coefficients, separation, cap, days)
    matrix, most_window = _strategy(coefficients), 0.0
    most_life: dict[int, float] = {}
    for joined in set(_patterns(rule)):
        for end in range(STEPS):  # every window, wherever it begins
            inside = tuple(one for one in joined if end - days < one <= end)
            assert len(inside) <= cap
            most_window = max(most_window, _change(matrix, inside))
        life = _change(matrix, joined)
        most_life[len(joined)] = max(most_life.get(len(joined), 0.0), life)
    stated = state_policy(rule)
    assert math.sqrt(most_window) / rule.noise <= stated.mu * (1 + 1e-9)
    assert math.sqrt(most_window) / rule.noise >= 0.7 * stated.mu  # it is not just large
    # Across a border nothing overlaps: each participation costs |c|^2 and no more, also in all.
    for times, change in most_life.items():
        assert change <= times * math.hypot(*coefficients) ** 2 * (1 + 1e-9)
    assert max(most_life) > cap  # there were participations on both sides of a border


def test_what_would_go_wrong_if_the_separation_ended_with_a_window() -> None:
    """Two participations next to a border, closer than the bands, cost more than two."""
    matrix = _strategy((1.0, 0.6))
    assert _change(matrix, (3, 4)) > 2 * (1 + 0.6**2)
    rule = _rule((1.0, 0.6), 2, 1, 1.0)
    assert why_not(3, in_window([3 * DAY], 4 * DAY, rule), 4, rule) is problems.TOO_SOON


@given(st.lists(st.floats(0, 1000), max_size=20), st.integers(1, 4), st.floats(1, 300))
def test_it_renews_exactly_when_fewer_than_k_are_left(
    days: list[float], cap: int, window: float
) -> None:
    rule = Privacy(cap=cap, window_days=window)
    times = [DAY * one for one in days]
    at = renews_at(times, rule)
    if math.isinf(at):
        assert len(times) < cap
        return
    assert in_window(times, at + 1e-3, rule) < cap
    assert in_window(times, at - 1.0, rule) >= cap


def test_without_a_window_k_is_for_a_life_and_the_plan_is_as_it_was() -> None:
    life = Privacy(cap=2)
    assert b"window" not in encode_value(Plan(privacy=life))
    assert math.isinf(life.window)
    assert math.isinf(Privacy(window_days=0.0).window)
    assert in_window([0.0, 1.0], 1e12, life) == 2
    assert renews_at([0.0, 1.0], life) == math.inf
    year = Plan(privacy=Privacy(window_days=365.0))
    assert decode_value(Plan, encode_value(year)) == year


def test_the_statement_has_the_window_and_what_several_cost() -> None:
    rule = Privacy(noise=2.0, cap=4, window_days=365.0)
    stated = state_policy(rule)
    assert stated.window_days == 365.0
    assert stated.unit == "one device with everything it contributes in any 365 days"
    assert [one.windows for one in stated.lifetime] == [2, 5, 10]
    for one in stated.lifetime:
        assert one.epsilon == gaussian_epsilon(math.sqrt(one.windows * 4) / 2.0, rule.delta)
    assert "in any 365 days; over 10 such windows epsilon" in guarantee_in_words(rule)
    assert any("within 365 days" in one for one in stated.assumptions)
    assert state_policy(Privacy(noise=2.0, cap=4)).lifetime == ()
    assert state_policy(Privacy(noise=2.0, cap=4)).window_days is None


def test_a_device_rests_for_its_share_of_the_time_that_k_is_spread_over() -> None:
    rule = Privacy(cap=10, separation=1, spread_days=30.0)
    assert rule.rest == 3 * DAY
    assert why_not(3, 1, 4, rule, idle=3 * DAY - 1) is problems.TOO_SOON
    assert why_not(3, 1, 4, rule, idle=3 * DAY) is None
    assert why_not(3, 1, 3, rule, idle=0.0) is None  # the same step again is charged once
    assert why_not(3, 10, 4, rule, idle=0.0) is problems.BUDGET_SPENT
    assert why_not(None, 0, 4, rule) is None
    assert until_rested(-5.0, rule) == 3 * DAY  # a clock that was set back
    assert until_rested(0.0, Privacy()) == 0.0
