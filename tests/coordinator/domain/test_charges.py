"""Charges as a text that SQL compares: exact, newest first, and told when they end."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from fedrap_coordinator.domain.charges import (
    DIGITS,
    MOST,
    SLACK,
    WIDTH,
    charge_times,
    counted,
    dearest,
    edge,
    until_renewed,
    with_charge,
    with_cost,
)
from fedrap_coordinator.domain.decisions import SlotRequest, SlotRule, assign_slots
from fedrap_coordinator.domain.records import DeviceRecord
from fedrap_coordinator.domain.rounds import Phase, RoundCounts
from fedrap_core.plan import DAY, Privacy
from fedrap_core.wire import problems

YEAR = Privacy(cap=2, separation=1, noise=2.0, window_days=365.0)
NOW = 1_700_000_000.0
_costs = st.floats(1e-12, 1e12) | st.just(math.inf)


@given(st.lists(st.tuples(st.floats(0, 5e9), _costs), max_size=12))
def test_charges_keep_their_times_and_all_of_their_costs(made: list[tuple[float, float]]) -> None:
    text, latest = "", 0
    expected: list[tuple[float, float]] = []
    for at, cost in made:
        text = with_charge(text, at, cost)
        latest = max(latest, int(at))  # a clock that is set back gives nobody a second budget
        expected.insert(0, (float(latest), cost))
    assert len(text) == WIDTH * len(made)
    assert charge_times(text) == [at for at, _ in expected]
    life = Privacy()
    assert dearest(text, 6e9, life) == max((cost for _, cost in expected), default=0.0)
    if made:
        assert dearest(with_cost(text[:WIDTH], 7.5), 6e9, life) == 7.5


@given(st.lists(st.floats(0, 1000), max_size=8).map(sorted), st.integers(1, 5), st.floats(1, 400))
def test_the_place_of_the_kth_charge_tells_what_counting_tells(
    days: list[float], cap: int, window: float
) -> None:
    rule, text = Privacy(cap=cap, window_days=window), ""
    for one in days:
        text = with_charge(text, DAY * one, 1.0)
    now = 1001 * DAY
    known = DeviceRecord(b"d", b"k", len(days), None, charges=text)
    at = WIDTH * (cap - 1)
    assert (text[at : at + DIGITS] > edge(now, rule)) == (counted(known, now, rule) >= cap)


def test_a_text_does_not_grow_for_ever() -> None:
    text = ""
    for one in range(MOST + 5):
        text = with_charge(text, float(one), 1.0)
    assert len(text) == WIDTH * MOST
    assert charge_times(text)[0] == MOST + 4


def _ask(known: DeviceRecord, step: int, now: float, rule: Privacy = YEAR) -> DeviceRecord | None:
    counts = RoundCounts(Phase.COLLECTING, 0, 0)
    batch = assign_slots(
        [SlotRequest(b"d")], counts, {b"d": known}, [], SlotRule(step, 5, rule), now
    )
    (result,) = batch.results
    if result.problem is None:
        return result.device
    assert result.problem is problems.BUDGET_SPENT
    return None


def test_k_renews_with_time_and_only_then() -> None:
    known: DeviceRecord | None = DeviceRecord(b"d", b"k", 0, None)
    for step, at in ((1, NOW), (2, NOW + 10 * DAY)):
        assert known is not None
        known = _ask(known, step, at)
    assert known is not None
    assert _ask(known, 3, NOW + 11 * DAY) is None
    left = until_renewed(known, NOW + 11 * DAY, YEAR)
    assert left == 354 * DAY + SLACK
    renewed = NOW + 11 * DAY + left
    assert _ask(known, 3, renewed - 2.0) is None
    third = _ask(known, 3, renewed)
    assert third is not None
    assert third.participations == 3  # of its life
    assert third.spent == 3 * 0.25
    assert _ask(third, 4, renewed + DAY) is None  # the second one is still in the window
    # Another rule looks at the same charges.
    assert _ask(known, 3, NOW + 11 * DAY, Privacy(cap=3, separation=1, window_days=365)) is not None
    assert _ask(known, 3, renewed, Privacy(cap=2, separation=1)) is None
    assert until_renewed(known, NOW, Privacy(cap=2)) is None


def test_a_step_that_is_tried_again_is_one_charge_by_the_dearer_rule() -> None:
    known = _ask(DeviceRecord(b"d", b"k", 0, None), 1, NOW)
    assert known is not None
    dearer = Privacy(cap=2, separation=1, noise=1.0, window_days=365.0)
    again = _ask(known, 1, NOW + DAY, dearer)
    assert again is not None
    assert charge_times(again.charges) == [NOW]
    assert again.dearest == 1.0
