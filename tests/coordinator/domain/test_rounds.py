"""The state machine of rounds: every pair of phases, both neighbours of every limit."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_coordinator.domain import rounds
from fedrap_coordinator.domain.rounds import (
    TRANSITIONS,
    IllegalTransition,
    Phase,
    Round,
    RoundCounts,
    RoundLimits,
)

LIMITS = RoundLimits(min_updates=3, max_updates=5, min_seconds=10.0, max_seconds=60.0)
OPENED = 1000.0
JUST = 1e-6


def a_round(phase: Phase = Phase.COLLECTING, assigned: int = 0, accepted: int = 0) -> Round:
    return Round(b"r" * 16, 7, 3, OPENED, phase, assigned, accepted)


def test_the_table_knows_every_phase() -> None:
    assert set(TRANSITIONS) == set(Phase)


@pytest.mark.parametrize(("start", "end"), list(product(Phase, Phase)))
def test_a_round_changes_phase_exactly_as_the_table_says(start: Phase, end: Phase) -> None:
    before = a_round(start, 4, 2)
    if end in TRANSITIONS[start]:
        after = before.to(end)
        assert (after.phase, after.id, after.step, after.accepted) == (end, before.id, 7, 2)
        assert before.phase is start
    else:
        with pytest.raises(IllegalTransition, match=f"{start} -> {end}"):
            before.to(end)


def test_a_round_that_is_over_stays_over_and_every_other_can_end() -> None:
    over = {Phase.RELEASED, Phase.ABANDONED}
    assert {phase for phase, after in TRANSITIONS.items() if not after} == over
    for start in set(Phase) - over:
        reached, todo = set[Phase](), [start]
        while todo:
            phase = todo.pop()
            todo += [after for after in TRANSITIONS[phase] if after not in reached]
            reached |= TRANSITIONS[phase]
        assert over <= reached


def test_the_drawing_names_every_phase() -> None:
    assert rounds.__doc__ is not None
    for phase in Phase:
        assert phase.name in rounds.__doc__


@pytest.mark.spec("7.11")
@pytest.mark.parametrize(
    ("age", "accepted", "expected"),
    [
        (0.0, 0, Phase.COLLECTING),
        (0.0, 4, Phase.COLLECTING),  # enough, but too early
        (0.0, 5, Phase.SUMMING),  # full ends it at once
        (10.0 - JUST, 3, Phase.COLLECTING),
        (10.0, 3, Phase.SUMMING),
        (10.0, 2, Phase.COLLECTING),  # one too few
        (60.0 - JUST, 2, Phase.COLLECTING),
        (60.0, 2, Phase.ABANDONED),
        (60.0, 0, Phase.ABANDONED),
        (60.0, 3, Phase.SUMMING),  # enough at the last moment
        (1e6, 5, Phase.SUMMING),
        (-5.0, 3, Phase.COLLECTING),  # a clock that was set back ends nothing
        (-5.0, 5, Phase.SUMMING),
    ],
)
def test_a_round_ends_at_its_limits_and_not_before(
    age: float, accepted: int, expected: Phase
) -> None:
    assert a_round(accepted=accepted).tick(LIMITS, OPENED + age).phase is expected


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.COLLECTING])
def test_time_moves_only_a_round_that_collects(phase: Phase) -> None:
    before = a_round(phase, accepted=5)
    assert before.tick(LIMITS, OPENED + 1e6) is before


@given(st.floats(-1e3, 1e6), st.integers(0, 10))
def test_a_tick_follows_the_table_and_a_second_one_changes_nothing(
    age: float, accepted: int
) -> None:
    before = a_round(accepted=accepted)
    after = before.tick(LIMITS, OPENED + age)
    assert after.phase is before.phase or after.phase in TRANSITIONS[before.phase]
    assert after.tick(LIMITS, OPENED + age) == after
    if after.phase is Phase.SUMMING:
        assert accepted >= LIMITS.min_updates


@pytest.mark.parametrize(
    ("max_updates", "over_selection", "slots"), [(5, 1.0, 5), (10, 1.3, 13), (2, 10.0, 20)]
)
def test_there_are_slots_for_more_devices_than_updates_are_wanted(
    max_updates: int, over_selection: float, slots: int
) -> None:
    limits = RoundLimits(max_updates=max_updates, over_selection=over_selection)
    assert RoundCounts(Phase.COLLECTING, slots - 1).has_slot(limits.slots)
    assert not RoundCounts(Phase.COLLECTING, slots).has_slot(limits.slots)


def test_a_round_takes_max_updates_and_not_one_more() -> None:
    assert RoundCounts(Phase.COLLECTING, 9, 4).takes_update(5)
    assert not RoundCounts(Phase.COLLECTING, 9, 5).takes_update(5)


@pytest.mark.parametrize("phase", [None, *(one for one in Phase if one is not Phase.COLLECTING)])
def test_there_is_no_room_in_a_round_that_does_not_collect(phase: Phase | None) -> None:
    assert not RoundCounts(phase).has_slot(5)
    assert not RoundCounts(phase).takes_update(5)


def test_counting_gives_new_counts_and_leaves_the_old_ones() -> None:
    before = RoundCounts(Phase.COLLECTING)
    after = before.with_assigned().with_assigned().with_accepted()
    assert (after.assigned, after.accepted) == (2, 1)
    assert (before.assigned, before.accepted) == (0, 0)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"min_updates": 6, "max_updates": 5}, "max_updates must be at least min_updates"),
        ({"min_seconds": 11, "max_seconds": 10}, "max_seconds must be at least min_seconds"),
        ({"min_updates": 0}, "min_updates"),
        ({"min_seconds": -1}, "min_seconds"),
        ({"max_seconds": 0}, "max_seconds"),
        ({"max_seconds": 1.1e9}, "max_seconds"),  # more than an offer can say
        ({"over_selection": 0.99}, "over_selection"),
        ({"over_selection": 10.1}, "over_selection"),
        ({"total": 0}, "total"),
        ({"min_update": 3}, "min_update"),
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float], says: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=says):
        msgspec.convert(wrong, RoundLimits)


def test_equal_limits_are_fine() -> None:
    limits = RoundLimits(min_updates=4, max_updates=4, min_seconds=9.0, max_seconds=9.0)
    assert a_round(accepted=4).tick(limits, OPENED).phase is Phase.SUMMING
    assert a_round(accepted=3).tick(limits, OPENED + 9.0).phase is Phase.ABANDONED
