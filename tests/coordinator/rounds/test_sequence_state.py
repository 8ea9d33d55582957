"""The state of the sequence part: bytes and back, bounds, new items, and what damage does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrap_coordinator.rounds.sequence_state import (
    grow_learner,
    learn_sequence,
    learner_after,
    pack_learner,
    published,
    unpack_learner,
)
from fedrap_core.errors import BrokenModel
from fedrap_core.plan import SequenceMethod
from fedrap_core.sequence.server_step import (
    SequenceLearner,
    SequenceLearning,
    start_learner,
)
from fedrap_core.solve.server_step import Learner, Learning
from fedrap_core.sparse import RowPart

METHOD = SequenceMethod(dim=3, taus=(1.0, 5.0))
LEARNING = SequenceLearning(rounds=10, warm_up=0.0)
EVERY = np.arange(6)
NOTHING = Learner(np.zeros((6, 3)))  # what `solve` says of devices behind rows


def _sum(scale: float = 1.0) -> list[RowPart]:
    rng = np.random.default_rng(3)
    return [
        RowPart(EVERY[:4], scale * rng.normal(size=(4, 3))),
        RowPart(EVERY, scale * rng.normal(size=(6, 4))),
        RowPart(np.arange(2), scale * rng.normal(size=(2, 3))),
    ]


def _learner() -> SequenceLearner:
    fresh = start_learner(6, METHOD, LEARNING, np.random.default_rng(0))
    return learn_sequence(fresh, _sum(), 3, LEARNING, Learning(), NOTHING)


def test_a_learner_comes_back_from_its_bytes_to_the_same_bytes() -> None:
    raw = pack_learner(_learner())
    again = unpack_learner(raw)
    assert pack_learner(again) == raw
    assert (again.steps, again.since) == (1, 0)
    assert again.born is not None
    assert again.born.tolist() == [0] * 6
    np.testing.assert_allclose(again.items.outputs, _learner().items.outputs, rtol=1e-6)
    np.testing.assert_allclose(again.offsets.square, _learner().offsets.square, rtol=1e-6)


@pytest.mark.parametrize(
    "hurt",
    [
        lambda raw: b"",
        lambda raw: raw[:-1],
        lambda raw: raw + b"1",
        lambda raw: b"XXXX" + raw[4:],
        lambda raw: raw[:4] + b"\xff\xff\xff\xff" + raw[8:],
        lambda raw: raw[:24] + b"\x02\0\0\0" + raw[28:],  # a row of a step to come
        lambda raw: raw[:48] + b"\xff" * 4 + raw[52:],  # NaN
        lambda raw: raw[:20] + b"\xff\0\0\0" + raw[24:],  # began after it was made
    ],
    ids=["empty", "cut", "longer", "magic", "size", "born", "nan", "since"],
)
def test_damaged_bytes_are_no_learner_and_learning_goes_on_without_them(hurt) -> None:  # type: ignore[no-untyped-def]
    learner = _learner()
    broken, rows = hurt(pack_learner(learner)), published(learner)
    with pytest.raises(BrokenModel):
        unpack_learner(broken)
    anew = learner_after(broken, rows, 7)
    assert (anew.steps, anew.since) == (7, 7)
    assert np.array_equal(anew.items.bias, rows.bias)
    assert not anew.outputs.mean.any()


def test_the_state_of_other_rows_is_not_taken() -> None:
    learner = _learner()
    grown = grow_learner(learner, 7, [])
    assert learner_after(pack_learner(learner), published(grown), 2).since == 2


def test_moments_that_began_anew_make_the_step_of_a_first_round() -> None:
    """Adam's correction counts from where they began, the schedule from the task's beginning."""
    learner = _learner()
    late = replace(learner_after(None, published(learner), 4), steps=4)
    first = replace(late, steps=0, since=0)
    schedule = SequenceLearning(rounds=1000, warm_up=0.0, decay=0.0, lowest=1.0)
    moved = [
        learn_sequence(state, _sum(), 3, schedule, Learning(), NOTHING).items.outputs
        for state in (late, first)
    ]
    np.testing.assert_allclose(moved[0], moved[1])


@pytest.mark.parametrize("support", [None, np.full(6, 2.0)])
def test_no_row_moves_further_than_its_reach(support: np.ndarray | None) -> None:
    learner = _learner()
    bounds = Learning(row_step=0.1, min_support=4.0)
    behind = replace(NOTHING, support=support)
    moved = learn_sequence(learner, _sum(), 3, LEARNING, bounds, behind)
    usual = np.sqrt(np.mean(np.sum(learner.items.outputs**2, axis=1)))
    reach = 0.1 * usual * (0.5 if support is not None else 0.0) + 1e-12
    both = np.column_stack([moved.items.outputs, moved.items.bias]) - np.column_stack(
        [learner.items.outputs, learner.items.bias]
    )
    assert np.linalg.norm(both, axis=1).max() <= reach
    assert np.linalg.norm(moved.items.offsets - learner.items.offsets, axis=1).max() <= reach
    assert moved.steps == 2


def test_a_new_item_starts_where_its_neighbours_are() -> None:
    learner = _learner()
    attributes = [(1, "genre", "noir"), (2, "genre", "noir"), (6, "genre", "noir")]
    grown = grow_learner(learner, 8, attributes)
    items = grown.items
    np.testing.assert_allclose(items.outputs[6], learner.items.outputs[1:3].mean(axis=0))
    np.testing.assert_allclose(items.offsets[6], learner.items.offsets[1:3].mean(axis=0))
    assert items.bias[6] == pytest.approx(learner.items.bias[1:3].mean())
    assert not items.outputs[7].any()
    assert grown.outputs.mean.shape == (8, 3)
    assert not grown.outputs.square[6:].any()
    assert grown.born is not None
    assert grown.born.tolist() == [0] * 6 + [1] * 2
    assert unpack_learner(pack_learner(grown)).steps == 1
    assert grow_learner(learner, 6, attributes) is learner


def test_numbers_that_are_absurdly_large_make_no_release() -> None:
    learner = _learner()
    for number in (1e8, 1e35):
        outputs = learner.items.outputs * number
        with pytest.raises(BrokenModel):
            published(replace(learner, items=replace(learner.items, outputs=outputs)))
