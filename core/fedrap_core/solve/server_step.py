"""The coordinator's step on C from a round's noised sum, and how far one row may move in it.

With n devices in the round, g_j and x x' as devices send them (device_share.py), and S the running
mean of x x':
    grad_j = mean g_j + w0·C_j S + (lambda_C/N)·C_j
    H      = (w0 + alpha·p)·S + (lambda_C/N)·I
    E_j   <- C_j + (1 - eta_j)·R_j - eta_j·grad_j·H^-1   only rows that this round touched
             and no further than its reach, where `row_step` is set
    C     <- E with its smallest entries set to zero   a share of them, growing
    R     <- E where C is zero                         from the step on that has all zeros
All of it is linear in what devices send. N is the population, p the mean share of the catalogue
in one history: two scalars of the settings, not statistics that would have to leave a device.
eta_j falls with the steps that row j was there for, so a new item moves as all did at the start.

R is what zeros hide. Without it an entry that is zero comes back only where one step takes it
above the largest that is hidden, so where the data wants it 1/eta times as large. H·R_j is how much
of the gradient at C_j is gone at C_j + R_j, so R_j goes to where E_j would be without zeros, and an
entry comes back once that is large enough to be shown.

Against promoted items a row has a support, the number of devices that stand behind it. The sum of
a row is at most (devices that touched it) x bound long, so its norm over the bound is the least
number of devices that touched it. It comes from the noised sum alone: devices tell nothing more
for it, and it costs no epsilon. s devices that work together fake at most s in a round.

What is left to them is that an aligned row at the bound is worth several honest fans. Where devices
that touch a row are counted (`RoundSum.touches`), the mean squared score of a row, C_j' S C_j, is
held to `score_cap` times what rows of its popularity have:
    C_j' S C_j <= score_cap·r·(p_j + sigma + 1/n),    r = median of C_i' S C_i / p_i, popular rows
At the optimum of an honest row it is (alpha·p_j/w0)·mean over fans of s(1 - s), with s their
scores: at most alpha·p_j/(4·w0), and nearly proportional to p_j; r measures the factor, whatever
weights, noise and rounds left of it. A touch is one device, whatever it sends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_core.ages import Born, ages, by_age
from fedrap_core.errors import BrokenModel
from fedrap_core.model import Rows
from fedrap_core.plan import Count, NotNegative, Positive, SolveMethod
from fedrap_core.sparse import RowPart, nearest_semidefinite, unpack_gram

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


Matrix = npt.NDArray[np.float64]

# Of a usual update's squared norm, what counting its touches may take under noise. On ml-100k at
# epsilon 8 (validation, five seeds) 5 % attackers get .005 with 5 % and .001 with 10 %, and NDCG@10
# is the same with and without: .076.
TOUCH_SHARE = 0.1
POPULAR = 20  # rows at the least that say what is usual
MEMORY = 0.9  # of popularity, once there were ten rounds


@dataclass(frozen=True, eq=False)
class Popularity:
    """Which share of a round's devices touch each item, over the last rounds."""

    share: Floats  # (m,) under noise some are below zero
    variance: float  # of the noise in each
    rounds: int  # that it was followed for


def touch_weight(learning: Learning, clip: float, noise: float, size: int) -> float:
    """What a touch weighs beside the numbers of an update in a clip of S, where noise hides them.

    0 where touches need no place in the clip: nobody counts them, or they are exact.
    """
    if learning.score_cap is None or noise == 0:
        return 0.0
    return clip * math.sqrt(TOUCH_SHARE / max(1.0, learning.density * size))


