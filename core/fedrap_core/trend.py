"""What was touched lately: one number an item, that rounds sum and devices add to their scores.

A device says of each item that it touched with liking, newest touch `age` days ago:
    v_j = scale·2^(-age/half)                     1/32 and less is left out
The coordinator adds the rounds' sums up, older ones with the same decay, all in touches, and again
with one that is USUAL times slower:
    T_j <- 2^(-days/half)·T_j + (sum of v_j)/scale
    W_j <- 2^(-days/(USUAL·half))·W_j + (sum of v_j)/scale
and publishes, in int8,
    t_j = max(0, log max(1, T_j/floor) - contrast·log max(1, W_j·(sum T)/(sum W)/floor))
    floor = max(1, LOUD standard deviations of the noise in T)
A device adds trend·t_j to its scores. What one device alone touched, and what noise alone can make,
is 0 there. With a contrast of 0 this is what is popular lately; with more, what is more popular
than usual, for what always is says little about who comes back. v is clipped, noised and charged
with the rest of an update; all after it is free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.model import History
from fedrap_core.plan import DAY, TrendMethod
from fedrap_core.sparse import RowPart

FADED = 1.0 / 32.0  # of a touch: five half-lives old
LOUD = 3.0  # standard deviations of its noise above which a sum says something
USUAL = 8.0  # half-lives of the trend in one of what is usual
LEAST_HEARD = 3  # items above their noise, or there is no trend

Vector = npt.NDArray[np.float64]


def touched_lately(history: History, now: float, method: TrendMethod) -> RowPart:
    """A device's v, `now` in seconds since 1970; nothing where times are not known."""
    times = np.full(len(history.rows), -np.inf) if history.times is None else history.times
    ages = np.maximum(now - times, 0.0) / DAY  # (n,)
    values = 2.0 ** (-ages / method.half_days)
    there = (values > FADED) & (history.weights > 0)
    found, where = np.unique(history.rows[there], return_inverse=True)
    newest = np.zeros(len(found))
    np.maximum.at(newest, where, values[there])
    return RowPart(found.astype(np.int64), method.scale * newest[:, None])


@dataclass(frozen=True, eq=False)
class TrendState:
    """What the coordinator remembers between releases; all of it follows from released sums."""

    touches: Vector  # (m,) T, as of `at`
    variance: float  # of the noise in each T_j
    at: float  # seconds since 1970
    usual: Vector | None = None  # (m,) W; None: nothing is known of it
    contrast: float = 0.0  # of what it is published with


def follow_trend(
    state: TrendState | None,
    touches: RowPart,
    spread: float,
    at: float,
    half_days: float,
    size: int,
    contrast: float = 0.0,
) -> TrendState:
    """T and W after a round's sum.

    Args:
        touches: the sum of v/scale.
        spread: standard deviation of the noise in each number of it. Correlated noise takes some
            back, so that adding up variances states too much, never too little.
        at: when the round was; time never runs backwards here.
        size: m of the release to come; new items were not touched yet.
    """
    before = TrendState(np.zeros(size), 0.0, at) if state is None else state
    now = max(at, before.at)
    halves = (now - before.at) / (DAY * half_days)
    left = 2.0**-halves

    def after(old: Vector, share: float) -> Vector:
        total = np.zeros(size)
        total[: len(old)] = share * old
        total[touches.rows] += touches.values[:, 0]
        return total

    variance = left**2 * before.variance + spread**2
    usual = after(np.zeros(0) if before.usual is None else before.usual, 2.0 ** (-halves / USUAL))
    return TrendState(after(before.touches, left), variance, now, usual, contrast)


def faded_trend(state: TrendState, at: float, half_days: float) -> TrendState:
    """T at a later time at which no round has said anything."""
    nothing = RowPart(np.zeros(0, dtype=np.int64), np.zeros((0, 1)))
    size = len(state.touches)
    return follow_trend(state, nothing, 0.0, at, half_days, size, state.contrast)


def trend_of_items(state: TrendState) -> Vector | None:
    """t: (m,); None where hardly an item stands above its noise, or all has faded."""
    floor = max(1.0, LOUD * math.sqrt(state.variance))
    heard = state.touches > floor  # (m,)
    if np.count_nonzero(heard) < (LEAST_HEARD if state.variance > 0 else 1):
        return None
    found = np.zeros(len(state.touches))
    found[heard] = np.log(state.touches[heard] / floor)
    if state.usual is None or not state.contrast:
        return found
    lately, ever = float(state.touches.sum()), float(state.usual.sum())
    if lately <= 0 or ever <= 0:
        return found  # noise alone
    expected = state.usual * (lately / ever)  # (m,) if nothing were new
    usual = np.log(np.maximum(1.0, expected / floor))
    return np.asarray(np.maximum(0.0, found - state.contrast * usual))
