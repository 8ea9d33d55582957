"""The accountants beside the charged one: known answers, and the traps that others fell into."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.privacy import accountants
from fedrap_coordinator.privacy.accountants import (
    LOSSES,
    MOMENTS,
    cyclic_poisson,
    epsilon_of,
    poisson,
    room_for_all,
    unamplified,
)
from fedrap_core.privacy.accounting import charged_epsilon

DELTA = 1e-5


@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL"])
def test_one_release_with_noise_1_under_zero_out(relation: str) -> None:
    import dp_accounting  # brings scipy: only the process that runs this waits for it

    event = dp_accounting.GaussianDpEvent(1.0)
    assert epsilon_of(event, LOSSES, DELTA, relation) == pytest.approx(4.377, abs=5e-4)
    assert epsilon_of(event, MOMENTS, DELTA, relation) == pytest.approx(4.729, abs=5e-4)


def test_replace_one_is_refused_where_it_would_be_understated() -> None:
    """PLD sees twice the sensitivity, the moments accountant does not: 9.997 against 4.729."""
    import dp_accounting

    event = dp_accounting.GaussianDpEvent(1.0)
    assert epsilon_of(event, LOSSES, DELTA, "REPLACE_ONE") == pytest.approx(9.997, abs=5e-4)
    theirs = dp_accounting.rdp.RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    assert theirs.compose(event).get_epsilon(DELTA) == pytest.approx(4.729, abs=5e-4)
    with pytest.raises(ValueError, match="REPLACE_ONE"):
        epsilon_of(event, MOMENTS, DELTA, "REPLACE_ONE")


@pytest.mark.parametrize(
    ("devices", "cohort", "moments", "losses", "cyclic"),
    [
        (943, 94, 7.88, 7.02, 10.10),
        pytest.param(943, 236, 20.3, 18.5, 25.8, marks=pytest.mark.long),
        pytest.param(6040, 100, 1.62, 1.19, 1.82, marks=pytest.mark.long),
        (6040, 604, 7.90, 7.05, 10.13),
        (1_000_000, 1000, 0.636, 0.0552, 0.0971),
        pytest.param(1_000_000, 10_000, 1.21, 0.718, 1.145, marks=pytest.mark.long),
    ],
)
def test_a_hundred_sampled_rounds_with_noise_1(
    devices: int, cohort: int, moments: float, losses: float, cyclic: float
) -> None:
    rate = cohort / devices
    found = {one.accountant: one.epsilon for one in poisson(1.0, rate, 100, DELTA)}
    assert found[MOMENTS] == pytest.approx(moments, rel=5e-3)
    assert found[LOSSES] == pytest.approx(losses, rel=5e-3)
    two = cyclic_poisson(1.0, (1.0,), rate, 2, 100, DELTA)
    assert two.epsilon == pytest.approx(cyclic, rel=5e-3)


@pytest.mark.parametrize(
    ("devices", "cohort", "four"),
    [
        pytest.param(943, 94, 13.84, marks=pytest.mark.long),
        (943, 236, 33.1),
        pytest.param(6040, 100, 2.71, marks=pytest.mark.long),
        pytest.param(6040, 604, 13.89, marks=pytest.mark.long),
        pytest.param(1_000_000, 1000, 0.176, marks=pytest.mark.long),
        (1_000_000, 10_000, 1.75),
    ],
)
def test_a_hundred_rounds_in_four_phases(devices: int, cohort: int, four: float) -> None:
    found = cyclic_poisson(1.0, (1.0,), cohort / devices, 4, 100, DELTA).epsilon
    assert found == pytest.approx(four, rel=5e-3)


@pytest.mark.parametrize(
    ("noise", "participations", "epsilon"),
    [
        (1.0, 100, 91.8), (1.0, 50, 54.4), (1.0, 25, 33.1), (1.0, 10, 17.9), (1.0, 2, 6.57),
        (1.0, 1, 4.38), (2.0, 100, 33.1), (2.0, 50, 20.7), (2.0, 10, 7.51), (2.0, 1, 1.99),
        (4.0, 100, 13.2), (4.0, 50, 8.6), (4.0, 10, 3.34), (4.0, 1, 0.93),
    ],
)  # fmt: skip
def test_what_is_charged_without_any_coin(
    noise: float, participations: int, epsilon: float
) -> None:
    assert charged_epsilon(participations, noise, DELTA) == pytest.approx(epsilon, rel=5e-3)


@pytest.mark.parametrize(
    ("devices", "cohort", "noise", "delta", "one", "two", "four"),
    [
        (943, 94, 2.0, DELTA, 2.33, 3.48, 5.07),
        pytest.param(943, 94, 1.0, 943**-1.1, 5.10, 7.49, 10.6, marks=pytest.mark.long),
        pytest.param(943, 236, 1.0, 943**-1.1, 14.5, 20.8, 28.1, marks=pytest.mark.long),
        (6040, 100, 1.0, 6040**-1.1, 0.943, 1.47, 2.22),
        pytest.param(6040, 604, 1.0, 6040**-1.1, 6.14, 8.91, 12.4, marks=pytest.mark.long),
        (1_000_000, 1000, 1.0, 1e6**-1.1, 0.1084, 0.202, 0.366),
        pytest.param(1_000_000, 10_000, 1.0, 1e6**-1.1, 1.12, 1.69, 2.45, marks=pytest.mark.long),
    ],
)
def test_other_noise_and_other_delta(
    devices: int, cohort: int, noise: float, delta: float, one: float, two: float, four: float
) -> None:
    rate = cohort / devices
    plain = {each.accountant: each.epsilon for each in poisson(noise, rate, 100, delta)}[LOSSES]
    assert plain == pytest.approx(one, rel=5e-3)
    for phases, known in ((2, two), (4, four)):
        found = cyclic_poisson(noise, (1.0,), rate, phases, 100, delta).epsilon
        assert found == pytest.approx(known, rel=5e-3)


def test_phases_that_everybody_joins_cost_what_is_charged() -> None:
    """943 devices, 236 at a time, four phases: the coin is always heads, and nothing is gained."""
    certain = cyclic_poisson(1.0, (1.0,), 236 / 943, 4, 100, DELTA).epsilon
    assert certain == pytest.approx(charged_epsilon(25, 1.0, DELTA), rel=1e-3)


def test_bands_are_charged_in_cyclic_sampling_too() -> None:
    bands = (1.0, 0.75)
    there = cyclic_poisson(1.25, bands, 0.05, 2, 20, DELTA).epsilon
    assert there == pytest.approx(cyclic_poisson(1.0, (1.0,), 0.05, 2, 20, DELTA).epsilon, rel=1e-6)


def test_a_sampled_round_needs_room_for_more_than_its_mean() -> None:
    assert room_for_all(6040, 0.1) == 721


@pytest.mark.parametrize("mu", [0.5, 2.0, 5.0])
def test_neither_accountant_says_less_than_what_is_charged(mu: float) -> None:
    """PLD rounds up from the exact number, RDP lies above it: the charged one is the least."""
    exact = charged_epsilon(1, 1.0 / mu, DELTA)
    by_name = {one.accountant: one.epsilon for one in unamplified(mu, DELTA)}
    assert exact - 1e-6 <= by_name[LOSSES] <= exact * 1.001 + 1e-3
    assert exact < by_name[MOMENTS] < exact * 1.2


def test_every_number_says_what_it_assumes() -> None:
    numbers = [
        *unamplified(1.0, DELTA),
        *poisson(1.0, 0.1, 10, DELTA),
        cyclic_poisson(1.0, (1.0,), 0.1, 2, 10, DELTA),
    ]
    for one in numbers:
        assert one.assumptions
        if "sampling" in one.scheme:
            assert any("nobody learns" in words for words in one.assumptions)


def test_without_the_library_there_is_a_sentence_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def none_of_it(name: str, *rest: Any, **more: Any) -> Any:
        if name == "dp_accounting":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", none_of_it)
    assert not accountants.is_installed()
    with pytest.raises(ConfigError, match=r"fedrap-coordinator\[privacy\]"):
        unamplified(1.0, DELTA)
