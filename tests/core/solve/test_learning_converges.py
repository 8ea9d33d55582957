"""Federated `solve` with everybody taking part ends where centralised least squares ends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fedrap_core.aggregate import Accumulator
from fedrap_core.model import CommonItems
from fedrap_core.plan import SolveMethod
from fedrap_core.quantize import quantize_rows
from fedrap_core.solve.device_share import compute_share, pose_share
from fedrap_core.solve.server_step import Learner, Learning, learn_step
from tests.core.made import Matrix, history_of

USERS, ITEMS, DIM, RIDGE_C = 80, 40, 4, 5.0
METHOD = SolveMethod(dim=DIM, alpha=5.0, w0=1.0, ridge=5.0)
Liked = npt.NDArray[np.bool_]


def _planted() -> Liked:
    """Who likes what, from four planted tastes and a bit of chance: (USERS, ITEMS)."""
    rng = np.random.default_rng(11)
    tastes, kinds = rng.integers(0, 4, size=USERS), rng.integers(0, 4, size=ITEMS)
    chance = np.where(tastes[:, None] == kinds[None, :], 0.6, 0.05)
    return np.asarray(rng.random((USERS, ITEMS)) < chance)


def _users(liked: Liked, C: Matrix) -> Matrix:
    """The best X for this C, user by user: (USERS, DIM)."""
    base = METHOD.w0 * C.T @ C + METHOD.ridge * np.eye(DIM)
    solved = [
        np.linalg.solve(base + METHOD.alpha * C[mine].T @ C[mine], METHOD.alpha * C[mine].sum(0))
        for mine in liked
    ]
    return np.array(solved)


def _objective(liked: Liked, C: Matrix) -> float:
    """Implicit least squares over everyone, at the best X for this C."""
    X = _users(liked, C)
    predicted = X @ C.T
    misfit = METHOD.alpha * np.sum((1.0 - predicted[liked]) ** 2)
    unseen = METHOD.w0 * np.sum(predicted**2)
    return float(misfit + unseen + METHOD.ridge * np.sum(X**2) + RIDGE_C * np.sum(C**2))


def _alternating_least_squares(liked: Liked, C: Matrix, sweeps: int) -> Matrix:
    for _ in range(sweeps):
        X = _users(liked, C)
        base = METHOD.w0 * X.T @ X + RIDGE_C * np.eye(DIM)
        C = np.array(
            [
                np.linalg.solve(
                    base + METHOD.alpha * X[who].T @ X[who], METHOD.alpha * X[who].sum(0)
                )
                for who in liked.T
            ]
        )
    return C


def _federated(liked: Liked, start: Matrix, rounds: int) -> list[Matrix]:
    """C after each round, through the same classes as the product; nobody is clipped."""
    learning = Learning(
        eta=0.5, memory=0.0, ridge=RIDGE_C, population=USERS, density=float(liked.mean())
    )
    state, seen = Learner(quantize_rows(start).to_float().astype(np.float64)), []
    for step in range(rounds):
        common = CommonItems(step, quantize_rows(state.common))
        gram, total = common.gram(), Accumulator(ITEMS, DIM, clip=1e6)
        for mine in liked:
            history = history_of(*np.flatnonzero(mine))
            total.add(compute_share(pose_share(common, gram, history, METHOD)).update)
        state = learn_step(state, total.total(0.0, bytes(32), step), METHOD, learning, step)
        state = Learner(quantize_rows(state.common).to_float().astype(np.float64), state.gram)
        seen.append(state.common)
    return seen


def test_with_everybody_taking_part_ten_rounds_come_within_a_percent_of_centralised() -> None:
    liked = _planted()
    start = np.random.default_rng(12).normal(0.0, 0.1, size=(ITEMS, DIM))
    centralised = _objective(liked, _alternating_least_squares(liked, start, sweeps=30))
    path = [_objective(liked, C) for C in _federated(liked, start, rounds=12)]
    assert path[0] < _objective(liked, start)
    assert all(later < earlier * 1.002 for earlier, later in pairwise(path))
    assert min(path[9:]) < 1.01 * centralised
