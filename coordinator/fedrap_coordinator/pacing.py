"""When a refused device should come back: when it could help, and not all at once. Pure.

A round is expected to last as long as the last ones did, and never longer than `max_seconds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fedrap_coordinator.rounds import Phase, Round, RoundLimits
from fedrap_coordinator.store.identity_protocol import DeviceRecord

REMEMBERED = 9  # rounds that the expectation is made from
_LONGER = 0.25  # of its age: how much longer a late round is expected to last
_SPREAD = 0.25  # of the waiting time, at the least: devices stopped by the same thing come apart


def expected_seconds(durations: Sequence[float], limits: RoundLimits) -> float:
    """How long a round will take: the median of the last ones, or `min_seconds` before any."""
    if not durations:
        return limits.min_seconds
    return min(max(0.0, median(durations)), limits.max_seconds)


def until_next_round(
    round_: Round | None, expected: float, limits: RoundLimits, now: float
) -> float:
    """Seconds until the open round is over, as far as one can tell.

    A round that is older than expected is taken to last a quarter longer than it did by now, so
    that a long night costs a device a few questions and not one every minute. `max_seconds` ends
    every round.
    """
    if round_ is None or round_.phase is not Phase.COLLECTING:
        return 0.0
    age = max(0.0, now - round_.opened_at)  # a clock that jumped back makes nobody wait longer
    return max(0.0, min(max(expected - age, _LONGER * age), limits.max_seconds - age))


def until_rested(known: DeviceRecord, separation: int, step: int) -> int:
    """Steps that must be released before this device may join again."""
    return 0 if known.last_step is None else max(0, known.last_step + separation - step)


def until_old_enough(known: DeviceRecord, step: int, expected: float, now: float) -> float:
    """Seconds until a new key has waited long enough."""
    steps = max(0, known.first_step - step) * expected
    return max(known.not_before - now, min(steps, max(0.0, known.free_at - now)), 0.0)


def come_back(seconds: float, least: float, uniform: float) -> float:
    """When to come back: not before `seconds` nor `least`, spread by `uniform` in [0, 1)."""
    return max(seconds, least) + max(least, _SPREAD * seconds) * uniform
