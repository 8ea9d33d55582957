"""The compiled step gives the numbers of the core's float64 reference, given the same samples."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from fedrap_core.errors import Diverged
from fedrap_core.paper.problem import PaperProblem, PaperState, fresh_state, pose_paper
from fedrap_core.paper.training import train_local
from fedrap_core.plan import PaperMethod
from fedrap_simulation.engine.paper_kernels import (
    PENALTIES,
    allowed_entry,
    largest_entry,
    local_step,
    pack_schedule,
)

ITEMS, DIM = 120, 12
BASE = PaperMethod(dim=DIM, rate=50.0, user_rate=0.5, apart=0.3, sparse=0.2, reach=2.0)
CASES: dict[str, dict[str, Any]] = {
    "as published": {},
    "several batches": {"batch": 32},
    "L2": {"penalty": "l2"},
    "no penalty": {"penalty": "none"},
    "C only": {"personal": False},
    "D only": {"common": False},
    "fixed": {"curriculum": "fixed"},
    "sin": {"curriculum": "sin"},
    "square": {"curriculum": "square"},
    "frac": {"curriculum": "frac", "batch": 64},
    "no negatives": {"negatives": 0},
    "odd width": {"dim": 7},
}


def pose(method: PaperMethod, seed: int, step: int) -> tuple[PaperProblem, PaperState]:
    """A device with a D of its own over every item, as the paper has it."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0.0, 1.0, (ITEMS, method.dim))
    user = fresh_state(method).user + rng.normal(0.0, 0.1, method.dim)
    personal = rng.normal(0.0, 1.0, (ITEMS, method.dim))
    state = PaperState(user, 0.3, np.arange(ITEMS), personal)
    seen = rng.choice(ITEMS, 25, replace=False)
    unseen = np.setdiff1d(np.arange(ITEMS), seen)
    problem = pose_paper(
        lambda rows: common[rows], state, seen, unseen, method, step, rng.random, full=True
    )
    return problem, state


def train_given(
    common: npt.NDArray[np.float32],
    personal: npt.NDArray[np.float32],
    user: npt.NDArray[np.float32],
    bias: np.float32,
    weights: npt.NDArray[np.float32],
    liked: npt.NDArray[np.float32],
    rates: npt.NDArray[np.float32],
    reach: np.float32,
    penalty: int,
) -> np.float32:
    """All steps over samples that are given, `weights` and `liked` (S, n), in place; the new b."""
    slope = np.empty_like(user)
    for step in range(len(weights)):
        rows = np.flatnonzero(weights[step])
        bias = local_step(
            common, personal, user, bias, slope, rows, weights[step][rows], liked[step][rows],
            rates[step], reach, penalty,
        )  # fmt: skip
    return bias


@pytest.mark.parametrize("step", [1, 14])
@pytest.mark.parametrize("case", CASES)
def test_a_local_round_agrees_with_the_reference(case: str, step: int) -> None:
    method = msgspec.structs.replace(BASE, **CASES[case])
    for seed in range(3):
        problem, _ = pose(method, seed, step)
        wanted = train_local(problem)
        rows = np.concatenate([problem.own_rows, problem.other_rows])
        start = np.concatenate([problem.start.own, problem.start.other])
        common = start.astype(np.float32)  # (n, k)
        personal = np.zeros_like(common)
        personal[: len(problem.own_rows)] = problem.start.personal
        user = problem.start.user.astype(np.float32)
        bias = train_given(
            common,
            personal,
            user,
            np.float32(problem.start.bias),
            np.hstack([problem.own_weights, problem.other_weights]).astype(np.float32),
            np.hstack([problem.own_liked, problem.other_liked]).astype(np.float32),
            pack_schedule(problem.schedule, personal=method.personal),
            np.float32(method.reach),
            PENALTIES[method.penalty],
        )
        np.testing.assert_allclose(user, wanted.user, rtol=2e-4, atol=2e-5)
        assert bias == pytest.approx(wanted.bias, rel=1e-4, abs=1e-5)
        np.testing.assert_allclose(
            personal[: len(problem.own_rows)], wanted.personal, rtol=2e-4, atol=5e-5
        )
        if not method.common:
            np.testing.assert_array_equal(common, start)
            continue
        order = np.argsort(rows, kind="stable")
        moved = (common - start)[order]
        np.testing.assert_allclose(moved, wanted.update.values, rtol=2e-4, atol=5e-5)


def test_soft_thresholding_gives_the_same_exact_zeros() -> None:
    method = msgspec.structs.replace(BASE, sparse=4.0, curriculum="fixed", personal=False)
    problem, _ = pose(method, 5, 3)
    reference = problem.start.other + train_local(problem).update.values
    common = problem.start.other.astype(np.float32)
    train_given(
        common,
        np.zeros_like(common),
        problem.start.user.astype(np.float32),
        np.float32(problem.start.bias),
        problem.other_weights.astype(np.float32),
        problem.other_liked.astype(np.float32),
        pack_schedule(problem.schedule, personal=False),
        np.float32(method.reach),
        PENALTIES["l1"],
    )
    zeros = np.abs(reference) < 1e-12  # the sum of start and delta rounds
    assert 0.05 < zeros.mean() < 0.95
    assert np.mean((common == 0.0) == zeros) > 0.999


def test_the_largest_entry_is_found_and_nan_stays_nan() -> None:
    values = np.array([[1.0, -7.5], [3.0, 0.0]], dtype=np.float32)
    none = np.zeros((0, 2), dtype=np.float32)
    user = np.array([2.0, -1.0], dtype=np.float32)
    assert largest_entry(values, none, user, np.float32(0)) == 7.5
    assert largest_entry(none, values, user, np.float32(-9)) == 9
    assert largest_entry(none, none, user, np.float32(0)) == 2
    for broken in (np.nan, -np.nan, np.inf, -np.inf):
        spoilt = values.copy()
        spoilt[0, 0] = broken
        assert not largest_entry(spoilt, none, user, np.float32(0)) <= 1e4
        assert not largest_entry(values, none, user, np.float32(broken)) <= 1e4


def test_a_round_may_grow_as_far_as_the_reference_lets_it() -> None:
    assert allowed_entry(np.float32(0.5)) == 150.0
    assert allowed_entry(np.float32(5000.0)) == 1e4
    wild = msgspec.structs.replace(BASE, rate=1e6, user_rate=1e3)
    problem, _ = pose(wild, 0, 1)
    with pytest.raises(Diverged):
        train_local(problem)
