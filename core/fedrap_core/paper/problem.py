"""One device's round of `paper` as plain data: what goes into a trainer and what comes out.

The working set is the interacted items and the round's negatives, each row once. On a device
only interacted items own a row of D; with `full` every row of the working set does, as in the
paper, where D is as large as the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import BrokenModel, WrongShape
from fedrap_core.model import CommonItems, Rows
from fedrap_core.paper.curriculum import weights_at
from fedrap_core.paper.objective import LocalModel, Matrix, Penalty, Samples, Vector
from fedrap_core.paper.sampling import (
    Uniform,
    draw_negatives,
    initial_personal,
    initial_user,
    spread_over_steps,
)
from fedrap_core.plan import PaperMethod
from fedrap_core.sparse import RowUpdate

Take = Callable[[Rows], Matrix]  # rows of C, such as CommonItems.take


@dataclass(frozen=True, eq=False)
class PaperState:
    """What a device keeps between rounds; it never leaves."""

    user: Vector  # (k,) u
    bias: float  # b
    rows: Rows  # (n,) ascending, the items that own a row of D
    personal: Matrix  # (n, k) D


@dataclass(frozen=True, eq=False)
class Schedule:
    """The rates and weights of every local step; S is the number of steps."""

    user_rate: Vector  # (S,) eta_u
    personal_rate: Vector  # (S,) eta of D
    common_rate: Vector  # (S,) eta of C; 0 where there is no shared part
    apart: Vector  # (S,) lambda
    sparse: Vector  # (S,) mu
    penalty: Penalty
    reach: float  # root mean square of D_j - C_j that the lambda term may lead to


@dataclass(frozen=True, eq=False)
class PaperProblem:
    """A device's local round; every trainer computes this."""

    own_rows: Rows  # (P,) ascending: rows that own a D
    other_rows: Rows  # (N,) ascending: rows that do not
    start: LocalModel
    own_weights: Matrix  # (S, P) w_j of each step
    own_liked: Matrix  # (S, P) l_j
    other_weights: Matrix  # (S, N)
    other_liked: Matrix  # (S, N)
    schedule: Schedule
    shares: bool = True  # whether rows of C may leave; False in FedRAP-D

    @property
    def steps(self) -> int:
        """S; 0 when there is nothing to learn from."""
        return len(self.own_weights)

    def samples(self, step: int) -> Samples:
        """The samples of one step."""
        return Samples(
            self.own_weights[step],
            self.own_liked[step],
            self.other_weights[step],
            self.other_liked[step],
        )


@dataclass(frozen=True, eq=False)
class PaperResult:
    """What a local round gave."""

    user: Vector  # (k,) stays on the device
    bias: float
    personal: Matrix  # (P, k) D of `own_rows`; stays on the device
    update: RowUpdate  # delta of the working set's rows of C, and a triangle of zeros
    losses: Vector  # (S,) Eq. 3 before each step; stays on the device


def first_state(seed: int, dim: int) -> PaperState:
    """A device that never trained: everybody's first u, and no rows of D."""
    return PaperState(initial_user(seed, dim), 0.0, np.zeros(0, dtype=np.int64), np.zeros((0, dim)))


def fresh_state(method: PaperMethod) -> PaperState:
    """`first_state` of a plan."""
    return first_state(method.seed, method.dim)


def plan_schedule(method: PaperMethod, step: int, steps: int) -> Schedule:
    """The schedule of `steps` local steps in the round whose offer has this `step`, from 1 on."""
    epoch = np.arange(steps) * method.epochs // max(steps, 1)  # (S,)
    fade: Vector = method.round_decay ** (step - 1) * np.power(
        method.epoch_decay, epoch, dtype=np.float64
    )
    weights = weights_at(method, step)
    rate = method.rate * fade
    return Schedule(
        user_rate=method.user_rate * fade,
        personal_rate=rate,
        common_rate=rate if method.common else np.zeros(steps),
        apart=np.full(steps, weights.apart),
        sparse=np.full(steps, weights.sparse),
        penalty=method.penalty,
        reach=method.reach,
    )


