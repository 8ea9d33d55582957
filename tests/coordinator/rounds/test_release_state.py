"""The state of a release: parts side by side, what damage does, and what learning makes of it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fedrap_coordinator.domain.records import Extent
from fedrap_coordinator.rounds.release_state import ReleaseState
from fedrap_coordinator.rounds.releases import (
    Model,
    first_model,
    grown_model,
    next_model,
    restored_model,
)
from fedrap_coordinator.rounds.solve_state import SolveState, pack_solve, read_solve, state_of
from fedrap_core.solve.server_step import Learner, RoundSum
from fedrap_core.sparse import pack_gram
from fedrap_core.trend import TrendState
from testkit.harness import DIM, small_settings

TASK, SIZE = b"t" * 16, 8
SETTLED = msgspec.structs.replace(
    small_settings(),
    learning=msgspec.structs.replace(
        small_settings().learning, zeros=0.5, settled=2, decay=0.5, lowest=0.01
    ),
)


def _state() -> SolveState:
    hidden = np.zeros((3, 5))
    hidden[0, 1], hidden[2, 4] = 0.5, -0.25
    return SolveState(hidden, np.array([0, 0, 7]))


def test_parts_stand_side_by_side_and_any_may_be_missing() -> None:
    trend = TrendState(np.arange(3.0), 1.0, 2.0)
    for made in (
        ReleaseState(),
        ReleaseState(trend, _state(), b"FSL2 and so on"),
        ReleaseState(None, _state(), b"FSL2 and so on"),
        ReleaseState(trend, None, None),
        ReleaseState(None, _state(), None),
    ):
        again = ReleaseState.read(made.packed())
        assert (again.trend is None) == (made.trend is None)
        assert again.sequence == made.sequence
        assert (again.solve is None) == (made.solve is None)
        if again.solve is not None:
            np.testing.assert_array_equal(again.solve.hidden, _state().hidden)
            assert again.solve.born is not None
            assert again.solve.born.tolist() == [0, 0, 7]
        assert again.packed() == made.packed()
    assert ReleaseState().packed() is None


@pytest.mark.parametrize(
    "hurt",
    [
        lambda raw: raw[:9],
        lambda raw: raw[:-1],
        lambda raw: raw[:4] + b"\xff\xff\xff\xff" + raw[8:],  # rows
        lambda raw: raw[:12] + b"\xff\xff\xff\xff" + raw[16:],  # ages
        lambda raw: raw[:32] + b"\0\0" + raw[34:],  # bits that are not as many as numbers
        lambda raw: raw[:-4] + b"\xff\xff\xff\xff",  # NaN
    ],
    ids=["head", "cut", "rows", "ages", "bits", "nan"],
)
def test_a_damaged_state_hides_nothing_and_is_not_taken_for_the_next_part(hurt) -> None:  # type: ignore[no-untyped-def]
    assert read_solve(hurt(pack_solve(_state()))) == (None, b"")


def test_a_state_of_other_rows_is_not_taken() -> None:
    state = SolveState(np.ones((3, 5)), np.array([0, 1, 2]))
    assert state.of(np.zeros((4, 5))) == (None, None)
    hidden, born = state.of(np.eye(3, 5))
    assert hidden is not None
    assert born is not None
    np.testing.assert_array_equal(hidden, 1.0 - np.eye(3, 5))  # only where C is zero
    nothing = state_of(Learner(np.zeros((3, 5))))
    assert pack_solve(nothing) == b""
    assert pack_solve(None) == b""


def _sum(seed: int, rows: int) -> RoundSum:
    rng = np.random.default_rng(seed)
    return RoundSum(np.arange(rows), rng.normal(size=(rows, DIM)), 3 * pack_gram(np.eye(DIM)), 3)


def _next(model: Model, seed: int, items: int = SIZE) -> Model:
    rows = model.common.size
    return next_model(TASK, model, _sum(seed, rows), Extent(items, 1), SETTLED)


def test_what_zeros_hide_and_ages_go_from_release_to_release() -> None:
    model = first_model(TASK, Extent(SIZE, 1), SETTLED)
    assert ReleaseState.read(model.stored.learner).solve is None
    for seed in range(2):
        model = _next(model, seed)
    kept = ReleaseState.read(model.stored.learner).solve
    assert kept is not None
    assert np.any(kept.hidden)
    assert not np.any(kept.hidden[model.common.items.values != 0])
    assert kept.born is None
    grown = _next(model, 2, items=SIZE + 2)
    after = ReleaseState.read(grown.stored.learner).solve
    assert after is not None
    assert after.hidden.shape == (SIZE + 2, DIM)
    assert after.born is not None
    assert after.born.tolist() == [0] * SIZE + [3, 3]
    # The same where rows come without a round, or with a release that is taken up again.
    for made in (
        grown_model(model, Extent(SIZE + 2, 2)),
        restored_model(grown, model.stored),
    ):
        there = ReleaseState.read(made.stored.learner).solve
        assert there is not None
        assert there.born is not None
        assert there.born.tolist()[:SIZE] == [0] * SIZE
        assert there.born[SIZE:].tolist() == [made.stored.step] * 2
        np.testing.assert_array_equal(there.hidden[:SIZE], kept.hidden)


def test_a_new_item_moves_while_old_ones_have_settled() -> None:
    """Eight steps halve the way of an old row to 1/256; a row of zeros has its first of half."""
    model = first_model(TASK, Extent(SIZE, 1), SETTLED)
    for seed in range(8):
        model = _next(model, seed)
    grown = _next(model, 9, items=SIZE + 1)
    made = _next(grown, 10, items=SIZE + 1)
    before, after = (one.common.items.to_float() for one in (grown, made))
    away = np.linalg.norm(after - before, axis=1)
    assert away[SIZE] > 10 * np.median(away[:SIZE])
