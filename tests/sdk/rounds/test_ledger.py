"""The device's own ledger: it refuses what breaks its floor, whoever asks, and counts epsilon."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap.rounds.ledger import TRIES_PER_STEP, Entry, Floor, charged_steps, epsilon, why_not
from fedrap_core import participation
from fedrap_core.plan import Plan, Privacy
from fedrap_core.privacy.accounting import charged_epsilon
from fedrap_core.wire.problems import BUDGET_SPENT, TOO_SOON

FLOOR = Floor.without_privacy(separation=1, cap=100, min_updates=1)


def an_entry(step: int, noise: float = 1.0, delta: float = 1e-5) -> Entry:
    return Entry(step, b"r" * 16, noise, delta, 0.0)


def a_plan(
    *, separation: int = 1, cap: int = 100, noise: float = 1.0, min_updates: int = 5
) -> Plan:
    privacy = Privacy(separation=separation, cap=cap, noise=noise)
    return Plan(privacy=privacy, min_updates=min_updates)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"noise": 2.0}, None),
        ({"noise": 0.9}, "policy-changed"),
        ({"cap": 11}, "policy-changed"),
        ({"window_days": 180.0}, "policy-changed"),
        ({"window_days": 0.0}, None),
        ({"noise": 0.0}, "policy-changed"),
    ],
)
def test_a_weaker_policy_waits_for_another_consent_where_the_floor_says_so(
    change: dict[str, float], expected: str | None
) -> None:
    rule = Privacy(separation=1, cap=10, noise=1.0, window_days=365.0)
    taken = [Entry(1, b"r" * 16, 1.0, 1e-5, 5.0, rule)]
    offered = Plan(privacy=msgspec.structs.replace(rule, **change), min_updates=5)
    floor = dataclasses.replace(FLOOR, ask_again=True, max_lifetime_epsilon=math.inf)
    assert why_not(taken, 3, offered, floor, 9.0, consented_at=4.0) == expected
    assert why_not(taken, 3, offered, floor, 9.0, consented_at=6.0) is None
    assert why_not(taken, 3, offered, FLOOR, 9.0, consented_at=4.0) is None
    assert why_not([], 3, offered, floor, 9.0, consented_at=4.0) is None
    answered = Entry(0, b"q" * 16, 5.0, 1e-5, 8.0, question=True)  # is no round agreed to
    assert why_not([*taken, answered], 3, offered, floor, 9.0, consented_at=6.0) is None


@pytest.mark.spec("7.5")
def test_k_renews_with_the_plans_window_however_long_the_floors_is() -> None:
    rule = Privacy(separation=1, cap=2, window_days=30.0)
    plan, day = Plan(privacy=rule, min_updates=5), 86_400.0
    taken = [Entry(step, b"r" * 16, 0.0, 1e-5, 0.0, rule) for step in (1, 3)]
    assert why_not(taken, 5, plan, FLOOR, 29 * day) == "ledger-cap"
    assert why_not(taken, 5, plan, FLOOR, 31 * day) is None
    of_the_floor = dataclasses.replace(FLOOR, cap=2)  # in a year, as its own window says
    assert why_not(taken, 5, plan, of_the_floor, 31 * day) == "ledger-cap"
    assert why_not(taken, 5, plan, of_the_floor, 366 * day) is None


@pytest.mark.spec("7.5")
@pytest.mark.parametrize("separation", [1, 2, 3, 10])
@pytest.mark.parametrize("whose", ["plan", "floor"])
def test_b_steps_apart_is_enough_and_one_less_is_not(separation: int, whose: str) -> None:
    plan, floor = a_plan(separation=separation), FLOOR
    if whose == "floor":
        plan, floor = a_plan(), Floor.without_privacy(separation=separation, min_updates=1)
    taken = [an_entry(50)]
    for step in (50 + separation, 50 - separation):
        assert why_not(taken, step, plan, floor, 0.0) is None
    for step in (50 + separation - 1, 50 - separation + 1):
        expected = None if step == 50 else "ledger-separation"
        assert why_not(taken, step, plan, floor, 0.0) == expected


@pytest.mark.spec("7.5")
@pytest.mark.parametrize("whose", ["plan", "floor"])
def test_k_rounds_are_enough_and_one_more_is_too_many(whose: str) -> None:
    plan = a_plan(cap=3 if whose == "plan" else 100)
    floor = Floor.without_privacy(separation=1, cap=3 if whose == "floor" else 100, min_updates=2)
    two, three = [an_entry(1), an_entry(3)], [an_entry(1), an_entry(3), an_entry(5)]
    assert why_not(two, 9, plan, floor, 0.0) is None
    assert why_not(three, 9, plan, floor, 0.0) == "ledger-cap"
    assert why_not(three, 5, plan, floor, 0.0) is None  # charged already


@pytest.mark.parametrize(
    ("plan", "floor", "expected"),
    [
        (a_plan(min_updates=4), Floor.without_privacy(min_updates=5), "floor-cohort"),
        (a_plan(min_updates=5), Floor.without_privacy(min_updates=5), None),
        (a_plan(min_updates=1), Floor.without_privacy(min_updates=2), "floor-cohort"),
        (a_plan(noise=0.49), Floor.without_privacy(min_noise=0.5, min_updates=2), "floor-noise"),
        (a_plan(noise=0.5), Floor.without_privacy(min_noise=0.5, min_updates=2), None),
        (a_plan(noise=0.0), Floor.without_privacy(min_updates=2), None),
    ],
)
def test_an_offer_below_the_floor_is_refused(
    plan: Plan, floor: Floor, expected: str | None
) -> None:
    assert why_not([], 1, plan, floor, 0.0) == expected
    assert why_not([an_entry(1)], 1, plan, floor, 0.0) == expected  # also for a second try


@pytest.mark.spec("7.6")
def test_an_abandoned_step_may_be_tried_again_but_not_for_ever() -> None:
    tries: list[Entry] = []
    for _ in range(TRIES_PER_STEP):
        assert why_not(tries, 7, a_plan(), FLOOR, 0.0) is None
        tries.append(an_entry(7))
    assert why_not(tries, 7, a_plan(), FLOOR, 0.0) == "ledger-tries"
    assert why_not(tries, 8, a_plan(), FLOOR, 0.0) is None
    assert charged_steps(tries) == {7}


@pytest.mark.spec("7.5")
@given(
    st.lists(st.integers(0, 40), max_size=60), st.integers(1, 5), st.integers(1, 6), st.booleans()
)
def test_whatever_is_offered_the_ledger_keeps_the_guarantee(
    offers: Sequence[int], separation: int, cap: int, by_floor: bool
) -> None:
    plan, floor = a_plan(separation=separation, cap=cap), FLOOR
    if by_floor:
        plan, floor = a_plan(), Floor.without_privacy(separation=separation, cap=cap, min_updates=2)
    entries: list[Entry] = []
    for step in offers:
        if why_not(entries, step, plan, floor, 0.0) is None:
            entries.append(an_entry(step))
    steps = sorted(charged_steps(entries))
    assert len(steps) <= cap
    assert all(later - earlier >= separation for earlier, later in pairwise(steps))
    assert len(entries) <= TRIES_PER_STEP * len(steps)


SAME = {None: None, "ledger-cap": BUDGET_SPENT, "ledger-separation": TOO_SOON}
steps_taken = st.lists(st.integers(1, 30), unique=True, max_size=8).map(sorted)


@pytest.mark.spec("7.5")
@given(steps_taken, st.integers(0, 12), st.integers(1, 6), st.integers(1, 8))
def test_the_ledger_says_what_the_rule_of_b_and_k_says(
    taken: list[int], ahead: int, separation: int, cap: int
) -> None:
    """The coordinator asks `participation.why_not`; the ledger decides by itself, and agrees."""
    last = taken[-1] if taken else None
    step = (last or 0) + ahead
    plan = a_plan(separation=separation, cap=cap)
    decided = why_not([an_entry(one) for one in taken], step, plan, FLOOR, 0.0)
    rule = participation.why_not(last, len(taken), step, plan.privacy)
    assert SAME[decided] is rule


@pytest.mark.spec("7.5")
@given(
    steps_taken, st.data(), st.integers(1, 6), st.integers(1, 8), st.integers(1, 6),
    st.integers(1, 8),
)  # fmt: skip
def test_the_ledger_never_allows_what_the_rule_refuses(
    taken: list[int], data: st.DataObject, separation: int, cap: int, own_b: int, own_k: int
) -> None:
    """Whatever the floor, and whichever of its slots the coordinator counted."""
    counted = data.draw(st.sampled_from([None, *taken]))
    step = data.draw(st.integers(1, 45))
    plan, floor = (
        a_plan(separation=separation, cap=cap),
        Floor.without_privacy(separation=own_b, cap=own_k, min_updates=1),
    )
    rule = participation.why_not(counted, len(taken), step, plan.privacy)
    ahead = counted is None or step >= counted  # a coordinator's steps only grow
    if rule is not None and ahead and step not in taken:  # one that is charged may be tried again
        assert why_not([an_entry(one) for one in taken], step, plan, floor, 0.0) is not None


def test_who_never_took_part_has_spent_nothing() -> None:
    assert epsilon([]) == 0.0


@given(st.integers(1, 20), st.floats(0.3, 20.0), st.sampled_from([1e-8, 1e-5, 1e-3]))
def test_epsilon_is_that_of_the_core(rounds: int, noise: float, delta: float) -> None:
    entries = [an_entry(step, noise, delta) for step in range(rounds)]
    assert epsilon(entries) == pytest.approx(charged_epsilon(rounds, noise, delta), rel=1e-7)


@pytest.mark.parametrize("noises", [[0.0], [0.0, 5.0], [5.0, 0.0, 5.0]])
def test_one_round_without_noise_guarantees_nothing(noises: list[float]) -> None:
    assert epsilon([an_entry(step, noise) for step, noise in enumerate(noises)]) == math.inf


def test_a_step_that_was_tried_twice_is_spent_once() -> None:
    assert epsilon([an_entry(3), an_entry(3)]) == epsilon([an_entry(3)])


@pytest.mark.parametrize("noises", [(0.5, 5.0), (5.0, 0.5)])
def test_of_two_tries_the_dearer_one_is_counted(noises: tuple[float, float]) -> None:
    entries = [an_entry(3, noise) for noise in noises]
    assert epsilon(entries) == epsilon([an_entry(3, 0.5)])


def test_less_noise_and_smaller_delta_cost_more() -> None:
    base = [an_entry(1, 2.0), an_entry(3, 2.0)]
    assert epsilon([*base, an_entry(5, 2.0)]) > epsilon(base)
    assert epsilon([an_entry(1, 2.0), an_entry(3, 1.0)]) > epsilon(base)
    assert epsilon([an_entry(1, 2.0), an_entry(3, 2.0, 1e-8)]) > epsilon(base)
