"""Buckets of tokens: so many at once, then so many a minute, in memory that does not grow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedrap_coordinator.domain.rate_limits import Buckets, Pace


def test_a_burst_is_let_through_and_then_one_at_a_time() -> None:
    buckets = Buckets(Pace(burst=3, per_minute=60))
    assert [buckets.take("a", 10.0) for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]
    assert buckets.take("b", 10.0) == 0.0
    assert buckets.take("a", 10.5) == 0.5
    assert buckets.take("a", 11.0) == 0.0
    assert buckets.take("a", 11.0) == 1.0


def test_who_is_full_again_is_forgotten_and_so_is_the_oldest_when_there_are_too_many() -> None:
    buckets = Buckets(Pace(burst=2, per_minute=60), most=5)
    for number in range(100):
        buckets.take(number, 0.0)
    assert len(buckets) == 5
    buckets.take("late", 60.0)
    assert len(buckets) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 5)), max_size=60))
def test_nobody_gets_more_than_burst_and_rate_allow(asks: list[tuple[int, float]]) -> None:
    buckets, now, got = Buckets(Pace(burst=4, per_minute=30)), 0.0, dict.fromkeys(range(4), 0)
    for name, pause in asks:
        now += pause
        got[name] += buckets.take(name, now) == 0.0
    assert all(count <= 4 + now * 0.5 + 1e-9 for count in got.values())
