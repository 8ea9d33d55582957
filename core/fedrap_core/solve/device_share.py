"""What a device adds to a round of `solve`: its history as a whole, and what came next in it.

The device solves x with flat weights a_j over the items it touched, and sends for those rows
    g_j = a_j·(<x, C_j> - 1)·x        and once the Gram matrix x x', packed.
With x_t solved in the same way from the items before item j_t, weighed by recency as for
recommending, n items and T prefixes, the newest ones, it sends
    g_j     = (1 - phi)·a_j(<x,C_j> - 1)·x   + phi·(n/T)·sum_{t: j_t = j} a_j(<x_t,C_j> - 1)·x_t
    x x'    = (1 - phi)·x x'                 + phi·(1/T)·sum_t x_t x_t'
which is the gradient of explaining every item by all, and each by those before it. Both have the
same shape and the same w0·sum_j <x,C_j>^2, so the coordinator's step stays what it is. With
phi = 0, or fewer than two items, only the first part is left.

Every prefix is one least-squares problem, so every trainer can solve it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.model import CommonItems, Floats, History, Rows
from fedrap_core.plan import SolveMethod
from fedrap_core.solve.user import base_system, solve_user
from fedrap_core.sparse import RowUpdate, pack_gram

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ShareProblem:
    """One device's least-squares problem of a round; every trainer solves this."""

    rows: Rows  # (n,) rows of C, ascending, distinct
    own: Matrix  # (n, k) those rows
    weights: npt.NDArray[np.float64]  # (n,) a_j
    base: Matrix  # (k, k) w0·C'C + lambda·I


@dataclass(frozen=True, eq=False)
class LocalShare:
    """A device's share of one round, before clipping, and what it tells its owner."""

    update: RowUpdate
    user: npt.NDArray[np.float64]  # (k,) x; stays on the device
    loss: float  # objective at x over its value at x = 0, in [0, 1]; stays on the device


def training_weights(history: History, alpha: float) -> tuple[Rows, npt.NDArray[np.float64]]:
    """Distinct rows ascending with a_j = alpha·(largest weight of j): an item counts once."""
    rows, where = np.unique(history.rows, return_inverse=True)
    largest = np.zeros(len(rows))
    np.maximum.at(largest, where, history.weights)
    return rows.astype(np.int64), alpha * largest


def pose_share(
    common: CommonItems, gram: Floats, history: History, method: SolveMethod
) -> ShareProblem:
    """What a trainer needs for this device's share. `gram` is C'C of `common`.

    What speaks against an item has no part in it: it stays on the device.
    """
    rows, weights = training_weights(history.liked(), method.alpha)
    base = base_system(gram, method.w0, method.ridge)
    return ShareProblem(rows, common.take(rows), weights, base)


def compute_share(problem: ShareProblem) -> LocalShare:
    """The reference trainer, float64: x, the rows g_j and the triangle of x x'.

    Raises:
        BrokenModel: C gives no finite x.
    """
    user, _ = solve_user(problem.own, problem.weights, problem.base)  # x, (k,)
    predicted = problem.own @ user  # (n,)
    gradients = np.outer(problem.weights * (predicted - 1.0), user)  # (n, k)
    packed = pack_gram(np.outer(user, user))  # (k(k+1)/2,)
    # At the minimum the objective is sum a - sum a·<x,C>; at x = 0 it is sum a.
    total = float(problem.weights.sum())
    loss = 1.0 - float(problem.weights @ predicted) / total if total else 1.0
    loss = min(1.0, max(0.0, loss))  # rounding
    return LocalShare(RowUpdate(problem.rows, gradients, packed), user, loss)


@dataclass(frozen=True, eq=False)
class RoundProblem:
    """All that a trainer solves for one device in one round, and what becomes of it."""

    whole: ShareProblem
    before: tuple[ShareProblem, ...]  # T of them, the items before j_t
    targets: Rows  # (T,) place of j_t in `whole.rows`
    share: float  # phi

    @property
    def problems(self) -> list[ShareProblem]:
        """In the order in which `join_shares` wants the answers."""
        return [self.whole, *self.before]


def newest_first(history: History) -> tuple[Rows, npt.NDArray[np.float64]]:
    """Distinct rows by their newest interaction, each with its largest weight: (n,), (n,)."""
    rows, first, where = np.unique(history.rows, return_index=True, return_inverse=True)
    largest = np.zeros(len(rows))
    np.maximum.at(largest, where, history.weights)
    order = np.argsort(first, kind="stable")
    return rows[order].astype(np.int64), largest[order]


def pose_round(
    common: CommonItems, gram: Floats, history: History, method: SolveMethod
) -> RoundProblem:
    """This device's least-squares problems of a round. `gram` is C'C of `common`.

    What speaks against an item has no part in them: it stays on the device.
    """
    history = history.liked()
    whole = pose_share(common, gram, history, method)
    count = min(method.prefixes, len(whole.rows) - 1) if method.order > 0 else 0
    if count < 1:
        return RoundProblem(whole, (), np.zeros(0, dtype=np.int64), 0.0)
    rows, weights = newest_first(history)  # (n,), (n,)
    places = np.searchsorted(whole.rows, rows)  # (n,)
    own = whole.own[places]  # (n, k) newest first, so that a prefix is a view and not a copy
    age = np.arange(len(rows), dtype=np.float64)
    fade = method.alpha * (method.gamma + method.beta * np.exp(-age / method.tau))  # (n,)
    before = tuple(
        ShareProblem(
            rows[place + 1 :],
            own[place + 1 :],
            fade[: len(rows) - place - 1] * weights[place + 1 :],
            whole.base,
        )
        for place in range(count)
    )
    return RoundProblem(whole, before, places[:count], method.order)


def join_shares(problem: RoundProblem, shares: Sequence[LocalShare]) -> LocalShare:
    """One share out of the answers to `problem.problems`."""
    whole, rest = shares[0], shares[1:]
    if not rest:
        return whole
    count, share = len(rest), problem.share
    users = np.array([one.user for one in rest])  # (T, k) x_t
    own = problem.whole.own[problem.targets]  # (T, k) C of j_t
    weights = problem.whole.weights[problem.targets]  # (T,) a of j_t
    missed = weights * (np.einsum("tk,tk->t", users, own) - 1.0)  # (T,)
    values = (1.0 - share) * whole.update.values  # (n, k)
    # No item is the target of two prefixes, so plain indexing adds each once.
    values[problem.targets] += share * len(values) / count * missed[:, None] * users
    packed = (1.0 - share) * whole.update.packed_gram
    packed = packed + share / count * pack_gram(users.T @ users)
    return LocalShare(RowUpdate(whole.update.rows, values, packed), whole.user, whole.loss)
