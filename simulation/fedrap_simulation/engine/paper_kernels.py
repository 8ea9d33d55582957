"""The local step of `paper` in float32, compiled: what fedrap_core.paper.training does in float64.

    u   -= eta_u·du                   b -= eta_u·db               (objective.py has du, db, g)
    D_j -= eta·g_j·u - s_j (D_j - C_j)
    C_j  = S_theta(C_j - eta·g_j·u - s_j (D_j - C_j)),  theta = eta·mu·w_j/k

A row without samples has g, s and theta 0, so a step touches the rows of its batch alone. Without
D its rate is 0 and its rows are zeros, without C the same: no kernel needs to know the variant.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fedrap_core.paper.problem import Schedule
from fedrap_core.paper.training import GROWTH, LIMIT
from fedrap_simulation.engine.compiled import compiled

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

PENALTIES = {"none": 0, "l1": 1, "l2": 2}
_TINY, _HALF, _ONE, _ZERO = (np.float32(one) for one in (1e-30, 0.5, 1.0, 0.0))
_GROWTH, _LIMIT = np.float32(GROWTH), np.float32(LIMIT)
_NO_SIGN = np.int32(0x7FFFFFFF)


def pack_schedule(schedule: Schedule, *, personal: bool) -> Floats:
    """The rates and weights that `local_step` reads, in its order: (S, 5)."""
    rate = schedule.personal_rate if personal else np.zeros_like(schedule.personal_rate)
    columns = (schedule.user_rate, rate, schedule.common_rate, schedule.apart, schedule.sparse)
    return np.stack(columns, axis=1).astype(np.float32)


@compiled()
def local_step(
    common: Floats,
    personal: Floats,
    user: Floats,
    bias: np.float32,
    slope: Floats,
    rows: Rows,
    weights: Floats,
    liked: Floats,
    rates: Floats,
    reach: np.float32,
    penalty: int,
) -> np.float32:
    """One step over `rows` of C and D, both (n, k), and u (k,), in place; gives the new b.

    `weights` and `liked` are w_j and l_j of each entry of `rows`. `slope` (k,) is room for du.
    """
    dim = len(user)
    user_rate, rate, common_rate, apart, sparse = rates
    furthest = reach * np.float32(math.sqrt(dim))
    push = rate * np.float32(2.0) * apart / np.float32(dim)  # eta·e_j / w_j
    level = common_rate * sparse / np.float32(dim)  # theta / w_j
    bias_slope = _ZERO
    slope[:] = _ZERO
    for each in range(len(rows)):
        c, d = common[rows[each]], personal[rows[each]]  # (k,) each
        weight = weights[each]
        logit, apart_now = bias, _ZERO
        for f in range(dim):
            logit += user[f] * (c[f] + d[f])
            apart_now += (d[f] - c[f]) * (d[f] - c[f])
        g = weight / (_ONE + np.float32(math.exp(-logit))) - liked[each]
        # s_j: the gradient step until it would carry the row beyond `reach`.
        room = furthest / max(np.float32(math.sqrt(apart_now)), _TINY) - _ONE
        s = min(push * weight, _HALF * max(room, _ZERO))
        theta = level * weight
        shrink = _ONE / (_ONE + np.float32(2.0) * theta) if penalty == 2 else _ONE
        if penalty != 1:
            theta = _ZERO
        bias_slope += g
        down, common_down = rate * g, common_rate * g
        for f in range(dim):
            pushed = s * (d[f] - c[f])
            slope[f] += g * (c[f] + d[f])
            moved = c[f] - common_down * user[f] - pushed
            d[f] += pushed - down * user[f]
            c[f] = shrink * (moved - min(max(moved, -theta), theta))
    for f in range(dim):
        user[f] -= user_rate * slope[f]
    new_bias: np.float32 = bias - user_rate * bias_slope
    return new_bias


@compiled()
def take_rows(source: Floats, rows: Rows, target: Floats) -> None:
    """Copy `rows` of `source` (m, k) to the first rows of `target`."""
    for each in range(len(rows)):
        old, new = source[rows[each]], target[each]  # views, or each entry costs a check
        for f in range(len(old)):
            new[f] = old[f]


@compiled()
def put_rows(source: Floats, rows: Rows, target: Floats) -> None:
    """Copy the first rows of `source` to `rows` of `target` (m, k)."""
    for each in range(len(rows)):
        old, new = source[each], target[rows[each]]
        for f in range(len(old)):
            new[f] = old[f]


@compiled()
def moved_norm(before: Floats, rows: Rows, after: Floats) -> float:
    """The norm of a device's delta: `after` (n, k) against `rows` of `before` (m, k)."""
    total = 0.0
    for each in range(len(rows)):
        old, new = before[rows[each]], after[each]
        for f in range(len(old)):
            total += np.float64(new[f] - old[f]) ** 2
    return math.sqrt(total)


@compiled()
def add_moved(before: Floats, rows: Rows, after: Floats, share: np.float32, sums: Floats) -> None:
    """Add `share` of a device's delta to `sums` (m, k)."""
    for each in range(len(rows)):
        old, new, out = before[rows[each]], after[each], sums[rows[each]]
        for f in range(len(old)):
            out[f] += share * (new[f] - old[f])


@compiled()
def largest_bits(values: Floats) -> np.int32:
    """The largest absolute entry as its bits.

    Without the sign, floats and their bits have the same order, NaN comes after everything, and
    whole numbers have a maximum that uses the width of the processor.
    """
    bits = values.view(np.int32)
    peak = np.int32(0)
    for row in range(bits.shape[0]):
        for f in range(bits.shape[1]):
            peak = max(peak, bits[row, f] & _NO_SIGN)
    return peak


@compiled()
def largest_entry(common: Floats, personal: Floats, user: Floats, bias: np.float32) -> np.float32:
    """The largest absolute entry of a local model; NaN stays NaN."""
    rest = np.empty((1, len(user) + 1), dtype=np.float32)
    rest[0, :-1], rest[0, -1] = user, bias
    peak = np.empty(1, dtype=np.int32)
    peak[0] = max(max(largest_bits(common), largest_bits(personal)), largest_bits(rest))
    largest: np.float32 = peak.view(np.float32)[0]
    return largest


@compiled()
def allowed_entry(largest: np.float32) -> np.float32:
    """What `check_result` of the core lets a round grow to that starts with this entry."""
    return min(_LIMIT, _GROWTH * (_ONE + largest))
