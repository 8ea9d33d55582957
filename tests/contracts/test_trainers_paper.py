"""`paper` in every trainer: float64 NumPy is the truth, 2e-6 + 1e-5·abs the tolerance."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap.trainers import Trainer
from fedrap_core.errors import Diverged
from fedrap_core.paper.variants import NAMES, make_variant
from fedrap_core.plan import PaperMethod
from tests.contracts.trainers_made import (
    assert_close,
    check_train,
    every_trainer,
    share_of,
    some,
)
from tests.core.made import seeds
from tests.core.paper.made import round_of

SMALL = PaperMethod(dim=8, apart=0.05, sparse=0.05)


@every_trainer
def test_train_of_a_case_to_follow_by_hand(trainer: Trainer) -> None:
    # One liked item, z = 0, no regulariser: g = sigmoid(0) - 1 = -1/2.
    method = PaperMethod(
        dim=1, epochs=1, rate=1.0, user_rate=1.0, apart=0.0, sparse=0.0, negatives=0
    )
    problem = round_of(np.random.default_rng(0), method, seen=1, step=1)
    start = replace(
        problem.start,
        user=np.array([2.0]),
        bias=0.0,
        personal=np.array([[0.5]]),
        own=np.array([[-0.5]]),
    )
    (result,) = trainer.train([replace(problem, start=start)])
    assert_close(result.user, [2.0], "user")  # D + C is zero
    assert_close(result.bias, 0.5, "bias")
    assert_close(result.personal, [[1.5]], "personal")
    assert_close(result.update.values, [[1.0]], "delta")
    assert_close(result.losses, [np.log(2)], "losses")


@every_trainer
def test_train_of_the_papers_full_case(trainer: Trainer) -> None:
    problem = round_of(np.random.default_rng(1), PaperMethod(), seen=100, size=1682)
    assert len(problem.own_rows) == 100
    assert problem.steps == 10
    check_train(trainer, [problem])


@every_trainer
@some
@given(seed=seeds, seen=st.integers(0, 30), dim=st.integers(1, 12), full=st.booleans())
def test_train_agrees_with_the_reference(
    trainer: Trainer, seed: int, seen: int, dim: int, full: bool
) -> None:
    method = msgspec.structs.replace(SMALL, dim=dim)
    check_train(trainer, [round_of(np.random.default_rng(seed), method, seen, full=full)])


@every_trainer
@pytest.mark.parametrize("name", NAMES)
def test_train_agrees_in_every_variant(trainer: Trainer, name: str) -> None:
    method = make_variant(name, SMALL).method
    rng = np.random.default_rng(2)
    check_train(trainer, [round_of(rng, method, step=12, full=full) for full in (True, False)])


@every_trainer
@pytest.mark.parametrize("seen", [0, 1, 60])
def test_train_without_positives_with_one_and_without_negatives(
    trainer: Trainer, seen: int
) -> None:
    check_train(trainer, [round_of(np.random.default_rng(3), SMALL, seen)])


@every_trainer
def test_train_of_negatives_alone(trainer: Trainer) -> None:
    problem = round_of(np.random.default_rng(4), make_variant("fedrap-c", SMALL).method)
    nothing = np.zeros_like(problem.other_liked)
    check_train(trainer, [replace(problem, other_liked=nothing)])


@every_trainer
def test_train_of_a_device_with_3000_interactions(trainer: Trainer) -> None:
    method = PaperMethod(epochs=2)
    problem = round_of(np.random.default_rng(5), method, seen=3000, size=9000)
    assert problem.steps == 2 * 8  # 15,000 samples in batches of 2,048 at most
    check_train(trainer, [problem])


@every_trainer
@some
@given(seed=seeds, most=st.integers(1, 200))
def test_train_counts_repeated_samples(trainer: Trainer, seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    problem = round_of(rng, SMALL)
    copies = rng.integers(1, most + 1, size=len(problem.own_rows))
    negatives = rng.integers(1, most + 1, size=len(problem.other_rows))
    total = copies.sum() + negatives.sum()
    own = np.tile(copies / total, (problem.steps, 1))
    other = np.tile(negatives / total, (problem.steps, 1))
    check_train(trainer, [replace(problem, own_weights=own, own_liked=own, other_weights=other)])


@every_trainer
@pytest.mark.parametrize("scale", [1e2, 1e3])
def test_train_with_huge_logits(trainer: Trainer, scale: float) -> None:
    problem = round_of(np.random.default_rng(6), msgspec.structs.replace(SMALL, rate=1.0))
    start = replace(problem.start, user=problem.start.user * scale)
    check_train(trainer, [replace(problem, start=start)])


@every_trainer
def test_train_of_many_devices_keeps_their_order(trainer: Trainer) -> None:
    rng = np.random.default_rng(7)
    small = msgspec.structs.replace(SMALL, batch=16)
    check_train(
        trainer,
        [
            round_of(rng, small if device % 3 else SMALL, seen=device % 11, full=device % 2 == 0)
            for device in range(40)
        ],
    )


@every_trainer
@some
@given(seed=seeds)
def test_rows_without_samples_only_shrink_by_nothing(trainer: Trainer, seed: int) -> None:
    problem = round_of(np.random.default_rng(seed), SMALL)
    own, other = problem.own_weights.copy(), problem.other_weights.copy()
    liked = problem.own_liked.copy()
    own[:, 3:] = liked[:, 3:] = other[:, 5:] = 0.0
    padded = replace(problem, own_weights=own, own_liked=liked, other_weights=other)
    short = replace(
        padded,
        own_rows=problem.own_rows[:3],
        other_rows=problem.other_rows[:5],
        start=replace(
            problem.start,
            personal=problem.start.personal[:3],
            own=problem.start.own[:3],
            other=problem.start.other[:5],
        ),
        own_weights=own[:, :3],
        own_liked=liked[:, :3],
        other_weights=other[:, :5],
        other_liked=problem.other_liked[:, :5],
    )
    (long,) = trainer.train([padded])
    (brief,) = trainer.train([short])
    assert_close(long.user, brief.user, "user")
    assert_close(long.personal[:3], brief.personal, "personal")
    assert_close(long.personal[3:], problem.start.personal[3:], "untouched")
    kept = np.isin(long.update.rows, brief.update.rows)
    assert_close(long.update.values[kept], brief.update.values, "delta")
    assert not long.update.values[~kept].any()


@every_trainer
def test_train_refuses_what_runs_away(trainer: Trainer) -> None:
    rng = np.random.default_rng(8)
    wild = msgspec.structs.replace(SMALL, rate=1e6, user_rate=1e6)
    with pytest.raises(Diverged):
        trainer.train([round_of(rng, SMALL), round_of(rng, wild)])
    problem = round_of(rng, SMALL)
    broken = replace(problem.start, user=np.full(8, np.nan))
    with pytest.raises(Diverged):
        trainer.train([replace(problem, start=broken)])


@every_trainer
def test_the_same_input_gives_the_same_bits_and_is_not_touched(trainer: Trainer) -> None:
    share, problem = share_of(9, 50), round_of(np.random.default_rng(9), SMALL)
    before = share.own.copy(), problem.start.own.copy(), problem.own_weights.copy()
    first, again = trainer.solve([share])[0], trainer.solve([share])[0]
    assert first.update.values.tobytes() == again.update.values.tobytes()
    one, two = trainer.train([problem])[0], trainer.train([problem])[0]
    assert one.update.values.tobytes() == two.update.values.tobytes()
    after = share.own, problem.start.own, problem.own_weights
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
