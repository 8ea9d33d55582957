"""The local round of `paper`: S gradient steps over the working set, float64, the reference.

    u   -= eta_u·du                   b -= eta_u·db               (objective.py has du, db, g)
    D_j -= eta·g_j·u - s_j (D_j - C_j)
    C_j  = S_theta(C_j - eta·g_j·u - s_j (D_j - C_j)),  theta = eta·mu·w_j/k
    s_j  = min(eta·e_j, max(0, reach·sqrt(k)/|D_j - C_j| - 1)/2)

All gradients are taken before anything moves. FedRAP-L2 divides by 1 + 2·theta instead of
shrinking; both are the exact proximal step of their penalty. Only rows of the working set are
shrunk, or the delta would be dense.

-lambda|D - C|^2 has no lower bound: eta·e_j alone multiplies the difference by 1 + 2·eta·e_j each
step. s_j is the guard. It equals the gradient step until that step would carry the row beyond
`reach`, stops there, and never pulls back; the term is then worth at most lambda·reach^2. What
still runs away, through the rates, is refused by `check_result`.
"""

from __future__ import annotations

import numpy as np

from fedrap_core.errors import Diverged
from fedrap_core.paper.objective import (
    LocalModel,
    Matrix,
    Penalty,
    Samples,
    Vector,
    fit_gradients,
    loss,
)
from fedrap_core.paper.problem import PaperProblem, PaperResult, Schedule
from fedrap_core.sparse import RowUpdate, packed_size

LIMIT = 1e4  # no entry of u, C or D of a sane model comes near
GROWTH = 100.0  # largest entry after a round over 1 + the largest before it


def push_apart(
    personal: Matrix, own: Matrix, weights: Vector, rate: float, apart: float, reach: float
) -> Matrix:
    """s_j (D_j - C_j): the bounded step of the lambda term, added to D, taken from C: (P, k)."""
    dim = own.shape[1]
    difference = personal - own  # (P, k)
    wanted = rate * 2.0 * apart * weights / dim  # (P,) eta·e_j
    norm = np.sqrt(np.sum(difference**2, axis=1))  # (P,)
    room = reach * np.sqrt(dim) / np.maximum(norm, 1e-30) - 1.0  # (P,)
    step = np.minimum(wanted, 0.5 * np.maximum(room, 0.0))  # (P,) s_j
    return np.asarray(step[:, None] * difference)


def shrink_rows(rows: Matrix, levels: Vector, penalty: Penalty) -> Matrix:
    """The proximal step of mu: soft-thresholding (exact zeros), or division for L2: (n, k)."""
    if penalty == "l1":
        return np.asarray(rows - np.clip(rows, -levels[:, None], levels[:, None]))
    if penalty == "l2":
        return np.asarray(rows / (1.0 + 2.0 * levels[:, None]))
    return rows


def local_step(model: LocalModel, samples: Samples, schedule: Schedule, step: int) -> LocalModel:
    """One step of the local round."""
    rate, common_rate = schedule.personal_rate[step], schedule.common_rate[step]
    fit = fit_gradients(model, samples)
    push = push_apart(
        model.personal, model.own, samples.own_weights, rate, schedule.apart[step], schedule.reach
    )
    level = common_rate * schedule.sparse[step] / len(model.user)  # theta / w_j
    return LocalModel(
        model.user - schedule.user_rate[step] * fit.user,
        model.bias - schedule.user_rate[step] * fit.bias,
        model.personal - rate * fit.personal + push,
        shrink_rows(
            model.own - common_rate * fit.own - push,
            level * samples.own_weights,
            schedule.penalty,
        ),
        shrink_rows(
            model.other - common_rate * fit.other,
            level * samples.other_weights,
            schedule.penalty,
        ),
    )


def train_local(problem: PaperProblem) -> PaperResult:
    """The reference trainer: all local steps in float64.

    Raises:
        Diverged: the result is not finite, huge, or grew too fast. Drop the round and keep the
            old state.
    """
    model, schedule = problem.start, problem.schedule
    losses = np.zeros(problem.steps)
    with np.errstate(over="ignore", invalid="ignore"):  # check_result refuses what comes of it
        for step in range(problem.steps):
            samples = problem.samples(step)
            losses[step] = loss(
                model, samples, schedule.apart[step], schedule.sparse[step], schedule.penalty
            )
            model = local_step(model, samples, schedule, step)
    return finish(problem, model, losses)


def finish(problem: PaperProblem, model: LocalModel, losses: Vector) -> PaperResult:
    """The trained model as a result, checked: what every trainer ends with.

    Raises:
        Diverged: see `check_result`.
    """
    check_result(problem, model, losses)
    dim = len(model.user)
    packed = np.zeros(packed_size(dim))  # `solve` has x x' here; one format serves both
    if not problem.shares:
        update = RowUpdate(np.zeros(0, dtype=np.int64), np.zeros((0, dim)), packed)
        return PaperResult(model.user, model.bias, model.personal, update, losses)
    rows = np.concatenate([problem.own_rows, problem.other_rows])
    moved = np.concatenate([model.own - problem.start.own, model.other - problem.start.other])
    order = np.argsort(rows, kind="stable")
    update = RowUpdate(rows[order], moved[order], packed)
    return PaperResult(model.user, model.bias, model.personal, update, losses)


def check_result(problem: PaperProblem, model: LocalModel, losses: Vector) -> None:
    """Refuse a round that ran away.

    Raises:
        Diverged: a number is not finite or above 1e4, or the largest one grew by more than a
            hundred times one plus its old value.
    """
    largest = _largest(model)
    if not (np.isfinite(largest) and np.all(np.isfinite(losses))):
        raise Diverged("the local round gave numbers that are not finite; lower the rates")
    allowed = min(LIMIT, GROWTH * (1.0 + _largest(problem.start)))
    if largest > allowed:
        raise Diverged(f"the local round reached {largest:.3g}, more than {allowed:.3g}")


def _largest(model: LocalModel) -> float:
    parts = (model.user, model.personal, model.own, model.other)
    peaks = [float(np.max(np.abs(part), initial=0.0)) for part in parts]
    return float(np.max([*peaks, abs(model.bias)]))  # NaN stays NaN
