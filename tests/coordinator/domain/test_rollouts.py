"""What becomes of a roll-out when a stage has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedrap_coordinator.domain.rollouts import NEXT, Rollout, RolloutState, arm_of, decide
from fedrap_core.questions.estimates import Estimate, Verdict, judge

ROW = Rollout(b"r" * 16, NEXT, (0.01, 0.1), 0.05, 1.0).begun(7, 8)
LAST = replace(ROW, stage=1)


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [
        (-0.10, 0.04, Verdict.WORSE),
        (-0.10, 0.05, Verdict.UNCLEAR),
        (0.0, 0.05, Verdict.UNCLEAR),
        (0.0, 0.02, Verdict.SAFE),
        (-0.01, 0.001, Verdict.WORSE),  # however little: it is sure
        (0.3, 0.1, Verdict.SAFE),
    ],
)
def test_a_lead_is_judged_by_its_interval(value: float, error: float, verdict: Verdict) -> None:
    assert judge(Estimate(value, error), 0.05) is verdict


def test_worse_is_halted_at_whatever_stage() -> None:
    for row in (ROW, LAST):
        moved = decide(row, answered=True, lead=Estimate(-0.2, 0.01), now=9.0)
        assert moved.state is RolloutState.HALTING
        assert moved.reason.startswith("worse")
        assert moved.ended(9.0).state is RolloutState.HALTED


def test_no_evidence_of_harm_leads_to_the_next_stage_and_then_to_everybody() -> None:
    unclear = Estimate(-0.01, 0.05)
    assert decide(ROW, answered=True, lead=unclear, now=9.0).stage == 1
    moved = decide(LAST, answered=True, lead=unclear, now=9.0)
    assert moved.state is RolloutState.PROMOTING
    assert moved.reason.startswith("no evidence of harm")
    assert moved.ended(9.0).state is RolloutState.PROMOTED


def test_what_was_not_seen_is_not_for_everybody() -> None:
    assert decide(ROW, answered=True, lead=None, now=9.0).stage == 1
    assert decide(LAST, answered=True, lead=None, now=9.0).state is RolloutState.HALTING
    again = decide(LAST, answered=False, lead=None, now=9.0)
    assert (again.state, again.tries) == (RolloutState.RUNNING, 1)
    assert again.question() != LAST.question()  # another question
    assert decide(again, answered=False, lead=None, now=9.0).state is RolloutState.HALTING


def test_questions_of_a_roll_out_have_one_id_each_whoever_asks() -> None:
    ids = {ROW.question(stage, tries) for stage in range(3) for tries in range(2)}
    assert len(ids) == 6
    assert ROW.question() == replace(ROW, reason="other words").question()


def test_nothing_staged_is_nothing_to_take_back() -> None:
    waiting = Rollout(b"r" * 16, NEXT, (0.1,), 0.05, 1.0)
    over = waiting.halted("by ann", 4.0)
    assert (over.state, over.ended_at) == (RolloutState.HALTED, 4.0)
    assert (arm_of(100), arm_of(2)) == (20, 2)
