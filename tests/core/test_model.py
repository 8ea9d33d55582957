"""C as devices hold it, D, and histories: what they compute and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from fedrap_core import model
from fedrap_core.errors import BrokenModel, WrongShape
from fedrap_core.model import CommonItems, History, PersonalItems
from fedrap_core.quantize import QuantizedRows
from tests.core.made import history_of, quick, random_items, scaled_items, seeds


@quick
@given(seeds)
def test_gram_and_scores_read_c_in_blocks_without_changing_the_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    common = random_items(rng, size=25, dim=5)
    dense = common.items.to_float().astype(np.float64)
    user = rng.normal(size=5)
    whole = common.gram(), common.scores(user)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "BLOCK", 7)
        assert np.allclose(common.gram(), whole[0], rtol=1e-12)
        assert np.allclose(common.scores(user), whole[1], atol=1e-6)
    assert np.allclose(whole[0], dense.T @ dense, rtol=1e-6)
    left = np.delete(dense, [2, 24], axis=0)
    assert np.allclose(common.gram(np.array([24, 2])), left.T @ left, rtol=1e-6)
    assert np.allclose(whole[1], dense @ user, atol=1e-5)


def test_a_row_outside_of_c_is_refused() -> None:
    common = random_items(np.random.default_rng(0), size=3)
    assert common.take(np.array([2, 0])).shape == (2, 4)
    assert common.take(np.zeros(0, dtype=np.int64)).shape == (0, 4)
    for row in (-1, 3):
        with pytest.raises(WrongShape):
            common.take(np.array([0, row]))


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, -1e-3, 1.1e4, 3e38])
def test_scales_that_are_negative_huge_or_not_finite_break_a_model(scale: float) -> None:
    with pytest.raises(BrokenModel):
        scaled_items([[1, 2], [3, 4]], [0.5, scale])


@pytest.mark.parametrize(
    ("values", "scales"),
    [((2, 3), (3,)), ((2, 3), (2, 1)), ((6,), (6,)), ((2, 0), (2,))],
)
def test_shapes_that_disagree_break_a_model(
    values: tuple[int, ...], scales: tuple[int, ...]
) -> None:
    with pytest.raises(BrokenModel):
        CommonItems(
            1, QuantizedRows(np.zeros(values, dtype=np.int8), np.zeros(scales, dtype=np.float32))
        )


def test_a_catalogue_may_be_empty() -> None:
    common = scaled_items(np.zeros((0, 4)), [])
    assert (common.size, common.dim) == (0, 4)
    assert not common.gram().any()
    assert common.scores(np.ones(4)).shape == (0,)


def test_the_rows_of_d_give_back_their_offsets() -> None:
    user = np.array([1.0, -2.0, 0.5])
    personal = PersonalItems(np.array([4, 7]), np.array([0.3, -0.1]))
    assert np.allclose(personal.vectors(user) @ user, personal.offsets)


def test_without_a_user_vector_the_rows_of_d_are_zero() -> None:
    personal = PersonalItems(np.array([4, 7]), np.array([0.3, -0.1]))
    assert not personal.vectors(np.zeros(3)).any()


@pytest.mark.parametrize("weight", [0.0, -1.1e6, np.nan, np.inf, 1.1e6])
def test_a_weight_that_means_nothing_is_refused(weight: float) -> None:
    with pytest.raises(WrongShape):
        history_of(1, 2, weights=[1.0, weight])


def test_a_history_needs_one_weight_per_interaction() -> None:
    with pytest.raises(WrongShape):
        History(np.array([1, 2]), np.ones(3))
