"""`privacy plan`: known prices of a promise, and what cannot be promised."""

from __future__ import annotations

import dataclasses

import pytest

from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.privacy.planner import Option, Wanted, default_delta, options
from fedrap_core.plan import Privacy
from fedrap_core.privacy.accounting import charged_epsilon, charged_noise

ML_100K = Wanted(devices=943, cohort=94, rounds=100, epsilon=8.0, delta=1e-5)


def _only(wanted: Wanted, mechanism: str, separation: int) -> Option:
    (found,) = [
        one for one in options(wanted) if (one.mechanism, one.separation) == (mechanism, separation)
    ]
    return found


@pytest.mark.parametrize(
    ("epsilon", "mechanism", "separation", "error"),
    [
        (8.0, "independent", 2, 30.0), (8.0, "banded", 2, 22.0),
        (8.0, "independent", 10, 13.5), (8.0, "banded", 10, 5.6),
        (1.0, "independent", 10, 83.8), (1.0, "banded", 10, 34.8),
        (4.0, "independent", 2, 54.0), (4.0, "banded", 2, 40.0),
    ],
)  # fmt: skip
def test_the_error_of_the_sums_is_that_of_the_design(
    epsilon: float, mechanism: str, separation: int, error: float
) -> None:
    """In units of the clip, of the sum of the updates; 100 rounds of a tenth of 943 devices."""
    wanted = dataclasses.replace(ML_100K, epsilon=epsilon)
    found = _only(wanted, mechanism, separation).sum_error * wanted.cohort
    assert found == pytest.approx(error, rel=0.015)


def test_a_million_devices_need_one_participation_each() -> None:
    wanted = Wanted(devices=1_000_000, cohort=1000, rounds=100, epsilon=8.0, delta=1e-5)
    best = options(wanted)[0]
    assert (best.mechanism, best.separation, best.cap) == ("banded", 100, 1)
    assert best.sum_error * wanted.cohort == pytest.approx(1.4, abs=0.05)
    assert len(best.coefficients) == 64  # as many as a plan can carry


def test_every_option_keeps_the_promise_and_is_a_policy() -> None:
    for one in options(ML_100K):
        charged = charged_noise(one.noise, one.coefficients, None)
        assert 7.99 < charged_epsilon(one.cap, charged, 1e-5) <= 8.0
        assert one.epsilon == charged_epsilon(one.cap, charged, 1e-5)
        Privacy(noise=one.noise, coefficients=one.coefficients, separation=one.separation)


def test_options_come_with_the_least_error_first() -> None:
    errors = [one.sum_error for one in options(ML_100K)]
    assert errors == sorted(errors)
    assert {one.separation for one in options(ML_100K)} == {2, 4, 8, 10}


def test_noise_against_signal_is_the_rule_of_thumb() -> None:
    wanted = dataclasses.replace(ML_100K, items=1682, dim=32, separation=2, cap=50)
    plain = _only(wanted, "independent", 2)
    assert plain.noise_to_signal == pytest.approx(plain.noise * 232 / 94, rel=1e-3)
    assert _only(ML_100K, "independent", 2).noise_to_signal is None


def test_few_large_rounds() -> None:
    """Six rounds of half of 6,040 devices: b = 2, K = 3."""
    wanted = Wanted(devices=6040, cohort=3020, rounds=6, epsilon=8.0, delta=1e-5)
    assert {(one.separation, one.cap) for one in options(wanted)} == {(2, 3)}


def test_a_single_round_needs_no_separation() -> None:
    wanted = Wanted(devices=10, cohort=10, rounds=1, epsilon=1.0, delta=1e-5)
    assert [(one.separation, one.cap, one.mechanism) for one in options(wanted)] == [
        (1, 1, "independent")
    ]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"separation": 11}, "10 at the most"),
        ({"cap": 9}, "at least 10"),
        ({"cohort": 500}, "two consecutive"),
        ({"cohort": 0}, "above 0"),
        ({"epsilon": 0.0}, "above 0"),
        ({"epsilon": float("nan")}, "above 0"),
        ({"delta": 1.0}, "delta"),
        ({"dim": 0}, "above 0"),
        ({"separation": -1}, "above 0"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_what_could(
    changes: dict[str, float], word: str
) -> None:
    with pytest.raises(ConfigError, match=word):
        options(dataclasses.replace(ML_100K, **changes))  # type: ignore[arg-type]


def test_delta_is_far_below_one_in_a_population() -> None:
    assert default_delta(943) == 1e-5
    assert default_delta(1_000_000) == pytest.approx(2.5e-7, rel=0.01)