def follow_popularity(before: Popularity | None, total: RoundSum, size: int) -> Popularity | None:
    """The mean over rounds, later one that forgets; `before` where this round counted nothing."""
    if total.touches is None or total.devices < 1:
        return before
    share, variance, rounds = np.zeros(size), 0.0, 0
    if before is not None:
        share[: len(before.share)] = before.share
        variance, rounds = before.variance, before.rounds
    new = max(1.0 / (rounds + 1), 1.0 - MEMORY)
    share *= 1.0 - new
    share[total.rows] += new * total.touches / total.devices
    spread = total.touches_spread / total.devices
    return Popularity(share, (1.0 - new) ** 2 * variance + (new * spread) ** 2, rounds + 1)


def cap_scores(
    common: Matrix, rows: Rows, gram: Matrix, popularity: Popularity, cap: float, devices: int
) -> Matrix:
    """`common` with each of `rows` held to `cap` times the usual mean squared score: (m, k)."""
    size = np.einsum("jk,kl,jl->j", common, gram, common)  # (m,) mean squared score of each
    share = np.maximum(0.0, popularity.share)  # (m,)
    popular = np.argsort(-share, kind="stable")[: max(POPULAR, len(share) // 10)]
    popular = popular[share[popular] > 0.0]
    if len(popular) < POPULAR:
        return common  # too few to say what is usual
    usual = float(np.median(size[popular] / share[popular]))
    # One device of a round, and what noise hides, are no evidence against a row.
    most = cap * usual * (share + math.sqrt(popularity.variance) + 1.0 / devices)  # (m,)
    factor = np.sqrt(np.minimum(1.0, most[rows] / np.maximum(size[rows], 1e-300)))  # (t,)
    capped = common.copy()
    capped[rows] *= factor[:, None]
    return capped


class Learning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The coordinator's side of `solve`."""

    eta: Positive = 0.5  # step; 0.1 where a tenth of the devices takes part
    decay: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0  # eta falls by this each step
    lowest: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0  # share of eta that stays for ever
    memory: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.9  # of the running Gram matrix
    ridge: Positive = 10.0  # lambda_C
    population: Count = 1000  # N, devices expected in all
    density: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.02  # p
    zeros: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.5  # share of exact zeros in C at the end
    settled: Count = 100  # the step that has them; they grow over the half before it
    spread: Positive = 0.1  # standard deviation that new rows of C start with
    min_support: NotNegative = 0.0  # rows with less are not recommended; 0: all are
    row_step: Positive | None = None  # the furthest a row moves, in root mean square norms of C
    score_cap: Positive | None = None  # mean squared score of a row, in those of its popularity
    # How much of what is usual the trend leaves out: trend.py, where the method has one.
    contrast: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0


@dataclass(frozen=True, eq=False)
class Learner:
    """What the coordinator remembers between releases: the C it published, S, and support."""

    common: Matrix  # (m, k) C as devices have it, int8 rows times their scales
    gram: Matrix | None = None  # (k, k) running mean of x x'
    support: npt.NDArray[np.float64] | None = None  # (m,) of all rounds; None: none was counted
    popularity: Popularity | None = None  # None: no round counted touches
    hidden: Matrix | None = None  # (m, k) R; None before the zeros are all there
    born: Born = None


@dataclass(frozen=True, eq=False)
class RoundSum:
    """What a round brought, clipped, summed and noised."""

    rows: Rows  # (t,) rows that may change, ascending
    values: Matrix  # (t, k) sum of g_j
    packed_gram: npt.NDArray[np.float64]  # (k(k+1)/2,) sum of the packed Gram matrices x x'
    devices: int
    bound: float = math.inf  # the longest row of one device; inf: not known, no support is counted
    spread: float = 0.0  # standard deviation of the noise in each number
    parts: tuple[RowPart, ...] = ()  # of the plan's other parts, in their order
    lately: RowPart | None = None  # touches of the trend, once `unscaled` took them out of `parts`
    lately_spread: float = 0.0  # standard deviation of the noise in each of them
    touches: Floats | None = None  # (t,) devices that touched each row; None: nobody counted them
    touches_spread: float = 0.0  # standard deviation of the noise in each of them


def step_size(learning: Learning, step: int) -> float:
    """How far `step` goes: less with each, and never less than `lowest` of the first one.

    A task that goes on for years would otherwise learn nothing new in the end.
    """
    return learning.eta * max(learning.decay**step, learning.lowest)


def share_of_zeros(learning: Learning, step: int) -> float:
    """The share of exact zeros in the release that `step` makes: none in the first half.

    Zeroed from the start, entries can't grow back in small steps: that cost 8 % of NDCG@10 on
    amazon-video, zeros that come late 2 %. A soft threshold at every step gave a quarter of the
    zeros for the same loss.
    """
    done = 2.0 * (step + 1) / learning.settled - 1.0
    return learning.zeros * min(1.0, max(0.0, done))


def zero_smallest(values: Floats, share: float) -> Matrix:
    """The same numbers with `share` of them, the smallest in size, set to exact zero."""
    count = int(share * values.size)
    if count == 0:
        return np.array(values, dtype=np.float64)
    size = np.abs(values)
    level = np.partition(size, count - 1, axis=None)[count - 1]
    return np.where(size > level, values, 0.0)


def learn_step(
    state: Learner,
    total: RoundSum,
    method: SolveMethod,
    learning: Learning,
    step: int,
) -> Learner:
    """One quasi-Newton step on the touched rows of C, then zeros. Deterministic, float64 inside.

    It starts from the quantised C that was published, so device and coordinator agree bit for
    bit on the base. Keeping an exact C beside it was measured: no gain (ml-100k, .118 both ways).

    Raises:
        BrokenModel: the round's sum would give a C that is not finite.
    """
    dim = state.common.shape[1]
    if total.devices < 1 or (state.gram is None and not np.any(total.packed_gram)):
        return state
    if not (np.all(np.isfinite(total.values)) and np.all(np.isfinite(total.packed_gram))):
        raise BrokenModel("the sum of the round is not finite")
    seen = unpack_gram(total.packed_gram / total.devices, dim)  # (k, k)
    seen = nearest_semidefinite(seen)  # noise can push a mean of x x' out of its cone
    gram = (
        seen if state.gram is None else learning.memory * state.gram + (1 - learning.memory) * seen
    )
    ridge = learning.ridge / learning.population
    here = state.common[total.rows]  # (t, k)
    grad = total.values / total.devices + method.w0 * here @ gram + ridge * here  # (t, k)
    curvature = (method.w0 + method.alpha * learning.density) * gram  # (k, k)
    curvature = curvature + (ridge + 1e-12) * np.eye(dim)
    old = ages(state.born, step, len(state.common))[total.rows]  # (t,)
    rate = by_age(lambda age: step_size(learning, age), old)[:, None]  # (t, 1)
    before = np.zeros_like(state.common) if state.hidden is None else state.hidden  # (m, k) R
    start = here + before[total.rows]  # (t, k)
    moved = start - rate * (before[total.rows] + np.linalg.solve(curvature, grad.T).T)  # (t, k)
    if not np.all(np.isfinite(moved)):
        raise BrokenModel("the learning step gave numbers that are not finite")
    counted = count_devices(total.values, total.devices, total.bound, total.spread)  # (t,)
    support = add_support(state.support, total.rows, counted, len(state.common))  # (m,)
    if learning.row_step is not None:
        reach = reach_of_rows(state.common, support, learning.row_step, learning.min_support)
        moved = cap_moves(start, moved, reach[total.rows])
    common = state.common + before
    common[total.rows] = moved
    popularity = follow_popularity(state.popularity, total, len(common))
    if learning.score_cap is not None and popularity is not None and total.touches is not None:
        common = cap_scores(common, total.rows, gram, popularity, learning.score_cap, total.devices)
    share = share_of_zeros(learning, step)
    shown = zero_smallest(common, share)
    hidden = np.where(shown == 0, common, 0.0) if 0 < share == learning.zeros else None
    return Learner(shown, gram, support, popularity, hidden, state.born)
