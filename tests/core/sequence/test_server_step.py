"""The coordinator's step: what was touched moves, and little where evidence is little."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrap_core.errors import BrokenModel
from fedrap_core.plan import SequenceMethod
from fedrap_core.sequence.device_share import compute_sequence, draw, pose_sequence
from fedrap_core.sequence.server_step import (
    SequenceLearner,
    SequenceLearning,
    SequenceSum,
    rate_share,
    sequence_step,
    start_learner,
)
from fedrap_core.sparse import RowPart
from tests.core.made import history_of

METHOD = SequenceMethod(dim=4)
LEARNING = SequenceLearning(rounds=20)


def fresh(size: int = 12) -> SequenceLearner:
    return start_learner(size, METHOD, LEARNING, np.random.default_rng(1))


def some_sum(seed: int, inputs: list[int], outputs: list[int]) -> SequenceSum:
    rng = np.random.default_rng(seed)
    return SequenceSum(
        RowPart(np.array(inputs, dtype=np.int64), rng.normal(0.0, 1.0, (len(inputs), 4))),
        RowPart(np.array(outputs, dtype=np.int64), rng.normal(0.0, 1.0, (len(outputs), 5))),
        rng.normal(0.0, 1.0, (5, 4)),
        3,
    )


def test_only_touched_rows_move() -> None:
    state = fresh()
    moved = sequence_step(state, some_sum(1, [2, 5], [5, 9]), LEARNING)
    again = sequence_step(moved, some_sum(2, [3], [3]), LEARNING)

    def changed(after: SequenceLearner, before: SequenceLearner, name: str) -> list[int]:
        there, here = getattr(after.items, name), getattr(before.items, name)
        return np.flatnonzero((there != here).reshape(len(there), -1).any(axis=1)).tolist()

    assert changed(moved, state, "outputs") == [2, 5, 9]
    assert changed(moved, state, "offsets") == [2, 5]
    assert changed(moved, state, "bias") == [5, 9]
    assert changed(moved, state, "kernels") == [0, 1, 2, 3, 4]
    assert changed(again, moved, "outputs") == changed(again, moved, "offsets") == [3]
    np.testing.assert_array_equal(again.outputs.mean[[2, 5, 9]], moved.outputs.mean[[2, 5, 9]])
    assert (moved.steps, again.steps) == (1, 2)
    assert state.steps == 0  # as it was


def test_items_that_nobody_has_change_no_step() -> None:
    total = some_sum(1, [2, 5], [5, 9])
    small, large = fresh(), fresh()
    wider = replace(
        large,
        **{
            name: replace(
                getattr(large, name),
                mean=np.concatenate([getattr(large, name).mean] * 2),
                square=np.concatenate([getattr(large, name).square] * 2),
            )
            for name in ("outputs", "offsets", "bias")
        },
        items=replace(
            large.items,
            outputs=np.concatenate([large.items.outputs] * 2),
            offsets=np.concatenate([large.items.offsets] * 2),
            bias=np.concatenate([large.items.bias] * 2),
        ),
    )
    one, two = (sequence_step(state, total, LEARNING).items for state in (small, wider))
    np.testing.assert_array_equal(one.outputs, two.outputs[:12])
    np.testing.assert_array_equal(one.bias, two.bias[:12])


def test_the_first_step_is_that_of_the_formula() -> None:
    state, total = fresh(), some_sum(3, [2, 5], [5, 9])
    moved = sequence_step(state, total, LEARNING)
    gradient = total.inputs.values  # (2, 4), of Delta, which starts at zero
    usual = np.abs(gradient)  # M' and sqrt V' of a first step
    rate = LEARNING.rate * rate_share(LEARNING, 0)
    known = -rate * gradient / (usual + 2.0 * usual.mean())
    np.testing.assert_allclose(moved.items.offsets[[2, 5]], known, rtol=1e-12)
    gradient = np.zeros((3, 4))
    gradient[:2] += total.inputs.values
    gradient[1:] += total.outputs.values[:, :4]
    usual, here = np.abs(gradient), state.items.outputs[[2, 5, 9]]
    known = here - rate * (gradient / (usual + 2.0 * usual.mean()) + 0.2 * here)
    np.testing.assert_allclose(moved.items.outputs[[2, 5, 9]], known, rtol=1e-12)


def test_rows_with_little_evidence_move_little() -> None:
    total = some_sum(1, [2, 5], [2, 5])
    weak = total.inputs.values.copy()
    weak[0] *= 1e-3
    moved = sequence_step(
        fresh(), replace(total, inputs=RowPart(total.inputs.rows, weak)), LEARNING
    )
    lengths = np.linalg.norm(moved.items.offsets[[2, 5]], axis=1)
    assert lengths[0] < 0.01 * lengths[1]


def test_the_rate_rises_over_a_tenth_and_falls_to_a_twentieth() -> None:
    shares = [rate_share(SequenceLearning(), step) for step in range(120)]
    assert np.argmax(shares) in (8, 9)
    assert shares[0] == pytest.approx(0.1, rel=1e-3)
    assert np.all(np.diff(shares[10:]) <= 0)
    assert shares[99] == shares[119] == pytest.approx(0.05)
    assert rate_share(SequenceLearning(warm_up=0.0), 0) > 0.99


def test_the_row_of_a_new_item_moves_as_all_did_at_the_start() -> None:
    """Its place in the schedule and Adam's correction are its own."""
    state = fresh()
    for seed in range(60):
        state = sequence_step(state, some_sum(seed, [0, 1], [0, 1, 2]), LEARNING)
    born = np.zeros(12, dtype=np.int64)
    born[11] = 60
    total = some_sum(99, [0, 11], [0, 11])
    moved = sequence_step(replace(state, born=born), total, LEARNING)
    counts = np.where(np.arange(12) == 11, 1, 61)[:, None]
    usual = np.sqrt(moved.offsets.square / (1.0 - LEARNING.second**counts))
    eps = LEARNING.caution * usual[[0, 1, 11]].mean()
    away = total.inputs.values[1]  # M' of a first step
    known = -LEARNING.rate * rate_share(LEARNING, 0) * away / (np.abs(away) + eps)
    np.testing.assert_allclose(moved.items.offsets[11], known, rtol=1e-12)
    assert moved.steps == 61
    late = sequence_step(state, total, LEARNING).items.offsets[11]  # as if it had been there
    assert np.linalg.norm(late) < 0.5 * np.linalg.norm(known)


