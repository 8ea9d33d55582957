"""`solve` and the sequence part in every trainer.

float64 NumPy is the truth, 2e-6 + 1e-5·abs the tolerance.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedrap.trainers import Trainer
from fedrap_core.errors import BrokenModel
from fedrap_core.model import History, SequenceRows
from fedrap_core.plan import SequenceMethod
from fedrap_core.quantize import quantize_rows
from fedrap_core.sequence.device_share import (
    Questions,
    answer,
    ask,
    compute_sequence,
    draw,
    pose_sequence,
)
from fedrap_core.sequence.model import from_rows
from fedrap_core.solve.device_share import ShareProblem
from tests.contracts.trainers_made import (
    assert_close,
    check_solve,
    every_trainer,
    share_of,
    some,
)
from tests.core.made import seeds


@every_trainer
def test_solve_of_a_case_to_follow_by_hand(trainer: Trainer) -> None:
    # M = 1 + 2·1^2 = 3, u = 2·1/3, g = 2·(2/3 - 1)·2/3 = -4/9, u u' = 4/9.
    problem = ShareProblem(np.array([7]), np.array([[1.0]]), np.array([2.0]), np.array([[1.0]]))
    (share,) = trainer.solve([problem])
    assert_close(share.user, [2 / 3], "user")
    assert_close(share.update.values, [[-4 / 9]], "gradients")
    assert_close(share.update.packed_gram, [4 / 9], "triangle")
    assert_close(share.loss, 1 / 3, "loss")


@every_trainer
@pytest.mark.parametrize("count", [0, 1, 2, 100, 1000, 3000])
def test_solve_of_short_and_long_histories(trainer: Trainer, count: int) -> None:
    check_solve(trainer, [share_of(3, count, dim=64)])


@every_trainer
@some
@given(seed=seeds, count=st.integers(0, 60), dim=st.integers(1, 40))
def test_solve_agrees_with_the_reference(trainer: Trainer, seed: int, count: int, dim: int) -> None:
    check_solve(trainer, [share_of(seed, count, dim, size=100)])


@every_trainer
@some
@given(seed=seeds, exponents=st.tuples(st.floats(-6, 6), st.floats(-6, 6)))
@example(seed=1, exponents=(-6.0, 6.0))
@example(seed=2, exponents=(6.0, 6.0))
@example(seed=3, exponents=(-6.0, -6.0))
def test_solve_holds_with_extreme_weights(
    trainer: Trainer, seed: int, exponents: tuple[float, float]
) -> None:
    rng = np.random.default_rng(seed)
    problem = share_of(seed, 40)
    weights = 5.0 * 10.0 ** rng.uniform(min(exponents), max(exponents), size=40)
    check_solve(trainer, [replace(problem, weights=weights)])


@every_trainer
def test_solve_of_many_devices_keeps_their_order_and_their_releases(trainer: Trainer) -> None:
    problems = [share_of(seed, seed % 13 * 7, size=300) for seed in range(70)]
    other = share_of(99, 20, size=300)
    zero = replace(other, own=np.zeros_like(other.own))
    check_solve(trainer, [*problems[:35], other, zero, *problems[35:]])


@every_trainer
def test_solve_of_nobody_is_nothing(trainer: Trainer) -> None:
    assert trainer.solve([]) == []
    assert trainer.train([]) == []


@every_trainer
@some
@given(seed=seeds)
def test_rows_of_weight_zero_change_nothing(trainer: Trainer, seed: int) -> None:
    problem = share_of(seed, 30, size=100)
    weights = problem.weights.copy()
    weights[20:] = 0.0
    short = ShareProblem(problem.rows[:20], problem.own[:20], weights[:20], problem.base)
    (padded,) = trainer.solve([replace(problem, weights=weights)])
    (plain,) = trainer.solve([short])
    assert_close(padded.user, plain.user, "user")
    assert_close(padded.update.values[:20], plain.update.values, "gradients")
    assert not padded.update.values[20:].any()


@every_trainer
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_solve_refuses_a_broken_model(trainer: Trainer, bad: float) -> None:
    problem = share_of(5, 10)
    own = problem.own.copy()
    own[0, 0] = bad
    with np.errstate(all="ignore"), pytest.raises(BrokenModel):
        trainer.solve([share_of(6, 10), replace(problem, own=own)])
    with np.errstate(all="ignore"), pytest.raises(BrokenModel):
        trainer.solve([replace(problem, base=np.full_like(problem.base, bad))])


@every_trainer
def test_solve_refuses_a_singular_system(trainer: Trainer) -> None:
    rows, dim = np.array([0, 1]), 3
    flat = ShareProblem(rows, np.zeros((2, dim)), np.ones(2), np.zeros((dim, dim)))
    with pytest.raises(BrokenModel):
        trainer.solve([flat])


def _asked(
    seed: int, size: int, dim: int, spread: float, each: int = 1
) -> tuple[Questions, SequenceRows]:
    """A device's questions about a release, with decoys that lie well within an item."""
    rng = np.random.default_rng(seed)
    rows = SequenceRows(
        quantize_rows(rng.normal(0.0, spread, (size, dim))),
        quantize_rows(rng.normal(0.0, spread / 2, (size, dim))),
        rng.normal(0.0, 1.0, size).astype(np.float32),
        rng.normal(0.7, 0.2, (5, dim)).astype(np.float32),
    )
    history = History(rng.integers(0, size, 40), np.ones(40))
    method = SequenceMethod(dim=dim, targets=16)
    problem = pose_sequence(history, method, draw(40, method, rng.random))
    # In the middle of the most likely items: no engine's rounding leads to another one.
    chances = np.exp(from_rows(rows).scores(ask(problem, rows).queries))
    chances /= chances.sum(axis=1, keepdims=True)
    best = chances.argmax(axis=1)
    ends = np.cumsum(chances, axis=1)[np.arange(len(best)), best]
    decoys = ends - chances[np.arange(len(best)), best] / 2
    return ask(replace(problem, decoys=np.repeat(decoys, each)), rows), rows


