"""What was touched lately: exact in expectation, silent where noise is louder, never one device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrap_core.aggregate import Accumulator
from fedrap_core.errors import BrokenModel, WrongShape
from fedrap_core.model import CommonItems, History
from fedrap_core.parts import empty_parts, more_parts, update_parts
from fedrap_core.plan import DAY, OFF, Plan, Scoring, SequenceMethod, SolveMethod, TrendMethod
from fedrap_core.quantize import QuantizedRows, quantize_rows
from fedrap_core.ranking import explain, rank
from fedrap_core.solve.user import derive_user
from fedrap_core.sparse import RowPart, RowUpdate
from fedrap_core.trend import (
    LOUD,
    USUAL,
    TrendState,
    faded_trend,
    follow_trend,
    touched_lately,
    trend_of_items,
)
from fedrap_core.wire.codec import decode_value, encode_value
from fedrap_core.wire.share import decode_share, encode_share, uniform_count

WEEK = TrendMethod(half_days=7.0, scale=0.5)
METHOD = SolveMethod(dim=2, trend=WEEK)
SIZE = 6
NOW = 1_700_000_000.0


def _past(*touches: tuple[int, float, float]) -> History:
    """(row, weight, days ago), newest first."""
    rows, weights, days = zip(*touches, strict=True)
    return History(np.array(rows), np.array(weights), NOW - DAY * np.array(days))


def _update(rows: list[int], values: list[float]) -> RowUpdate:
    part = RowPart(np.array(rows, dtype=np.int64), np.array(values)[:, None])
    return RowUpdate(np.array([1]), np.zeros((1, 2)), np.zeros(3), 0, (part,))


def test_the_part_is_the_last_of_an_update_and_absent_where_it_is_off() -> None:
    both = SolveMethod(dim=2, sequence=SequenceMethod(dim=3), trend=WEEK)
    assert [one.name for one in more_parts(both, SIZE)][-1] == "lately"
    assert [one.name for one in update_parts(METHOD, SIZE)] == ["fits", "gram", "rows", "lately"]
    assert [len(one.rows) for one in empty_parts(METHOD)] == [0]
    assert b"trend" not in encode_value(Plan())
    assert b"trend" not in encode_value(Scoring())
    on = Plan(method=METHOD)
    assert decode_value(Plan, encode_value(on)) == on


@pytest.mark.spec("12.1")
def test_a_device_says_what_it_liked_lately_and_nothing_of_what_is_old() -> None:
    part = touched_lately(
        _past((4, 1.0, 0.0), (1, 2.0, 7.0), (2, -1.0, 1.0), (3, 1, 40)), NOW, WEEK
    )
    assert part.rows.tolist() == [1, 4]
    assert part.values[:, 0].tolist() == pytest.approx([0.25, 0.5])
    without_times = History(np.array([1]), np.array([1.0]))
    assert len(touched_lately(without_times, NOW, WEEK).rows) == 0
    with pytest.raises(WrongShape):
        History(np.array([1, 2]), np.ones(2), np.ones(3))


def test_times_follow_an_interaction_through_what_is_left_out() -> None:
    past = _past((1, -1.0, 1.0), (1, 1.0, 2.0), (2, 1.0, 3.0))
    settled = past.settled()  # the like of item 1 is taken back
    assert settled.times is not None
    assert settled.rows.tolist() == [1, 2]
    assert settled.liked().rows.tolist() == [2]
    liked = settled.liked().times
    assert liked is not None
    assert liked.tolist() == [NOW - 3 * DAY]


@pytest.mark.spec("12.2")
def test_a_share_carries_it_bit_by_bit_and_nothing_else_passes_for_it() -> None:
    update = _update([0, 5], [0.5, 0.125])
    parts = more_parts(METHOD, SIZE)
    raw = encode_share(update, np.full(uniform_count(update), 0.5), parts)
    found = decode_share(raw, 2, parts)
    assert found.parts[0].rows.tolist() == [0, 5]
    assert found.parts[0].values[:, 0].tolist() == pytest.approx([0.5, 0.125], rel=1e-6)
    with pytest.raises(WrongShape):
        decode_share(raw, 2, ())
    with pytest.raises(WrongShape):
        found.check(5, 2, more_parts(METHOD, 5))  # row 5 of five


@pytest.mark.spec("12.3")
def test_no_device_counts_twice_for_an_item_nor_against_it() -> None:
    parts = more_parts(METHOD, SIZE)
    total = Accumulator(SIZE, 2, clip=30.0, parts=parts)
    total.add(_update([0, 1], [0.5, 0.25]))
    total.add(_update([0, 2, 3], [20.0, -20.0, 0.1]))  # hostile
    (lately,) = total.total(0.0, bytes(32), 1).parts
    assert lately.values[:, 0].tolist() == pytest.approx([1.0, 0.25, 0.0, 0.1])
    noised = total.total(0.5, bytes(32), 1)
    assert noised.parts[0].values.shape == (SIZE, 1)  # every row, touched or not
    assert np.all(noised.parts[0].values[:, 0][[4, 5]] != 0)


def test_rounds_add_up_to_what_every_touch_is_worth_by_now() -> None:
    """Reports at their own times decay to the same sum as all touches counted at the end."""
    rng = np.random.default_rng(5)
    state, exact = None, np.zeros(SIZE)
    end = NOW + 30 * DAY
    for day in range(30):
        at = NOW + day * DAY
        rows, ages = rng.integers(0, SIZE, 4), rng.uniform(0, 3, 4)
        sums = np.zeros(SIZE)
        for row, age in zip(rows, ages, strict=True):
            sums[row] += 2.0 ** (-age / 7.0)
            exact[row] += 2.0 ** (-((end - at) / DAY + age) / 7.0)
        part = RowPart(np.arange(SIZE), sums[:, None])
        state = follow_trend(state, part, 0.0, at, 7.0, SIZE)
    nothing = RowPart(np.zeros(0, dtype=np.int64), np.zeros((0, 1)))
    state = follow_trend(state, nothing, 0.0, end, 7.0, SIZE + 1)  # with a new item
    assert state.touches.tolist() == pytest.approx([*exact, 0.0])
    before = follow_trend(state, nothing, 0.0, end - DAY, 7.0, SIZE + 1)  # a clock set back
    assert before.at == end
    assert before.touches.tolist() == state.touches.tolist()


@pytest.mark.spec("12.5")
def test_what_noise_can_make_and_what_one_device_did_is_zero() -> None:
    rng = np.random.default_rng(1)
    spread, size = 4.0, 20_000
    drowned = TrendState(rng.normal(0.0, spread, size), spread**2, NOW)
    found = trend_of_items(drowned)
    loud = 0 if found is None else np.count_nonzero(found)
    assert loud < 2 * 0.00135 * size + 30  # no more than a normal tail has beyond LOUD
    assert trend_of_items(TrendState(np.full(size, 2 * spread), spread**2, NOW)) is None
    heard = TrendState(np.array([1.0, 12.0, 40.0, 200.0, 13.0, 0.0]), spread**2, NOW)
    trend = trend_of_items(heard)
    assert trend is not None
    floor = LOUD * spread
    assert trend.tolist() == pytest.approx(
        [0.0, 0.0, np.log(40 / floor), np.log(200 / floor), np.log(13 / floor), 0.0]
    )
    assert trend_of_items(TrendState(np.array([1.0, 0.5]), 0.0, NOW)) is None  # all has faded
    alone = trend_of_items(TrendState(np.array([1.0, 0.0, 5.0]), 0.0, NOW))
    assert alone is not None
    assert alone.tolist() == pytest.approx([0.0, 0.0, np.log(5.0)])


def test_with_a_contrast_it_is_what_is_more_popular_than_usual() -> None:
    """Item 0 is always touched, item 1 only lately, item 2 no longer, item 3 by one device."""
    state = None
    for day in range(400):
        sums = np.array([[8.0], [8.0 * (day >= 396)], [8.0 * (day < 360)], [day == 399]])
        part = RowPart(np.arange(4), sums)
        state = follow_trend(state, part, 0.0, NOW + day * DAY, 7.0, 4, contrast=0.7)
    assert state is not None
    assert state.usual is not None
    week, slow = 2 ** (-np.arange(400) / 7), 2 ** (-np.arange(400) / (7 * USUAL))
    assert state.usual[:2].tolist() == pytest.approx([8 * slow.sum(), 8 * slow[:4].sum()])
    assert state.touches[:2].tolist() == pytest.approx([8 * week.sum(), 8 * week[:4].sum()])
    found, popular = trend_of_items(state), trend_of_items(replace(state, contrast=0.0))
    assert found is not None
    assert popular is not None
    assert popular.tolist() == pytest.approx([*np.log(state.touches[:3]), 0.0])
    share = state.touches.sum() / state.usual.sum()
    assert found[1] == pytest.approx(popular[1] - 0.7 * np.log(share * state.usual[1]))
    assert found[1] > found[0] > found[2] == found[3] == 0.0
    assert popular[0] > popular[1]
    # Half a year without a round: all has faded, and what is usual is still known.
    later = faded_trend(state, NOW + 600 * DAY, 7.0)
    assert trend_of_items(later) is None
    assert later.contrast == 0.7
    assert later.usual is not None
    assert later.usual[0] > 8.0
    # Sums that noise took below zero say nothing of what is usual.
    drowned = replace(state, usual=-state.usual)
    assert trend_of_items(drowned) == pytest.approx(popular)


def test_scores_have_it_exactly_and_a_new_user_starts_with_it() -> None:
    rng = np.random.default_rng(3)
    trend = quantize_rows(np.array([[0.0, 2.0, 0.0, 1.0, 0.0, 0.5]]))
    common = CommonItems(1, quantize_rows(rng.normal(size=(SIZE, 3))), None, trend)
    everything = np.ones(SIZE, dtype=np.bool_)
    scoring = Scoring(ridge=1.0, trend=0.5)
    nobody = derive_user(
        common, common.gram(), History(np.zeros(0, np.int64), np.zeros(0)), scoring
    )
    start = rank(common, nobody, scoring, 3, everything)
    assert start.rows.tolist() == [1, 3, 5]
    somebody = derive_user(common, common.gram(), History(np.array([0, 2]), np.ones(2)), scoring)
    with_it = rank(common, somebody, scoring, SIZE, everything)
    without = rank(common, somebody, replace_trend(scoring), SIZE, everything)
    order = np.argsort(with_it.rows)
    added = with_it.scores[order] - without.scores[np.argsort(without.rows)]
    assert added.tolist() == pytest.approx((0.5 * trend.to_float()[0]).tolist())
    why = explain(common, somebody, scoring, 1)
    assert why.shared.sum() + why.personal.sum() + why.trend == pytest.approx(
        with_it.scores[list(with_it.rows).index(1)]
    )


def replace_trend(scoring: Scoring) -> Scoring:
    """The same scoring without a trend."""
    return Scoring(ridge=scoring.ridge, trend=OFF)


@pytest.mark.spec("12.4")
def test_a_trend_of_another_size_is_refused() -> None:
    items = quantize_rows(np.ones((SIZE, 2)))
    with pytest.raises(BrokenModel):
        CommonItems(1, items, None, quantize_rows(np.ones((1, SIZE - 1))))
    good = quantize_rows(np.ones((1, SIZE)))
    with pytest.raises(BrokenModel):
        CommonItems(1, items, None, replace(good, scales=np.array([np.nan], dtype=np.float32)))
    assert CommonItems(1, items).lately(np.array([0, 3])).tolist() == [0.0, 0.0]
    assert isinstance(good, QuantizedRows)
