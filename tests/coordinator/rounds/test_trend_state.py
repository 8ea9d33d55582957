"""The trend between releases: kept with them, faded by time, never in the way of a release."""

from __future__ import annotations

import struct

import msgspec
import numpy as np
import pytest

from fedrap_coordinator.domain.records import Extent
from fedrap_coordinator.rounds.release_state import ReleaseState
from fedrap_coordinator.rounds.releases import (
    Model,
    first_model,
    grown_model,
    is_stale,
    load_model,
    next_model,
    restored_model,
    unscaled,
)
from fedrap_coordinator.rounds.sequence_state import unpack_learner
from fedrap_coordinator.rounds.trend_state import pack_trend, published_trend, read_trend
from fedrap_core.plan import DAY, OFF, Scoring, SequenceMethod, SolveMethod, TrendMethod
from fedrap_core.solve.server_step import RoundSum
from fedrap_core.sparse import RowPart, pack_gram
from fedrap_core.trend import TrendState
from testkit.harness import DIM, small_settings

TASK = b"t" * 16
SIZE = 6
TREND = TrendMethod(half_days=2.0, scale=0.5)
PART = SequenceMethod(dim=3, taus=(0.5, 4.0), scale=0.25)
SETTINGS = msgspec.structs.replace(
    small_settings(), method=SolveMethod(dim=DIM, trend=TREND), scoring=Scoring(trend=0.5)
)
BOTH = msgspec.structs.replace(SETTINGS, method=SolveMethod(dim=DIM, trend=TREND, sequence=PART))


def _sum(*touched: float, spread: float = 0.0, parts: tuple[RowPart, ...] = ()) -> RoundSum:
    """As the aggregator gives it: touches times the scale, after the other parts."""
    lately = RowPart(np.arange(len(touched)), 0.5 * np.array(touched)[:, None])
    return RoundSum(
        np.array([0]), np.full((1, DIM), 0.5), pack_gram(np.eye(DIM)) * 8, 8, spread=spread,
        parts=(*parts, lately),
    )  # fmt: skip


def _next(model: Model, total: RoundSum, days: float, settings=SETTINGS, size=SIZE) -> Model:  # type: ignore[no-untyped-def]
    total = unscaled(total, settings.method)
    return next_model(TASK, model, total, Extent(size, 1), settings, 0.0, (), days * DAY)


def _trend(model: Model) -> list[float]:
    assert model.common.trend is not None
    found: list[float] = model.common.trend.to_float()[0].tolist()
    return found


def test_what_was_touched_is_published_and_fades() -> None:
    first = first_model(TASK, Extent(SIZE, 1), SETTINGS)
    assert first.common.trend is None
    assert first.message.scoring == Scoring(trend=0.5)
    once = _next(first, _sum(8, 0, 4, 1, 0, 0), 0.0)
    assert _trend(once) == pytest.approx([np.log(8), 0, np.log(4), 0, 0, 0], abs=0.01)
    twice = _next(load_model(once.stored), _sum(0, 16, 0, 0, 0, 0), 2.0)  # a half-life later
    assert _trend(twice) == pytest.approx([np.log(4), np.log(16), np.log(2), 0, 0, 0], abs=0.015)
    assert twice.stored == _next(once, _sum(0, 16, 0, 0, 0, 0), 2.0).stored  # the same again
    assert load_model(twice.stored).common.trend is not None  # it travels with the release


def test_with_a_contrast_what_is_usual_is_kept_and_left_out() -> None:
    learning = msgspec.structs.replace(SETTINGS.learning, contrast=0.9)
    settings = msgspec.structs.replace(SETTINGS, learning=learning)
    model = first_model(TASK, Extent(SIZE, 1), settings)
    for day in range(3):
        model = _next(model, _sum(64, 0, 0, 0, 0, 0), 2.0 * day, settings)
    model = _next(model, _sum(64, 64, 0, 0, 0, 0), 6.0, settings)
    always, new = _trend(model)[:2]
    assert new > always > 0.0
    state = ReleaseState.read(model.stored.learner).trend
    assert state is not None
    assert state.contrast == 0.9
    # A release that no round made has the same; another contrast counts from the next step on.
    assert _trend(grown_model(model, Extent(SIZE, 2))) == _trend(model)
    plain = _next(model, _sum(0, 0, 0, 0, 0, 0), 6.0)
    assert _trend(plain)[0] > _trend(plain)[1]


def test_noise_that_is_louder_leaves_it_out_until_rounds_have_said_enough() -> None:
    first = first_model(TASK, Extent(SIZE, 1), SETTINGS)
    quiet = _next(first, _sum(30, 30, 30, 30, 0, 0, spread=10.0), 0.0)  # 20 in touches
    assert quiet.common.trend is None
    state = ReleaseState.read(quiet.stored.learner).trend
    assert state is not None
    assert state.variance == pytest.approx(400.0)
    heard = _next(quiet, _sum(90, 90, 90, 30, 0, 0, spread=10.0), 0.0)
    assert np.count_nonzero(_trend(heard)) == 3


