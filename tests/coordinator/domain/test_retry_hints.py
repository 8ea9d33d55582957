"""When a refused device comes back: when it could help, spread, and never in the past."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_coordinator.domain import retry_hints
from fedrap_coordinator.domain.records import DeviceRecord
from fedrap_coordinator.domain.rounds import Phase, Round, RoundLimits

LIMITS = RoundLimits(min_seconds=60, max_seconds=600)
OPEN = Round(b"r" * 16, 5, 5, opened_at=1000.0)
seconds = st.floats(0, 1e6)


def test_before_the_first_round_the_least_time_is_expected_and_then_the_median() -> None:
    assert retry_hints.expected_seconds([], LIMITS) == 60
    assert retry_hints.expected_seconds([10, 200, 90], LIMITS) == 90
    assert retry_hints.expected_seconds([5000, 6000], LIMITS) == 600


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (1000.0, 90),
        (1060.0, 30),
        (1090.0, 22.5),
        (1400.0, 100),
        (1590.0, 10),
        (5000.0, 0),
        (900.0, 90),
    ],
)
def test_a_round_ends_when_it_is_as_old_as_the_others_were_and_a_late_one_a_quarter_later(
    now: float, left: float
) -> None:
    assert retry_hints.until_next_round(OPEN, 90, LIMITS, now) == left


def test_a_round_that_is_summed_is_followed_at_once() -> None:
    assert retry_hints.until_next_round(OPEN.to(Phase.SUMMING), 90, LIMITS, 1000.0) == 0
    assert retry_hints.until_next_round(None, 90, LIMITS, 1000.0) == 0


@pytest.mark.spec("7.16")
def test_a_device_rests_for_as_many_steps_as_the_rule_says() -> None:
    device = DeviceRecord(b"d" * 16, b"key", 1, last_step=4)
    assert [retry_hints.steps_to_rest(device, b, 5) for b in (1, 2, 5)] == [0, 1, 4]
    assert retry_hints.steps_to_rest(DeviceRecord(b"d" * 16, b"key", 0, None), 9, 5) == 0


def test_a_new_key_waits_in_steps_or_seconds_and_not_beyond_its_end() -> None:
    waits = DeviceRecord(
        b"d" * 16, b"key", 0, None, first_step=7, not_before=1050.0, free_at=1500.0
    )
    assert retry_hints.until_old_enough(waits, 5, 90, 1000.0) == 180
    assert retry_hints.until_old_enough(waits, 5, 900, 1000.0) == 500
    assert retry_hints.until_old_enough(waits, 7, 90, 1000.0) == 50


@pytest.mark.spec("7.16")
@given(seconds, st.floats(0, 100), st.floats(0, 0.999), st.floats(0, 0.999))
def test_devices_come_back_apart_and_not_too_early(
    after: float, least: float, one: float, other: float
) -> None:
    times = [retry_hints.come_back(after, least, uniform) for uniform in (one, other)]
    assert all(
        max(after, least) <= time <= max(after, least) + max(least, after / 4) for time in times
    )
    if abs(one - other) > 1e-3 and max(after, least) > 1e-3:
        assert times[0] != times[1]
