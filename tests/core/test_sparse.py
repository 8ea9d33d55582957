"""Rows and triangle of an update: packing, what `check` refuses, and the padding buckets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import NotFinite, WrongShape
from fedrap_core.sparse import (
    LARGEST,
    SMALLEST_BUCKET,
    RowUpdate,
    bucket_bytes,
    pack_gram,
    packed_size,
    unpack_gram,
)
from tests.core.made import quick, random_update, seeds


@quick
@given(seeds, st.integers(1, 12))
def test_a_symmetric_matrix_survives_its_triangle(seed: int, dim: int) -> None:
    half = np.random.default_rng(seed).normal(size=(dim, dim))
    square = half + half.T
    triangle = pack_gram(square)
    assert triangle.shape == (packed_size(dim),)
    assert np.array_equal(unpack_gram(triangle, dim), square)


def test_the_triangle_goes_row_by_row_from_the_diagonal_on() -> None:
    square = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    assert pack_gram(square).tolist() == [1, 2, 3, 4, 5, 6]


def test_the_norm_covers_rows_and_triangle() -> None:
    update = RowUpdate(np.array([0]), np.array([[3.0, 0.0]]), np.array([0.0, 4.0, 0.0]))
    assert update.norm() == 5.0


@quick
@given(seeds, st.integers(0, 20))
def test_an_honest_update_passes_the_check(seed: int, count: int) -> None:
    random_update(np.random.default_rng(seed), count=count).check(20, 4)


def _with(rows: list[int], dim: int = 2, triangle: int = 3) -> RowUpdate:
    return RowUpdate(np.array(rows, dtype=np.int64), np.zeros((len(rows), dim)), np.zeros(triangle))


@pytest.mark.parametrize(
    "update",
    [
        pytest.param(_with([0, 1], dim=3), id="another dimension"),
        pytest.param(_with([0, 1], triangle=4), id="another triangle"),
        pytest.param(_with([-1, 1]), id="a negative row"),
        pytest.param(_with([0, 10]), id="a row beyond the model"),
        pytest.param(_with([1, 1]), id="a row twice"),
        pytest.param(_with([2, 1]), id="descending rows"),
        pytest.param(_with([0, 99, 5]), id="a row beyond the model in the middle"),
        pytest.param(
            RowUpdate(np.array([0, 1]), np.zeros((1, 2)), np.zeros(3)), id="rows without values"
        ),
        pytest.param(
            RowUpdate(np.array([[0, 1]]), np.zeros((1, 2)), np.zeros(3)), id="rows as a matrix"
        ),
    ],
)
def test_an_update_that_does_not_fit_the_model_is_refused(update: RowUpdate) -> None:
    with pytest.raises(WrongShape):
        update.check(10, 2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.01 * LARGEST, -1.01 * LARGEST])
def test_an_update_with_an_absurd_number_is_refused(value: float) -> None:
    in_rows = RowUpdate(np.array([0]), np.array([[0.0, value]]), np.zeros(3))
    in_triangle = RowUpdate(np.array([0]), np.zeros((1, 2)), np.array([0.0, value, 0.0]))
    for update in (in_rows, in_triangle):
        with pytest.raises(NotFinite):
            update.check(10, 2)


def test_an_update_without_rows_is_fine() -> None:
    _with([]).check(0, 2)


@pytest.mark.parametrize(
    ("needed", "bucket"),
    [(0, 512), (512, 512), (513, 768), (768, 768), (769, 1024), (1025, 1536), (1537, 2048)],
)
def test_the_buckets_are_powers_of_two_and_the_middles_between(needed: int, bucket: int) -> None:
    assert bucket_bytes(needed) == bucket


@quick
@given(st.integers(0, 10**8), st.integers(0, 10**6))
def test_a_larger_message_never_gets_a_smaller_bucket(needed: int, more: int) -> None:
    assert needed <= bucket_bytes(needed) <= bucket_bytes(needed + more)


@quick
@given(st.integers(SMALLEST_BUCKET, 10**9))
def test_padding_costs_at_most_half_of_the_message(needed: int) -> None:
    assert bucket_bytes(needed) < 1.5 * needed + 1
    assert bucket_bytes(bucket_bytes(needed)) == bucket_bytes(needed)