def test_a_round_without_targets_changes_nothing_and_a_broken_one_is_refused() -> None:
    state = fresh()
    nothing = some_sum(1, [], [])
    assert sequence_step(state, nothing, LEARNING) is state
    broken = some_sum(1, [2], [2])
    broken.kernels[0, 0] = np.inf
    with pytest.raises(BrokenModel, match="sum of the round"):
        sequence_step(state, broken, LEARNING)


def test_zeros_as_gradient_divide_by_nothing() -> None:
    total = some_sum(1, [2], [2])
    zeros = SequenceSum(
        RowPart(total.inputs.rows, np.zeros((1, 4))),
        RowPart(total.outputs.rows, np.zeros((1, 5))),
        np.zeros((5, 4)),
        1,
    )
    assert not sequence_step(fresh(), zeros, LEARNING).items.offsets.any()


def test_devices_that_walk_the_same_way_teach_it() -> None:
    """Everybody goes round in a circle of six: after some rounds the next step is known."""
    method, learning = SequenceMethod(dim=8), SequenceLearning(rounds=80)
    state = start_learner(6, method, learning, np.random.default_rng(2))
    rng = np.random.default_rng(3)
    losses = []
    for _ in range(learning.rounds):
        inputs, outputs = np.zeros((6, 8)), np.zeros((6, 9))
        kernels, lost = np.zeros((5, 8)), []
        for first in range(6):
            history = history_of(*((first - age) % 6 for age in range(8)))
            problem = pose_sequence(history, method, draw(8, method, rng.random))
            share = compute_sequence(problem, state.items)
            inputs[share.inputs.rows] += share.inputs.values
            outputs[share.outputs.rows] += share.outputs.values
            kernels += share.kernels
            lost.append(share.loss)
        every = np.arange(6)
        total = SequenceSum(RowPart(every, inputs), RowPart(every, outputs), kernels, 6)
        state = sequence_step(state, total, learning)
        losses.append(float(np.mean(lost)))
    assert losses[0] > 1.7  # about log 6
    assert losses[-1] < 0.5 * losses[0]  # not zero: a fifth of the inputs is left out
