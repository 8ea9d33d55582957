"""What the helper does with questions, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedrap_aggregator.errors import Refusal
from fedrap_core.questions.answers import Layout
from fedrap_core.split.numbers import Numbers
from fedrap_core.split.report import LEADER, Report, make_report
from fedrap_core.split.vectors import VectorTerms, vector_terms
from fedrap_core.split.verify import RunningSum
from fedrap_core.wire.keys import public_from_point
from fedrap_core.wire.seal import seal
from fedrap_core.wire.shares import (
    CloseRound,
    HelperReport,
    OpenQuestion,
    ReportBatch,
    RoundOpened,
    answer_context,
    question_bytes,
    set_digest,
)
from fedrap_core.wire.signing import verify
from testkit.pair import LocalHelper

TASK, QUESTION = b"t" * 16, b"q" * 16
TERMS = vector_terms(QUESTION, Layout(1, 1, 1))


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def helper(tmp_path: Path, clock: Clock) -> Iterator[LocalHelper]:
    made = LocalHelper(tmp_path / "helper", clock=clock)
    yield made
    made.close()


def asked(clock: Clock, **changes: object) -> OpenQuestion:
    fields: dict[str, object] = {
        "task": TASK, "question": QUESTION, "numbers": TERMS.whole, "limit": TERMS.limit,
        "noise": 0.0, "least": 2, "ends_at": clock.now + 86400.0,
    }  # fmt: skip
    return OpenQuestion(**(fields | changes))  # type: ignore[arg-type]


def answers(
    opened: RoundOpened, numbers: list[list[int]], terms: VectorTerms = TERMS
) -> list[HelperReport]:
    """Answers of as many devices, and what the leader saw of them."""
    leader, none = RunningSum(terms, LEADER), np.zeros(0, dtype=np.int64)
    made = []
    for at, mine in enumerate(numbers):
        vector = Numbers(none, none.reshape(0, 0), np.array(mine), 0)
        report: Report = make_report(terms, vector, bytes([at + 1]) * 32)
        looked = leader.look(opened.verify_key, report.id, report.public, report.leader)
        info = answer_context(TASK, terms.round, report.id, 1)
        made.append(
            HelperReport(
                report=report.id, public=report.public, seen=looked.seen.encoded(),
                helper=seal(report.helper, opened.seal_key, info),
            )
        )  # fmt: skip
    return made


def closing(reports: list[HelperReport]) -> CloseRound:
    ids = {one.report for one in reports}
    return CloseRound(round=QUESTION, count=len(ids), digest=set_digest(ids))


def problem(call: object, *arguments: object) -> str:
    with pytest.raises(Refusal) as refused:
        call(*arguments)  # type: ignore[operator]
    return refused.value.problem.value


@pytest.mark.spec("14.11")
def test_a_question_is_opened_once_and_signed_with_what_it_is_held_to(
    helper: LocalHelper, clock: Clock
) -> None:
    opened = helper.rounds.open_question(asked(clock))
    helper.start()
    again = helper.rounds.open_question(asked(clock))
    assert (again.seal_key, again.signature) == (opened.seal_key, opened.signature)
    identity = public_from_point(bytes.fromhex(helper.identity))
    verify(identity, question_bytes(asked(clock), opened.seal_key), opened.signature)
    for changed in ({"noise": 1.0}, {"least": 3}, {"numbers": 6}, {"limit": 9}, {"task": QUESTION}):
        other = asked(clock, **changed)
        assert problem(helper.rounds.open_question, other) == "another-round"
        assert question_bytes(other, b"") != question_bytes(asked(clock), b"")


@pytest.mark.spec("14.11")
def test_it_serves_no_question_with_less_noise_or_more_time_than_it_insists_on(
    tmp_path: Path, clock: Clock
) -> None:
    helper = LocalHelper(tmp_path / "strict", noise=2.0, clock=clock)
    assert problem(helper.rounds.open_question, asked(clock, noise=1.9)) == "not-allowed"
    long = asked(clock, noise=2.0, ends_at=clock.now + 90 * 86400.0)
    assert problem(helper.rounds.open_question, long) == "not-allowed"
    helper.rounds.open_question(asked(clock, noise=2.0))
    helper.close()


@pytest.mark.spec("14.11")
def test_a_question_is_summed_from_one_set_once_and_for_ever(
    helper: LocalHelper, clock: Clock
) -> None:
    opened = helper.rounds.open_question(asked(clock, noise=5.0))
    reports = answers(opened, [[8, 3, 0, 1, 0], [8, 0, 0, 0, 0], [8, 31, 8, -31, 8]])
    batch = ReportBatch(round=QUESTION, reports=reports[:2])
    assert helper.rounds.check_batch(batch).counted == b"\1\1"
    assert helper.rounds.check_batch(batch).counted == b"\1\1"  # again: the same answer
    assert problem(helper.rounds.close_round, closing(reports)) == "another-set"
    share = helper.rounds.close_round(closing(reports[:2])).share
    assert len(share) == 4 * TERMS.whole
    helper.start()
    assert helper.rounds.close_round(closing(reports[:2])).share == share
    assert problem(helper.rounds.close_round, closing(reports[:1])) == "another-set"
    late = ReportBatch(round=QUESTION, reports=reports[2:])
    assert helper.rounds.check_batch(late).counted == b"\0"  # its key is gone, too
    clock.now += 10 * 86400.0
    helper.rounds.tidy()
    assert helper.rounds.close_round(closing(reports[:2])).share == share
    assert helper.rounds.open_question(asked(clock, noise=5.0)).seal_key == opened.seal_key


@pytest.mark.spec("14.11")
def test_it_sums_no_fewer_answers_than_question_or_helper_asks_for(
    helper: LocalHelper, clock: Clock
) -> None:
    opened = helper.rounds.open_question(asked(clock, least=3))
    reports = answers(opened, [[8, 3, 0, 1, 0], [8, 0, 0, 0, 0]])
    helper.rounds.check_batch(ReportBatch(round=QUESTION, reports=reports))
    assert problem(helper.rounds.close_round, closing(reports)) == "too-few"


def test_answers_that_do_not_hold_or_belong_elsewhere_are_not_counted(
    helper: LocalHelper, clock: Clock
) -> None:
    opened = helper.rounds.open_question(asked(clock))
    good, too_large = answers(opened, [[8, 3, 0, 1, 0], [31, 31, 31, 31, 31]])
    other = VectorTerms(b"o" * 16, TERMS.whole, TERMS.limit)
    elsewhere = answers(opened, [[8, 0, 0, 0, 1]] * 3, other)[-1]
    batch = ReportBatch(round=QUESTION, reports=[too_large, elsewhere, good, good])
    assert helper.rounds.check_batch(batch).counted == b"\0\0\1\1"  # the same one again
    assert helper.rounds.check_batch(batch).counted == b"\0\0\1\1"


def test_a_question_whose_time_is_over_is_forgotten_with_its_key(
    helper: LocalHelper, clock: Clock
) -> None:
    opened = helper.rounds.open_question(asked(clock))
    reports = answers(opened, [[8, 3, 0, 1, 0], [8, 0, 0, 0, 0]])
    helper.rounds.check_batch(ReportBatch(round=QUESTION, reports=reports))
    clock.now += 86401.0
    assert problem(helper.rounds.close_round, closing(reports)) == "no-round"
    assert helper.rounds.tidy() == 1
    assert helper.keys.round_key(QUESTION, make=False) is None
    assert problem(helper.rounds.check_batch, ReportBatch(round=QUESTION, reports=[])) == "no-round"
