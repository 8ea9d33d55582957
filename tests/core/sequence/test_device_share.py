"""A device's share is the gradient of the cross-entropy; decoys leave its mean as it is."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from fedrap_core.errors import BrokenModel, WrongShape
from fedrap_core.plan import SequenceMethod
from fedrap_core.sequence.device_share import (
    Draws,
    SequenceUpdate,
    compute_sequence,
    draw,
    pick_decoys,
    pose_sequence,
)
from fedrap_core.sequence.model import Matrix, SequenceItems, kernel_weights, window
from fedrap_core.sparse import RowPart
from tests.core.made import history_of

from .made import DIM, FLAT, SIZE, SURE, loss_by_hand, some_items

BY_HAND = [SURE, FLAT]


def share_of(
    items: SequenceItems, newest_first: list[int], method: SequenceMethod, seed: int = 0
) -> SequenceUpdate:
    history = history_of(*newest_first)
    count = len(window(history, method))
    draws = draw(count, method, np.random.default_rng(seed).random)
    return compute_sequence(pose_sequence(history, method, draws), items)


def dense(part: RowPart) -> Matrix:
    total = np.zeros((SIZE, part.values.shape[1]))
    total[part.rows] = part.values
    return total


def exact_outputs(items: SequenceItems, newest_first: list[int], method: SequenceMethod) -> Matrix:
    """g_out with the expectation over decoys: every decoy of every target once, by its chance."""
    history = history_of(*newest_first)
    count = len(window(history, method))
    draws = draw(count, method, np.random.default_rng(0).random)
    total = np.zeros((SIZE, DIM + 1))
    for at in range(len(draws.targets)):
        one = Draws(draws.targets[at : at + 1], draws.kept[at : at + 1], np.zeros(1))
        problem = pose_sequence(history, method, one)
        query = np.einsum(
            "sn,nk,sk->k", problem.weights[0], items.inputs(problem.rows), items.kernels
        )
        chances = np.exp(items.scores(query))
        chances /= chances.sum()
        for row in range(SIZE):
            middle = np.array([chances[:row].sum() + 0.5 * chances[row]])
            share = compute_sequence(replace(problem, decoys=middle), items)
            total += chances[row] * dense(share.outputs)
    return total


def slope(items: SequenceItems, name: str, rows: list[int], method: SequenceMethod) -> Matrix:
    """Central differences of the loss in every entry of one part of the model."""
    part: Matrix = getattr(items, name)
    found = np.zeros_like(part)
    for place in np.ndindex(part.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = part.copy()
            moved[place] += step
            ends.append(loss_by_hand(replace(items, **{name: moved}), rows, method))
        found[place] = (ends[0] - ends[1]) / 2e-5
    return found


@pytest.mark.parametrize("method", BY_HAND, ids=["ordered", "without order"])
def test_the_share_is_the_gradient_of_the_cross_entropy(method: SequenceMethod) -> None:
    items, newest_first = some_items(1, method), [4, 0, 7, 2, 5]
    oldest_first = newest_first[::-1]
    share = share_of(items, newest_first, method)
    inputs, outputs = dense(share.inputs), exact_outputs(items, newest_first, method)
    gradients = {
        "offsets": inputs,
        "outputs": inputs + outputs[:, :DIM],
        "bias": outputs[:, DIM],
        "kernels": share.kernels,
    }
    for name, gradient in gradients.items():
        known = slope(items, name, oldest_first, method)
        np.testing.assert_allclose(gradient, known, rtol=1e-5, atol=1e-7)
    targets = len(oldest_first) - (1 if method.ordered else 0)
    assert share.loss == pytest.approx(loss_by_hand(items, oldest_first, method) / targets)


def test_with_repeats_it_is_still_the_gradient_where_there_is_order() -> None:
    items, newest_first = some_items(2), [4, 0, 4, 4, 2]
    share = share_of(items, newest_first, SURE)
    assert share.inputs.rows.tolist() == [0, 2, 4]
    known = slope(items, "offsets", newest_first[::-1], SURE)
    np.testing.assert_allclose(dense(share.inputs), known, rtol=1e-5, atol=1e-7)


def test_decoys_come_as_often_as_the_softmax_says() -> None:
    rng = np.random.default_rng(3)
    chances = rng.dirichlet(np.ones(6))
    tries = 20_000
    found = pick_decoys(np.tile(chances, (tries, 1)), rng.random(tries))
    spread = np.sqrt(chances * (1.0 - chances) / tries)
    assert np.all(np.abs(np.bincount(found, minlength=6) / tries - chances) < 5.0 * spread)


@pytest.mark.parametrize("decoys", [1, 4])
def test_the_mean_of_drawn_shares_is_the_exact_one(decoys: int) -> None:
    items, newest_first = some_items(4), [4, 0, 7, 2]
    method = msgspec.structs.replace(SURE, decoys=decoys)
    drawn = [dense(share_of(items, newest_first, method, seed).outputs) for seed in range(800)]
    error = np.abs(np.mean(drawn, axis=0) - exact_outputs(items, newest_first, SURE))
    assert np.all(error < 5.0 * np.std(drawn, axis=0) / np.sqrt(len(drawn)) + 1e-9)


def test_four_decoys_leave_a_quarter_of_the_chance() -> None:
    items, newest_first = some_items(4), [4, 0, 7, 2]

    def spread(decoys: int) -> float:
        method = msgspec.structs.replace(SURE, decoys=decoys)
        drawn = [dense(share_of(items, newest_first, method, seed).outputs) for seed in range(400)]
        return float(np.var(drawn, axis=0).sum())

    assert spread(4) == pytest.approx(spread(1) / 4, rel=0.15)


def test_a_decoy_of_chances_that_add_up_to_less_than_one_is_the_last_item() -> None:
    assert pick_decoys(np.array([[0.5, 0.3]]), np.array([0.9])).tolist() == [1]
    assert pick_decoys(np.array([[0.0, 1.0]]), np.array([0.0])).tolist() == [1]


def test_the_same_draws_give_the_same_share_and_others_another() -> None:
    items, newest_first = some_items(5), [4, 0, 7, 2, 8, 1]
    method = SequenceMethod(dim=DIM, targets=3, dropout=0.4)
    one, same, other = (share_of(items, newest_first, method, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.outputs.values, same.outputs.values)
    np.testing.assert_array_equal(one.inputs.values, same.inputs.values)
    assert np.any(dense(one.inputs) != dense(other.inputs))


@pytest.mark.parametrize("newest_first", [[], [3]])
@pytest.mark.parametrize("method", BY_HAND)
def test_who_did_less_than_two_things_sends_nothing(
    newest_first: list[int], method: SequenceMethod
) -> None:
    share = share_of(some_items(6, method), newest_first, method)
    assert not len(share.outputs.rows)
    assert not share.inputs.values.any()
    assert share.norm() == share.loss == 0.0


def test_only_own_items_targets_and_decoys_are_touched() -> None:
    items, newest_first = some_items(7), [4, 0, 7, 2]
    share = share_of(items, newest_first, SURE)
    assert set(share.inputs.rows) == {0, 2, 4, 7}
    assert {4, 0, 7} <= set(share.outputs.rows.tolist())
    assert len(share.outputs.rows) <= 6
    # A decoy is known only by the sum of p: what others have as input offset says nothing.
    elsewhere = items.offsets.copy()
    elsewhere[[1, 3, 5, 6, 8]] += 9.0
    again = share_of(replace(items, offsets=elsewhere), newest_first, SURE)
    np.testing.assert_array_equal(again.inputs.values, share.inputs.values)
    np.testing.assert_array_equal(again.outputs.values, share.outputs.values)


def test_what_was_dropped_gets_no_gradient() -> None:
    items, history = some_items(8), history_of(4, 0, 7)
    kept = np.array([[True, False, False], [False, True, False]])
    draws = Draws(np.array([1, 2]), kept, np.array([0.3, 0.6]))
    share = compute_sequence(pose_sequence(history, SURE, draws), items)
    assert np.flatnonzero(dense(share.inputs).any(axis=1)).tolist() == [0, 7]  # not the newest


def test_no_more_targets_and_no_older_items_than_asked_for() -> None:
    method = SequenceMethod(dim=DIM, targets=2, longest=4)
    assert window(history_of(6, 5, 4, 3, 2, 1), method).tolist() == [3, 4, 5, 6]
    draws = draw(4, method, np.random.default_rng(1).random)
    assert len(draws.targets) == len(draws.decoys) == 2
    assert draws.kept.shape == (2, 4)
    assert 1 <= draws.targets[0] < draws.targets[1] <= 3


def test_without_order_an_item_counts_once_and_order_means_nothing() -> None:
    items = some_items(9, FLAT)
    assert window(history_of(6, 5, 6, 3), FLAT).tolist() == [3, 5, 6]
    there, back = (share_of(items, rows, FLAT) for rows in ([6, 5, 3], [3, 6, 5]))
    np.testing.assert_allclose(there.inputs.values, back.inputs.values, rtol=1e-12)


def test_kernels_fade_from_the_newest_and_keep_their_length() -> None:
    weights = kernel_weights(SURE, 40)
    assert np.all(np.diff(weights, axis=1) <= 0)
    assert weights[0, 3:].sum() < 1e-3
    fade = np.exp(-np.arange(40) / 100.0)
    np.testing.assert_allclose(weights[-1], fade / np.sqrt(fade.sum()))
    assert kernel_weights(FLAT, 4).tolist() == [[0.5] * 4]


def test_draws_of_another_window_and_broken_models_are_refused() -> None:
    draws = draw(5, SURE, np.random.default_rng(1).random)
    with pytest.raises(WrongShape, match="the window has 3 places"):
        pose_sequence(history_of(1, 2, 3), SURE, draws)
    items = some_items(1)
    with pytest.raises(BrokenModel, match="not finite"):
        replace(items, bias=np.full(SIZE, np.nan))
    with pytest.raises(BrokenModel, match="another shape"):
        replace(items, offsets=items.offsets[1:])
    with pytest.raises(BrokenModel, match="time kernels"):
        replace(items, kernels=items.kernels[:, 1:])


@pytest.mark.parametrize("wrong", [{"dropout": 1.0}, {"targets": 0}, {"taus": []}, {"longest": 1}])
def test_settings_have_ranges(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, SequenceMethod)