def test_new_items_and_rollbacks_keep_it() -> None:
    first = first_model(TASK, Extent(SIZE, 1), SETTINGS)
    once = _next(first, _sum(8, 0, 4, 1, 0, 0), 0.0)
    grown = grown_model(once, Extent(SIZE + 2, 2))
    assert _trend(grown)[:SIZE] == _trend(once)
    assert _trend(grown)[SIZE:] == [0.0, 0.0]
    after = _next(grown, _sum(0, 0, 0, 0, 0, 0, 0, 9), 0.0, size=SIZE + 2)
    assert _trend(after)[-1] == pytest.approx(np.log(9), abs=0.01)
    assert _trend(after)[0] == pytest.approx(np.log(8), abs=0.01)
    back = restored_model(after, once.stored)
    assert _trend(back)[:SIZE] == _trend(once)


def test_it_fades_also_where_no_round_says_anything() -> None:
    first = first_model(TASK, Extent(SIZE, 1), SETTINGS)
    once = _next(first, _sum(8, 0, 4, 1, 0, 0), 0.0)
    method = SETTINGS.method
    assert not is_stale(once, method, 1.9 * DAY)
    assert is_stale(once, method, 2.0 * DAY)
    later = grown_model(once, Extent(SIZE, 1), (), method, 2.0 * DAY)
    assert _trend(later) == pytest.approx([np.log(4), 0, np.log(2), 0, 0, 0], abs=0.015)
    gone = grown_model(later, Extent(SIZE, 1), (), method, 20.0 * DAY)
    assert gone.common.trend is None
    assert not is_stale(gone, method, 99 * DAY)
    assert (gone.stored.step, gone.stored.version) == (1, 4)


def test_both_states_are_kept_side_by_side() -> None:
    first = first_model(TASK, Extent(SIZE, 1), BOTH)
    nothing = np.zeros(0, dtype=np.int64)
    parts = (
        RowPart(np.array([1]), np.full((1, 3), 0.25)),
        RowPart(np.array([2]), np.full((1, 4), 0.25)),
        RowPart(np.arange(2), np.full((2, 3), 0.25)),
    )
    made = _next(first, _sum(8, 0, 4, 1, 0, 0, parts=parts), 0.0, BOTH)
    kept = ReleaseState.read(made.stored.learner)
    trend, rest = kept.trend, kept.sequence
    assert trend is not None
    assert trend.touches.tolist() == [8, 0, 4, 1, 0, 0]
    assert unpack_learner(rest or b"").steps == 1
    alone = unscaled(_sum(2, parts=parts), BOTH.method)
    assert len(alone.parts) == 3
    assert alone.parts[0].values[0, 0] == 1.0  # 0.25 / scale 0.25
    assert alone.lately is not None
    assert alone.lately.values[0, 0] == 2.0
    # A round that was opened before the trend was switched on brings none, and breaks none.
    plain = RoundSum(nothing, np.zeros((0, DIM)), pack_gram(np.eye(DIM)) * 8, 8)
    again = next_model(TASK, made, plain, Extent(SIZE, 1), BOTH, 0.0, (), DAY)
    assert again.common.trend is not None
    off = msgspec.structs.replace(BOTH, method=SolveMethod(dim=DIM, sequence=PART))
    gone = next_model(TASK, made, plain, Extent(SIZE, 1), off, 0.0, (), DAY)
    assert gone.common.trend is None
    assert isinstance(gone.message.scoring, Scoring)
    assert gone.message.scoring.trend is OFF
    assert ReleaseState.read(gone.stored.learner).trend is None


def test_a_state_that_is_damaged_starts_anew() -> None:
    good = pack_trend(TrendState(np.arange(3.0), 2.0, 5.0, np.arange(3.0, 6.0), 0.7))
    found, rest = read_trend(good + b"FSL2 of after")
    assert found is not None
    assert (found.touches.tolist(), found.variance, found.at) == ([0, 1, 2], 2.0, 5.0)
    assert found.usual is not None
    assert (found.usual.tolist(), found.contrast) == ([3, 4, 5], 0.7)
    assert rest == b"FSL2 of after"
    assert read_trend(good[:-1]) == (None, b"")
    assert read_trend(good[:7]) == (None, b"")
    assert read_trend(pack_trend(TrendState(np.array([np.nan]), 2.0, 5.0))) == (None, b"")
    assert read_trend(b"") == (None, b"")
    assert read_trend(b"FSL2 of before") == (None, b"FSL2 of before")
    assert pack_trend(None) == b""
    assert published_trend(None, 4) is None


def test_a_state_from_before_there_was_a_contrast_is_read_and_so_is_what_follows_it() -> None:
    old = struct.pack("<4sIdd3d", b"FTR1", 3, 0.5, 7.0, 1.0, 2.0, 3.0)
    found, rest = read_trend(old + b"FSQ the sequence part's own")
    assert found is not None
    assert found.touches.tolist() == [1.0, 2.0, 3.0]
    assert (found.variance, found.at, found.contrast) == (0.5, 7.0, 0.0)
    assert rest == b"FSQ the sequence part's own"
    for damaged in (old[:10], old[:-1]):
        assert read_trend(damaged) == (None, b"")
