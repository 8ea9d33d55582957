"""What rounds say was touched lately, all at once; core/fedrap_core/trend.py has the formulas.

Where all are asked at one moment it is one vector; where each is asked at the own end, the vector
that a device had by then.

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
from fedrap_core.trend import FADED, USUAL, TrendState, trend_of_items
from fedrap_simulation.data.interactions import Histories, Numbers, Rows
from fedrap_simulation.engine.compiled import Singles

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


@dataclass(frozen=True, eq=False)
class DailyTrends:
    """t as each user's device had it: of the release at the last midnight before the user was seen.

    Every touch of the days before is in it, told once in its own moment; none of that very day.
    """

    items: Rows  # (n,) of all touches
    times: Numbers  # (n,) ascending
    midnights: Numbers  # (U,) of each user's release
    size: int  # m
    half_days: float
    contrast: float

    def of(self, users: Rows) -> Singles:
        """t: (len(users), m)."""
        found = np.zeros((len(users), self.size), dtype=np.float32)
        touches, usual = np.zeros(self.size), np.zeros(self.size)  # T and W as of `at`
        done, at, trend = 0, -np.inf, np.zeros(self.size, dtype=np.float32)
        for row in np.argsort(self.midnights[users], kind="stable"):
            now = self.midnights[users[row]]
            if now > at:
                end = int(np.searchsorted(self.times, now, side="left"))
                since, age = (now - at) / DAY, (now - self.times[done:end]) / DAY
                for total, half in ((touches, self.half_days), (usual, USUAL * self.half_days)):
                    new = np.bincount(self.items[done:end], 2.0 ** (-age / half), self.size)
                    total *= 2.0 ** (-since / half)
                    total += new
                state = TrendState(touches, 0.0, now, usual, self.contrast)
                known = trend_of_items(state)
                trend = np.zeros(self.size, dtype=np.float32)
                if known is not None:
                    trend = known.astype(np.float32)
                done, at = end, now
            found[row] = trend
        return found


def daily_trends(
    train: Histories, times: Numbers, items: int, half_days: float, contrast: float
) -> DailyTrends:
    """Of histories with times in seconds since 1970."""
    order = np.argsort(times, kind="stable")
    seen = np.full(len(train), -np.inf)
    np.maximum.at(seen, train.owners, times)
    midnights = np.floor(seen / DAY) * DAY
    return DailyTrends(train.items[order], times[order], midnights, items, half_days, contrast)


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