@every_trainer
@pytest.mark.parametrize(
    ("size", "dim", "spread"),
    [(1, 3, 0.3), (64, 1, 0.3), (65, 8, 0.3), (3700, 64, 0.3), (9000, 5, 1.0)],
)
def test_the_sequence_part_agrees_with_the_reference(
    trainer: Trainer, size: int, dim: int, spread: float
) -> None:
    asked, rows = _asked(size, size, dim, spread, each=1 + size % 3)
    truth = compute_sequence(asked.problem, from_rows(rows))
    found = answer(asked, trainer.expect(asked, rows))
    assert_close(found.loss, truth.loss, "loss")
    assert_close(found.kernels, truth.kernels, "kernels")
    for mine, theirs in ((found.inputs, truth.inputs), (found.outputs, truth.outputs)):
        assert mine.rows.tolist() == theirs.rows.tolist()
        assert_close(mine.values, theirs.values, "rows")


@every_trainer
def test_decoys_are_drawn_as_often_as_items_are_likely(trainer: Trainer) -> None:
    asked, rows = _asked(7, 300, 4, 0.5)
    count = 4000
    uniform = (np.arange(count) + 0.5) / count
    problem = replace(
        asked.problem,
        weights=np.repeat(asked.problem.weights[:1], count, axis=0),
        targets=np.repeat(asked.problem.targets[:1], count),
        decoys=uniform,
    )
    repeated = ask(problem, rows)
    drawn = np.bincount(trainer.expect(repeated, rows).decoys, minlength=300) / count
    scores = from_rows(rows).scores(repeated.queries[:1])[0]
    chances = np.exp(scores - scores.max())
    assert np.abs(drawn - chances / chances.sum()).max() <= 1.5 / count


@every_trainer
def test_a_history_that_predicts_nothing_is_no_work(trainer: Trainer) -> None:
    _, rows = _asked(3, 70, 4, 0.3)
    method = SequenceMethod(dim=4)
    history = History(np.array([3]), np.ones(1))
    empty = ask(pose_sequence(history, method, draw(1, method, np.random.random)), rows)
    update = answer(empty, trainer.expect(empty, rows))
    assert update.norm() == 0.0
    assert update.loss == 0.0
    assert len(update.outputs.rows) == 0
