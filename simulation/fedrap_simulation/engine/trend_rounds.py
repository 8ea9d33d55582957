"""What rounds say was touched lately, all at once; core/fedrap_core/trend.py has the formulas.

A touch at time s that its device tells in a round at time t is 2^-((t - s)/half) there, and has
faded to 2^-((now - s)/half) by now, whichever round it was: so T_j is the sum of that over touches,
each as often as its device took part within the five half-lives in which it is still told. In W_j
it fades slower from that round on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.plan import DAY
from fedrap_core.trend import FADED, USUAL, TrendState
from fedrap_simulation.data.interactions import Histories, Numbers

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reports:
    """When devices take part: a round each `every_days`, each device in it with chance `part`."""

    every_days: float = 1.0
    part: float = 0.1
    separation: int = 2  # b
    cap: int = 10  # K, in all of the data
    noise: float = 0.0  # standard deviation in the sum of a round, in touches


@dataclass(frozen=True, eq=False)
class Participations:
    """Who took part when, in the order of time."""

    devices: npt.NDArray[np.int64]  # (p,)
    times: Numbers  # (p,) of the rounds
    rounds: Numbers  # (R,) ascending


def told_at_once(
    train: Histories, times: Numbers, items: int, half_days: float, now: float
) -> TrendState:
    """T and W as of `now` if every touch were told once, in its own moment."""
    days = (now - times) / DAY  # (n,)

    def faded(half: float) -> Vector:
        return np.bincount(train.items, 2.0 ** (-days / half), minlength=items).astype(np.float64)

    return TrendState(faded(half_days), 0.0, now, faded(USUAL * half_days))


def draw_participations(
    train: Histories, times: Numbers, now: float, reports: Reports, rng: np.random.Generator
) -> Participations:
    """Rounds from the first touch until `now`; who has touched nothing yet takes no part."""
    known = np.full(len(train), np.inf)
    np.minimum.at(known, train.owners, times)  # (U,) first touch
    start = float(times.min()) if len(times) else now
    count = int((now - start) / (DAY * reports.every_days)) + 1
    rounds = np.asarray(now - DAY * reports.every_days * np.arange(count)[::-1], np.float64)
    joined = np.zeros(len(train), dtype=np.int64)
    last = np.full(len(train), -reports.separation)
    devices, when = [], []
    for step, at in enumerate(rounds):
        free = (known <= at) & (step - last >= reports.separation) & (joined < reports.cap)
        chosen = np.flatnonzero(free & (rng.random(len(train)) < reports.part))
        joined[chosen] += 1
        last[chosen] = step
        devices.append(chosen)
        when.append(np.full(len(chosen), at))
    return Participations(np.concatenate(devices), np.concatenate(when), rounds)


def sum_of_rounds(
    train: Histories,
    times: Numbers,
    items: int,
    half_days: float,
    now: float,
    told: Participations,
    reports: Reports,
    rng: np.random.Generator,
) -> TrendState:
    """T and W as of `now`."""
    owners = train.owners
    lasting = -np.log2(FADED) * half_days * DAY  # seconds in which a touch is told
    order = np.lexsort((told.times, told.devices))
    # Device and time in one ascending number, so that one search finds a device's rounds.
    span = 4.0 * (float(np.ptp(told.rounds)) + lasting + DAY)
    start = float(told.rounds.min())
    keys = told.devices[order] * span + (told.times[order] - start)  # (p,)
    first = np.searchsorted(keys, owners * span + (times - start), side="left")
    end = np.searchsorted(keys, owners * span + (times - start + lasting), side="left")
    worth = 2.0 ** (-(now - times) / (half_days * DAY)) * (end - first)  # (n,)
    touches = np.bincount(train.items, worth, minlength=items).astype(np.float64)
    counts = end - first  # (n,) how often each touch is told
    which = np.repeat(np.arange(len(times)), counts)  # (t,) the touch of each telling
    of_it = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = told.times[order][first[which] + of_it]  # (t,) when
    since = (at - times[which]) / half_days + (now - at) / (USUAL * half_days)
    usual = np.bincount(train.items[which], 2.0 ** (-since / DAY), minlength=items).astype(float)
    noises = []
    for half in (half_days, USUAL * half_days):
        left = 2.0 ** (-(now - told.rounds) / (half * DAY))  # (R,) of each round's noise
        noises.append(float(reports.noise**2 * np.sum(left**2)))
    if reports.noise:
        touches = touches + rng.normal(0.0, np.sqrt(noises[0]), items)
        usual = usual + rng.normal(0.0, np.sqrt(noises[1]), items)
    return TrendState(touches, noises[0], now, usual)
