"""Epsilon: known answers, an independent library, and the corners."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.plan import Adapt, Privacy
from fedrap_core.privacy.accounting import (
    charged_epsilon,
    charged_noise,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    noise_for,
)
from tests.core.made import quick


def test_one_release_with_noise_1_costs_4_377_at_delta_1e_5() -> None:
    assert charged_epsilon(1, 1.0, 1e-5) == pytest.approx(4.377, abs=5e-4)


@pytest.mark.parametrize(
    ("participations", "noise", "epsilon"),
    [
        (100, 1.0, 91.8), (50, 1.0, 54.4), (25, 1.0, 33.1), (10, 1.0, 17.9), (2, 1.0, 6.57),
        (100, 2.0, 33.1), (50, 2.0, 20.7), (10, 2.0, 7.51), (1, 2.0, 1.99),
        (100, 4.0, 13.2), (50, 4.0, 8.6), (10, 4.0, 3.34), (1, 4.0, 0.93),
    ],
)  # fmt: skip
def test_many_releases_cost_what_the_design_says(
    participations: int, noise: float, epsilon: float
) -> None:
    assert charged_epsilon(participations, noise, 1e-5) == pytest.approx(epsilon, rel=5e-3)


@pytest.mark.parametrize("noise", [0.3, 0.5, 1.0, 2.0, 10.0, 50.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-5, 1e-2, 0.3])
def test_an_independent_library_agrees(noise: float, delta: float) -> None:
    import dp_accounting  # brings scipy: only the process that runs this waits for it

    theirs = dp_accounting.get_epsilon_gaussian(noise, delta)
    assert charged_epsilon(1, noise, delta) == pytest.approx(theirs, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("participations", [2, 9, 100])
def test_taking_part_k_times_is_one_mechanism_with_noise_over_root_k(participations: int) -> None:
    once = charged_epsilon(1, 3.0 / math.sqrt(participations), 1e-5)
    assert charged_epsilon(participations, 3.0, 1e-5) == pytest.approx(once, rel=1e-8)


@quick
@given(st.floats(0.05, 60.0), st.floats(1e-12, 0.4))
def test_epsilon_is_the_inverse_of_delta_and_errs_upwards(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    if epsilon > 1e-6:
        assert gaussian_delta(mu, epsilon - 2e-9 * max(1.0, epsilon)) > delta * (1 - 1e-6)


@quick
@given(st.floats(0.05, 60.0), st.floats(0.0, 500.0), st.floats(1e-3, 50.0))
def test_delta_falls_with_epsilon_and_rises_with_mu(mu: float, epsilon: float, more: float) -> None:
    here = gaussian_delta(mu, epsilon)
    assert -1e-12 <= here <= 1.0
    assert gaussian_delta(mu, epsilon + more) <= here + 1e-12
    assert gaussian_delta(mu + more, epsilon) >= here - 1e-12


def test_the_far_formula_continues_the_near_one() -> None:
    mu = 20.0
    at = mu * (30.0 - mu / 2)  # where mu/2 + epsilon/mu is 30
    near, far = gaussian_delta(mu, at * (1 - 1e-12)), gaussian_delta(mu, at * (1 + 1e-12))
    assert near == pytest.approx(far, rel=1e-8)


def test_without_noise_epsilon_is_infinite() -> None:
    assert gaussian_mu(1, 0.0) == math.inf
    assert charged_epsilon(1, 0.0, 1e-5) == math.inf


def test_who_never_took_part_is_charged_nothing() -> None:
    assert charged_epsilon(0, 1.0, 1e-5) == 0.0
    assert charged_epsilon(0, 0.0, 1e-5) == 0.0


def test_so_much_noise_that_delta_alone_covers_it_costs_nothing() -> None:
    assert charged_epsilon(1, 1e4, 1e-2) == 0.0


@pytest.mark.parametrize("noise", [1e-3, 1e-6, 1e-9, 1e-12, 1e-60, 1e-150])
def test_hardly_any_noise_costs_about_half_of_its_inverse_square(noise: float) -> None:
    """A plan may name any noise above zero; the ledger must answer, not overflow."""
    assert charged_epsilon(1, noise, 1e-5) == pytest.approx(0.5 / noise / noise, rel=0.01)


def test_noise_below_what_floats_can_square_costs_everything() -> None:
    assert charged_epsilon(1, 1e-300, 1e-5) == math.inf


@pytest.mark.parametrize(
    ("mu", "delta"), [(1.0, 0.0), (1.0, 1.0), (1.0, -0.1), (-1.0, 0.1), (math.nan, 0.1)]
)
def test_what_cannot_be_accounted_for_is_a_mistake_of_the_caller(mu: float, delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        gaussian_epsilon(mu, delta)


@quick
@given(st.floats(0.05, 60.0), st.floats(1e-12, 0.1), st.integers(1, 200))
def test_the_noise_for_an_epsilon_costs_that_epsilon_and_no_more(
    epsilon: float, delta: float, participations: int
) -> None:
    noise = noise_for(epsilon, delta, participations)
    assert charged_epsilon(participations, noise, delta) <= epsilon
    assert charged_epsilon(participations, noise * 0.999, delta) > epsilon * 0.99


@pytest.mark.parametrize(("epsilon", "participations"), [(0.0, 1), (-1.0, 1), (1.0, 0)])
def test_no_noise_gives_epsilon_zero(epsilon: float, participations: int) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        noise_for(epsilon, 1e-5, participations)


def test_bands_and_a_bit_are_charged_together() -> None:
    """mu^2 = |c|^2(1/z^2 + 1/(2 sigma_b)^2); z_Delta of Andrew et al. is its inverse."""
    assert charged_noise(2.0, (1.0,), None) == 2.0
    assert charged_noise(2.0, (1.0, 0.75), None) == pytest.approx(2.0 / 1.25)
    assert charged_noise(0.0, (1.0, 0.75), 1.0) == 0.0
    whole, bit = 1.0, 10.0
    update = (whole**-2 - (2 * bit) ** -2) ** -0.5
    assert charged_noise(update, (1.0,), bit) == pytest.approx(whole)
    rule = Privacy(noise=2.0, coefficients=(1.0, 0.75), separation=2, adapt=Adapt(noise=1.0))
    assert rule.charged_noise == pytest.approx(2.0 / 1.25 / math.sqrt(2))