def pose_paper(
    take: Take,
    state: PaperState,
    seen: Rows,
    unseen: Rows,
    method: PaperMethod,
    step: int,
    uniform: Uniform,
    *,
    full: bool = False,
) -> PaperProblem:
    """This device's round. `seen` are its items, `unseen` all that negatives may come from.

    An item counts once, however often it was used: the paper's ratings are 0 or 1.
    """
    if state.user.shape != (method.dim,):
        raise WrongShape(f"the plan says k = {method.dim}, the device has {state.user.shape}")
    liked = _distinct(np.asarray(seen, dtype=np.int64))
    drawn = draw_negatives(unseen, method.negatives * len(liked), uniform)
    rows = _distinct(np.concatenate([liked, drawn]))  # (n,)
    known = _among(rows, liked)  # (n,)
    owns = (known | full) & method.personal
    positives = known.astype(np.int64)
    negatives = np.bincount(np.searchsorted(rows, drawn), minlength=len(rows))
    epochs = method.epochs if len(rows) else 0
    weights, likes = spread_over_steps(positives, negatives, method.batch, epochs, uniform)
    common = take(rows) if method.common else np.zeros((len(rows), method.dim))
    if common.shape != (len(rows), method.dim):
        raise BrokenModel(f"rows of C have shape {common.shape}, the plan says k = {method.dim}")
    personal = _personal_rows(state, rows[owns], method, uniform)
    return PaperProblem(
        rows[owns],
        rows[~owns],
        LocalModel(state.user, state.bias, personal, common[owns], common[~owns]),
        weights[:, owns],
        likes[:, owns],
        weights[:, ~owns],
        likes[:, ~owns],
        plan_schedule(method, step, len(weights)),
        shares=method.common,
    )


def keep_state(state: PaperState, problem: PaperProblem, result: PaperResult) -> PaperState:
    """What the device remembers after the round: new u and b, and D with its new rows."""
    rows = _distinct(np.concatenate([state.rows, problem.own_rows]))
    personal = np.empty((len(rows), len(result.user)))
    personal[np.searchsorted(rows, state.rows)] = state.personal
    personal[np.searchsorted(rows, problem.own_rows)] = result.personal
    return PaperState(result.user, result.bias, rows, personal)


def score_items(common: CommonItems, state: PaperState) -> tuple[Vector, Vector]:
    """<u, C_j> + b and <u, D_j> of every item: (m,) each; their sum is the paper's z_j."""
    shared = common.scores(state.user).astype(np.float64) + state.bias
    personal = np.zeros(common.size)
    inside = state.rows < common.size
    personal[state.rows[inside]] = state.personal[inside] @ state.user
    return shared, personal


def _personal_rows(
    state: PaperState, rows: Rows, method: PaperMethod, uniform: Uniform
) -> npt.NDArray[np.float64]:
    """D of `rows`: what the device has, and first values for what is new to it: (P, k)."""
    personal = np.empty((len(rows), method.dim))
    known = _among(rows, state.rows)
    personal[known] = state.personal[np.searchsorted(state.rows, rows[known])]
    fresh = int(np.count_nonzero(~known))
    personal[~known] = initial_personal(fresh, method.dim, method.spread, uniform)
    return personal


# np.unique would do, and would load numpy.ma for it: 10 MB that a small device has to hold.
def _distinct(rows: Rows) -> Rows:
    """The rows in ascending order, each once."""
    ordered = np.sort(rows)
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return np.asarray(ordered[first])


def _among(rows: Rows, ascending: Rows) -> npt.NDArray[np.bool_]:
    """Which rows are in `ascending`: (len(rows),)."""
    if len(ascending) == 0:
        return np.zeros(len(rows), dtype=np.bool_)
    places = np.minimum(np.searchsorted(ascending, rows), len(ascending) - 1)
    return np.asarray(ascending[places] == rows)
