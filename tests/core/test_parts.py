"""The parts of an update: one list, one vector; clipped, summed and noised as one."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from fedrap_core.aggregate import Accumulator
from fedrap_core.errors import BrokenModel, NotFinite, WrongShape
from fedrap_core.model import CommonItems, SequenceRows
from fedrap_core.parts import empty_parts, more_parts, update_parts
from fedrap_core.plan import (
    OFF,
    PaperMethod,
    PaperScoring,
    Plan,
    Privacy,
    Scoring,
    SequenceMethod,
    SequenceScoring,
    SolveMethod,
    sequence_of,
    sequence_scoring,
)
from fedrap_core.privacy.mechanisms import clip_share, release_noise
from fedrap_core.quantize import quantize_rows
from fedrap_core.sparse import Part, RowPart, RowUpdate
from fedrap_core.wire.codec import decode_value, encode_value

METHOD = SolveMethod(dim=2, sequence=SequenceMethod(dim=3, taus=(1.0, 5.0)))
SIZE = 5
PARTS = more_parts(METHOD, SIZE)
KEY = bytes(range(32))


def _update(seed: int, scale: float = 1.0) -> RowUpdate:
    rng = np.random.default_rng(seed)
    return RowUpdate(
        np.array([1, 3]), scale * rng.normal(size=(2, 2)), np.array([0.2, 0.0, 0.1]) * scale, 0,
        (
            RowPart(np.array([1, 3]), scale * rng.normal(size=(2, 3))),
            RowPart(np.array([0, 3, 4]), scale * rng.normal(size=(3, 4))),
            RowPart(np.arange(2), scale * rng.normal(size=(2, 3))),
        ),
    )  # fmt: skip


def test_the_list_follows_from_the_plan() -> None:
    found = [(one.name, one.rows, one.width) for one in update_parts(METHOD, SIZE)]
    assert found == [
        ("fits", 1, 1), ("gram", 1, 3), ("rows", 5, 2), ("inputs", 5, 3), ("outputs", 5, 4),
        ("kernels", 2, 3),
    ]  # fmt: skip
    assert len(update_parts(PaperMethod(), SIZE)) == len(update_parts(SolveMethod(), SIZE)) == 3
    assert [len(one.rows) for one in empty_parts(METHOD)] == [0, 0, 2]


def test_what_is_off_is_absent_from_the_bytes() -> None:
    assert b"sequence" not in encode_value(Plan())
    assert b"sequence" not in encode_value(Scoring())
    on = Plan(method=METHOD)
    assert decode_value(Plan, encode_value(on)) == on
    assert sequence_of(SolveMethod()) is None
    assert sequence_of(PaperMethod()) is None
    assert sequence_scoring(PaperScoring()) is None
    assert sequence_scoring(Scoring(sequence=SequenceScoring(ordered=False))) is not None
    assert SequenceScoring(ordered=False).kernels == 1


def test_a_plan_must_not_take_all_memory_of_a_device() -> None:
    with pytest.raises(ValueError, match="lies above"):
        SequenceMethod(targets=5000, longest=5000)
    assert msgspec.structs.replace(METHOD, sequence=OFF) == SolveMethod(dim=2)


@pytest.mark.spec("10.3")
def test_the_clip_is_of_all_parts_as_one_vector_on_both_sides() -> None:
    long = _update(1, 50.0)
    sent = clip_share(long, Privacy(clip=2.0))
    assert sent.norm() == pytest.approx(2.0)
    assert sent.parts[1].values == pytest.approx(long.parts[1].values * 2.0 / long.norm())
    total = Accumulator(SIZE, 2, 2.0, None, PARTS)
    total.add(long)  # a device that forgets to clip
    found = total.total(0.0, KEY, 1)
    numbers = [found.values, found.packed_gram, *(one.values for one in found.parts)]
    assert np.sqrt(sum(float(np.sum(one**2)) for one in numbers)) == pytest.approx(2.0)


@pytest.mark.spec("10.3")
def test_rows_of_every_part_are_clipped() -> None:
    sent = clip_share(_update(2, 10.0), Privacy(clip=1e6, row_clip=0.5))
    for rows in (sent.values, *(one.values for one in sent.parts)):
        assert np.linalg.norm(rows, axis=1) == pytest.approx(np.full(len(rows), 0.5))
    fitting = Privacy(clip=1e6, row_clip=1e6)
    assert clip_share(_update(2), fitting).norm() == _update(2).norm()


def test_a_sum_has_the_rows_that_somebody_touched() -> None:
    total = Accumulator(SIZE, 2, 1e6, None, PARTS)
    for seed in (1, 2):
        total.add(_update(seed))
    found = total.total(0.0, KEY, 1)
    inputs, outputs, kernels = found.parts
    assert inputs.rows.tolist() == [1, 3]
    assert outputs.rows.tolist() == [0, 3, 4]
    expected = _update(1).parts[1].values + _update(2).parts[1].values
    assert outputs.values == pytest.approx(expected)
    assert kernels.values == pytest.approx(_update(1).parts[2].values + _update(2).parts[2].values)
    assert total.parts == PARTS


@pytest.mark.spec("10.4")
def test_noise_is_one_vector_over_all_parts_in_their_order() -> None:
    total = Accumulator(SIZE, 2, 4.0, None, PARTS)
    exact = Accumulator(SIZE, 2, 4.0, None, PARTS)
    for one in (total, exact):
        one.add(_update(1, 0.1))
    found, plain = total.total(0.5, KEY, 3), exact.total(0.0, KEY, 3)
    numbers = sum(part.numbers for part in update_parts(METHOD, SIZE))
    drawn, at = release_noise(KEY, 3, numbers, 2.0), 1  # the first is the clipping bits'
    sums = [(np.arange(3), plain.packed_gram)] + [
        (one.rows, one.values) for one in (RowPart(plain.rows, plain.values), *plain.parts)
    ]
    noised = [found.packed_gram, found.values, *(one.values for one in found.parts)]
    for (rows, values), result in zip(sums, noised, strict=True):
        expected = np.zeros_like(result)
        expected[rows] += values
        expected += drawn[at : at + result.size].reshape(result.shape)
        assert result == pytest.approx(expected)
        assert len(result) == len(expected)
        at += result.size
    assert at == numbers
    assert [one.rows.tolist() for one in found.parts] == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1]]


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ((), WrongShape),
        (_update(1).parts[:2], WrongShape),
        ((RowPart(np.array([5]), np.zeros((1, 3))), *_update(1).parts[1:]), WrongShape),
        ((RowPart(np.array([3, 1]), np.zeros((2, 3))), *_update(1).parts[1:]), WrongShape),
        ((RowPart(np.array([1]), np.zeros((1, 4))), *_update(1).parts[1:]), WrongShape),
        ((RowPart(np.array([1]), np.full((1, 3), np.nan)), *_update(1).parts[1:]), NotFinite),
        ((*_update(1).parts[:2], RowPart(np.array([0]), np.zeros((1, 3)))), WrongShape),
    ],
    ids=["none", "one missing", "out of range", "order", "width", "nan", "not all"],
)
def test_other_parts_than_the_plans_are_refused_and_nothing_is_added(
    parts: tuple[RowPart, ...], error: type[Exception]
) -> None:
    total = Accumulator(SIZE, 2, 1.0, None, PARTS)
    with pytest.raises(error):
        total.add(replace(_update(1), parts=parts))
    assert total.devices == 0
    assert not total.total(0.0, KEY, 1).parts[0].rows.size
    assert Part("x", 3, 4).numbers == 12


@pytest.mark.spec("10.5")
@pytest.mark.parametrize("number", [np.nan, np.inf, 2e4])
def test_numbers_that_no_device_should_use_are_refused(number: float) -> None:
    rows = quantize_rows(np.ones((2, 3)))
    bias, kernels = np.zeros(2, np.float32), np.ones((1, 3), np.float32)
    good = SequenceRows(rows, rows, bias, kernels)
    with pytest.raises(BrokenModel, match="huge or not finite"):
        replace(good, bias=np.full(2, number, np.float32))
    with pytest.raises(BrokenModel, match="huge or not finite"):
        replace(good, kernels=np.full((1, 3), number, np.float32))
    for shape in (
        {"bias": bias[:1]}, {"offsets": quantize_rows(np.ones((1, 3)))},
        {"kernels": kernels[:, :2]},
    ):  # fmt: skip
        with pytest.raises(BrokenModel):
            replace(good, **shape)
    with pytest.raises(BrokenModel, match="3 rows of C, but 2"):
        CommonItems(1, quantize_rows(np.ones((3, 2))), good)
    with pytest.raises(BrokenModel, match="no sequence part"):
        next(CommonItems(1, rows).mixed_blocks(np.ones(3), np.ones(3), 1.0))
