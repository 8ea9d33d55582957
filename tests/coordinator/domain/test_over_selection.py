"""How many slots a round has: charges that buy nothing are those of devices that never answer."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from msgspec.structs import replace

from fedrap_coordinator.domain.over_selection import SlotPacing, until_slot
from fedrap_coordinator.domain.rounds import Round, RoundLimits

LIMITS = RoundLimits(
    min_updates=100, max_updates=400, max_seconds=1e6, over_selection=2.0, answer_seconds=300.0
)


def test_nobody_is_asked_in_advance_and_who_does_not_answer_is_replaced() -> None:
    pacing, round_ = SlotPacing(), Round(b"r", 1, 1, 0.0)
    assert pacing.slots(None, LIMITS, 0.0) == 400
    pacing.see(round_, 0.0)
    pacing.see(round_ := replace(round_, assigned=400), 10.0)
    assert pacing.slots(round_, LIMITS, 20.0) == 400
    pacing.see(round_ := replace(round_, accepted=380), 30.0)
    assert pacing.slots(round_, LIMITS, 309.0) == 400
    assert pacing.slots(round_, LIMITS, 310.0) == 420  # twenty had five minutes
    pacing.see(round_ := replace(round_, accepted=390), 311.0)  # ten were only slow
    assert pacing.slots(round_, LIMITS, 311.0) == 410
    lost = replace(round_, assigned=2000, accepted=0)
    pacing.see(lost, 400.0)
    assert pacing.slots(lost, LIMITS, 1e5) == LIMITS.slots == 800
    assert pacing.slots(Round(b"next", 2, 2, 0.0), LIMITS, 1e5) == 400


@pytest.mark.parametrize("dropped", [0.0, 0.05, 0.2, 0.4])
def test_under_five_percent_of_charges_are_spent_on_devices_that_would_have_answered(
    dropped: float,
) -> None:
    """Devices come one a second, answer within minutes or never; ten rounds of 400."""
    rng, charged, counted, silent = np.random.default_rng(3), 0, 0, 0
    for number in range(10):
        pacing, round_ = SlotPacing(), Round(bytes([number]), 1, 1, 0.0)
        answers: list[float] = []
        now = 0.0
        while round_.accepted < LIMITS.max_updates:
            now += 1.0
            while answers and answers[0] <= now and round_.accepted < LIMITS.max_updates:
                heapq.heappop(answers)
                round_ = replace(round_, accepted=round_.accepted + 1)
            if round_.assigned < pacing.slots(round_, LIMITS, now):
                round_ = replace(round_, assigned=round_.assigned + 1)
                if rng.random() < dropped:
                    silent += 1
                else:
                    heapq.heappush(answers, now + float(rng.exponential(60.0)))
            pacing.see(round_, now)
        charged, counted = charged + round_.assigned, counted + round_.accepted
    wasted = (charged - counted - silent) / charged
    assert wasted < 0.05
    assert silent / charged == pytest.approx(dropped, abs=0.03)


def test_where_k_is_spread_slots_come_evenly_over_a_round() -> None:
    pacing, round_ = SlotPacing(), Round(b"r", 1, 1, 0.0)
    limits = replace(LIMITS, min_seconds=4000.0)
    pacing.see(round_, 0.0)
    assert [pacing.slots(round_, limits, 0.0, age) for age in (0.0, 10.0, 11.0)] == [1, 1, 2]
    assert pacing.slots(round_, limits, 0.0, 2000.0) == 200
    assert pacing.slots(round_, limits, 0.0, 9000.0) == 400
    pacing.see(full := replace(round_, assigned=200), 1.0)
    assert until_slot(full, limits, 1500.0) == 500.0
    assert pacing.slots(full, limits, 0.0, 2000.0) == 200
    assert pacing.slots(full, limits, 0.0, 2001.0) == 201
    assert pacing.slots(full, limits, 400.0, 2000.0) == 400  # nobody answered: others may come
    assert until_slot(replace(round_, assigned=400), limits, 5000.0) == 0.0
    assert pacing.slots(round_, replace(limits, min_seconds=0.0), 0.0, 0.0) == 400
