"""When a phone is ready: charging, on wifi and idle. Pure, and the same each time it is asked.

A phone's day is its own: its night begins a little earlier or later than its neighbour's. Within
an hour it is ready or not, drawn from the device, the day and the hour, so no state is kept.
"""

from __future__ import annotations

import math

import numpy as np

from fedrap_simulation.scenarios.scenario import DAY, Phones

HOUR = 3600.0
_SHIFT = 2.0  # hours, how far phones' days lie apart


def draw(seed: int, *keys: int) -> float:
    """A number in [0, 1) that follows from its arguments: splitmix64 over them."""
    mixed = (seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) & 0xFFFFFFFFFFFFFFFF
    for key in keys:
        mixed = (mixed ^ (key & 0xFFFFFFFFFFFFFFFF)) + 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        mixed ^= mixed >> 31
    return (mixed >> 11) * 2.0**-53


def is_ready(phones: Phones, seed: int, device: int, now: float) -> bool:
    """May this phone run a round at `now`?"""
    local = now / HOUR + _SHIFT * (draw(seed, device, 1) - 0.5)
    hour = math.floor(local)
    return draw(seed, device, 2, hour) < phones.ready[hour % 24]


def next_ready(phones: Phones, seed: int, device: int, now: float) -> float:
    """The first moment from `now` on at which it may, within a week; else a week later."""
    moment = now
    for _ in range(7 * 24):
        if is_ready(phones, seed, device, moment):
            return moment
        local = moment / HOUR + _SHIFT * (draw(seed, device, 1) - 0.5)
        # A second into its next hour, and some minutes more: not all at once.
        into = 1.0 + 600.0 * draw(seed, device, 3, int(local))
        moment += (math.floor(local) + 1.0 - local) * HOUR + into
    return now + 7 * DAY


def compute_seconds(phones: Phones, seed: int, device: int) -> float:
    """How long this phone needs for a local round: log-normal from phone to phone."""
    a, b = draw(seed, device, 4), draw(seed, device, 5)
    normal = np.sqrt(-2.0 * np.log(1.0 - a)) * np.cos(2.0 * np.pi * b)
    return float(phones.compute_seconds * np.exp(phones.compute_spread * normal))
