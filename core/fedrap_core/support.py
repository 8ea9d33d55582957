"""How many devices stand behind a row of C, and how far the row may move: against promoted items.

The sum of a row is at most (devices that touched it) x bound long, so its norm over the bound is a
number of devices that touched it at the least. It comes from the noised sum alone: devices tell
nothing more for it, and it costs no epsilon. s devices that work together fake at most s in a
round, s·K in their lives.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fedrap_core.model import Rows

Floats = npt.NDArray[np.float64]
MARGIN = 4.0  # noise of k numbers is longer than sqrt(k) + 4 deviations once in 3,000 rows


def noise_length(spread: float, dim: int) -> float:
    """What the noise of a row hardly ever exceeds."""
    return spread * (math.sqrt(dim) + MARGIN)


def count_devices(values: Floats, devices: int, bound: float, spread: float) -> Floats:
    """Devices that touched each row of a round's sum, at the least: (t,), not whole numbers.

    |sum + noise| <= touched·bound + |noise|. Without noise it never counts too many; with noise it
    does so once in 3,000 rows.

    Args:
        values: (t, k) the sum, clipped and noised.
        devices: how many are in it.
        bound: the longest row of one device; inf counts nothing.
        spread: standard deviation of the noise in each number.
    """
    if math.isinf(bound):
        return np.zeros(len(values))
    norms = _lengths(values)
    known = np.maximum(0.0, norms - noise_length(spread, values.shape[1]))
    return np.minimum(known / bound, float(devices))


def add_support(before: Floats | None, rows: Rows, counted: Floats, size: int) -> Floats:
    """Support of every row after a round: (m,). A device counts again in each of its rounds."""
    support = np.zeros(size)
    if before is not None:
        support[: len(before)] = before
    support[rows] += counted
    return support


def withheld_rows(support: Floats | None, least: float, size: int) -> npt.NDArray[np.bool_]:
    """Rows that too few devices stand behind to be recommended: (m,)."""
    if least <= 0:
        return np.zeros(size, dtype=np.bool_)
    known = np.zeros(size)
    if support is not None:
        known[: len(support)] = support
    return known < least


def cap_moves(here: Floats, moved: Floats, reach: npt.ArrayLike) -> Floats:
    """`moved`, with no row further from `here` than its reach: (t, k)."""
    away = moved - here
    share = np.minimum(1.0, reach / np.maximum(_lengths(away), 1e-300))  # (t,)
    return np.where((share < 1.0)[:, None], here + share[:, None] * away, moved)


def reach_of_rows(common: Floats, support: Floats, row_step: float, least: float) -> Floats:
    """How far each row may move in one step: (m,).

    `row_step` root mean square norms of C; of that only support/least where the row is cold.
    """
    usual = math.sqrt(float(np.mean(np.sum(common**2, axis=1)))) if len(common) else 0.0
    warm = np.minimum(1.0, support / least) if least > 0 else np.ones(len(support))
    return row_step * usual * warm


def _lengths(rows: Floats) -> Floats:
    """Norm of each row: (t,); inf where its square is too large for a number."""
    with np.errstate(over="ignore"):
        return np.asarray(np.linalg.norm(rows, axis=1))
