"""The accountants beside the one that is charged: moments (RDP), PLD, and amplified numbers.

dp-accounting does the mathematics; it comes with `pip install 'fedrap-coordinator[privacy]'` and is
imported when first asked. What a device is charged never comes from here but from the core's
privacy/accounting.py: the numbers of this module that are smaller rest on assumptions, which each
carries in words.

All of it is zero-out adjacency (REPLACE_SPECIAL), z = noise of the sum over the clip. Replace-one
is refused: dp-accounting 0.6.0 reads z differently in its two accountants, and the moments one
then understates epsilon by a factor of two in z.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedrap_coordinator.errors import ConfigError

ZERO_OUT = "REPLACE_SPECIAL"
MOMENTS, LOSSES = "moments accountant (RDP)", "privacy loss distribution (PLD)"
_SECRET = (
    "every device tosses its coin itself and nobody learns the outcome: the numbers hold against "
    "who sees only the releases, not against the coordinator, which knows who uploaded"
)


@dataclass(frozen=True)
class Accounted:
    """One epsilon, where it comes from, and what must be true for it."""

    scheme: str
    accountant: str
    epsilon: float
    assumptions: tuple[str, ...]


def unamplified(mu: float, delta: float) -> list[Accounted]:
    """Both accountants on one Gaussian mechanism: they must not lie below what is charged."""
    words = ("nothing is assumed about who takes part when",)
    event = _events().GaussianDpEvent(1.0 / mu)
    return [
        Accounted("unamplified", kind, epsilon_of(event, kind, delta), words)
        for kind in (MOMENTS, LOSSES)
    ]


def poisson(noise: float, rate: float, rounds: int, delta: float) -> list[Accounted]:
    """Independent noise, each device in each round with probability `rate`, no rule between."""
    dp = _events()
    once = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
    event = dp.SelfComposedDpEvent(once, rounds)
    words = (
        f"each device joins each round with probability {rate:.4g}, independently of all others "
        "and of its own past: there is no separation between its rounds",
        "no round turns anybody away: a cohort that is cut off destroys this number",
        _SECRET,
    )
    return [
        Accounted(
            "Poisson sampling, independent noise", kind, epsilon_of(event, kind, delta), words
        )
        for kind in (MOMENTS, LOSSES)
    ]


def cyclic_poisson(
    noise: float,
    coefficients: Sequence[float],
    rate: float,
    separation: int,
    rounds: int,
    delta: float,
) -> Accounted:
    """Each device in one of b phases for good (Choquette-Choo et al. 2023, Theorem 1)."""
    dp = _events()
    joined = min(1.0, separation * rate)
    inner = dp.GaussianDpEvent(noise / math.hypot(*coefficients))
    once = dp.PoissonSampledDpEvent(joined, inner)
    event = dp.SelfComposedDpEvent(once, math.ceil(rounds / separation))
    words = (
        f"each device draws one of {separation} phases once, and in a round of its phase joins "
        f"with probability {joined:.4g}",
        "no round turns anybody away",
        _SECRET,
    )
    kind = "banded" if len(coefficients) > 1 else "independent"
    scheme = f"cyclic Poisson sampling, {kind} noise"
    return Accounted(scheme, LOSSES, epsilon_of(event, LOSSES, delta), words)


def room_for_all(devices: int, rate: float) -> int:
    """A cohort that Poisson sampling exceeds hardly ever: mean and five standard deviations."""
    return math.ceil(devices * rate + 5 * math.sqrt(devices * rate * (1 - rate)))


def epsilon_of(event: Any, accountant: str, delta: float, relation: str = ZERO_OUT) -> float:
    """Epsilon of a DpEvent.

    Raises:
        ValueError: the moments accountant was asked about replace-one, which it understates.
    """
    dp = _events()
    adjacency = dp.NeighboringRelation[relation]
    if accountant == MOMENTS:
        if adjacency is dp.NeighboringRelation.REPLACE_ONE:
            raise ValueError(
                "the moments accountant of dp-accounting takes z as noise over sensitivity under "
                "REPLACE_ONE and so reports half of it; ask for zero-out, or use PLD"
            )
        from dp_accounting.rdp import RdpAccountant

        found = RdpAccountant(neighboring_relation=adjacency)
    else:
        from dp_accounting.pld import PLDAccountant

        found = PLDAccountant(adjacency)
    return float(found.compose(event).get_epsilon(delta))


def is_installed() -> bool:
    """Can this module answer?"""
    try:
        _events()
    except ConfigError:
        return False
    return True


def _events() -> Any:
    try:
        import dp_accounting
        from absl import logging as absl_logging
    except ImportError as error:
        raise ConfigError(
            "amplified numbers need dp-accounting: pip install 'fedrap-coordinator[privacy]'"
        ) from error
    absl_logging.set_verbosity(
        absl_logging.ERROR
    )  # fractional orders that do not converge: harmless
    return dp_accounting
