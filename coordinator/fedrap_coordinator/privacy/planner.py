"""Before anybody ships: which noise, which b and K give a wanted epsilon, and what it does to C.

Everything here is the unamplified claim. Errors are of the noise alone, in units of the clip S: of
one round's mean, and of the mean summed over the steps, which is what C is made of (root of the
mean over the steps, where every step counts in full).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedrap_coordinator.errors import ConfigError
from fedrap_core.privacy.accounting import charged_epsilon, noise_for
from fedrap_core.privacy.banded import INDEPENDENT, inverse_series, optimal_coefficients, sum_error

MOST_BANDS = 64  # what a plan can carry


@dataclass(frozen=True)
class Wanted:
    """What the operator knows."""

    devices: int  # N
    cohort: int  # n
    rounds: int  # T
    epsilon: float
    delta: float
    separation: int | None = None  # b, or all that are possible
    cap: int | None = None  # K, or the least that T and b need
    items: int | None = None  # m
    dim: int = 32  # k


@dataclass(frozen=True)
class Option:
    """One way to keep the guarantee."""

    mechanism: str  # independent or banded
    separation: int
    cap: int
    coefficients: tuple[float, ...]
    noise: float  # z
    mu: float
    epsilon: float
    round_error: float  # of one coordinate of one round's mean
    sum_error: float  # of one coordinate of the sums over steps of those means
    noise_to_signal: float | None  # whole noise of a round over the largest possible mean


def default_delta(devices: int) -> float:
    """min(1e-5, N^-1.1): well below one in a population."""
    return float(min(1e-5, devices**-1.1))


def options(wanted: Wanted) -> list[Option]:
    """Every b with independent and with banded noise, least `sum_error` first.

    Raises:
        ConfigError: no b or K lets so few devices fill so many rounds; says what would.
    """
    _check(wanted)
    found = []
    for separation in _separations(wanted):
        cap = wanted.cap or math.ceil(wanted.rounds / separation)
        strategies: list[tuple[float, ...]] = [INDEPENDENT]
        bands = min(separation, wanted.rounds, MOST_BANDS)
        if bands > 1:
            strategies.append(optimal_coefficients(bands, wanted.rounds))
        found += [_option(wanted, separation, cap, one) for one in strategies]
    return sorted(found, key=lambda one: one.sum_error)


def _option(wanted: Wanted, separation: int, cap: int, coefficients: tuple[float, ...]) -> Option:
    charged = noise_for(wanted.epsilon, wanted.delta, cap)
    noise = math.ceil(charged * math.hypot(*coefficients) * 1e4) / 1e4  # as it can be typed
    charged = noise / math.hypot(*coefficients)
    series = inverse_series(coefficients, wanted.rounds)
    spread = math.sqrt(float(np.mean(np.cumsum(series**2))))  # of N_t, mean over the steps
    in_round = noise * spread / wanted.cohort
    return Option(
        mechanism="independent" if len(coefficients) == 1 else "banded",
        separation=separation,
        cap=cap,
        coefficients=coefficients,
        noise=noise,
        mu=math.sqrt(cap) / charged,
        epsilon=charged_epsilon(cap, charged, wanted.delta),
        round_error=in_round,
        sum_error=noise * sum_error(coefficients, wanted.rounds) / wanted.cohort,
        noise_to_signal=(
            None if wanted.items is None else in_round * math.sqrt(wanted.items * wanted.dim)
        ),
    )


def _separations(wanted: Wanted) -> Sequence[int]:
    if wanted.separation is not None:
        return [wanted.separation]
    most = min(wanted.devices // wanted.cohort, wanted.rounds)
    doubled = [2**power for power in range(1, most.bit_length()) if 2**power <= most]
    return sorted({*doubled, most})


def _check(wanted: Wanted) -> None:
    if min(wanted.devices, wanted.cohort, wanted.rounds) < 1 or not wanted.epsilon > 0:
        raise ConfigError("devices, cohort, rounds and epsilon must be above 0")
    if not 0 < wanted.delta < 1:
        raise ConfigError("delta lies between 0 and 1")
    if min(wanted.items or 1, wanted.dim, wanted.separation or 1, wanted.cap or 1) < 1:
        raise ConfigError("items, dim, separation and cap must be above 0")
    most = wanted.devices // wanted.cohort
    if (wanted.separation or 1) > most:
        raise ConfigError(
            f"with {wanted.devices} devices and {wanted.cohort} in a round a device is needed "
            f"again after {most} steps: separation can be {most} at the most"
        )
    if wanted.separation is None and most < 2 <= wanted.rounds:
        raise ConfigError(
            "more than half of the devices are in a round, so some are in two consecutive ones; "
            "make the cohort smaller, or say --separation 1"
        )
    least = math.ceil(wanted.rounds * wanted.cohort / wanted.devices)
    if wanted.cap is not None and wanted.cap < least:
        raise ConfigError(
            f"{wanted.rounds} rounds of {wanted.cohort} need {least} participations of each of "
            f"{wanted.devices} devices: cap must be at least {least}"
        )
