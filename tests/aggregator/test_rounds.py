"""What the helper does with a round, and everything that it refuses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap_aggregator.errors import ConfigError, Refusal
from fedrap_aggregator.store import Store
from fedrap_core.plan import Plan, Privacy
from fedrap_core.split.field import reduce, to_signed
from fedrap_core.split.report import LEADER, make_report
from fedrap_core.split.verify import RunningSum
from fedrap_core.wire.codec import encode_value
from fedrap_core.wire.messages import HelperKey, Offer
from fedrap_core.wire.shares import (
    CloseRound,
    HelperProblem,
    HelperReport,
    OpenRound,
    ReportBatch,
    check_helper,
    seal_report,
    set_digest,
)
from testkit.pair import Crash, LocalHelper
from tests.core.split.made import expected_sum, secret_of, some_numbers, some_terms

TERMS = some_terms()
TASK, MODEL = b"t" * 16, bytes(32)
PLAN = encode_value(TERMS.plan)
NOW = 1_800_000_000.0


@pytest.fixture
def helper(tmp_path: Path) -> Iterator[LocalHelper]:
    made = LocalHelper(tmp_path / "helper", clock=lambda: NOW)
    yield made
    made.close()


def question(**changes: object) -> OpenRound:
    asked = OpenRound(
        task=TASK, round=TERMS.round, step=1, model=MODEL, plan=PLAN, items=TERMS.items,
        ends_at=NOW + 3600.0,
    )  # fmt: skip
    return msgspec.structs.replace(asked, **changes)


class Leader:
    """Looks at reports as the coordinator does."""

    def __init__(self, helper: LocalHelper) -> None:
        self.helper, self.sum = helper, RunningSum(TERMS, LEADER)
        opened = helper.rounds.open_round(question())
        self.verify_key = opened.verify_key
        seal_id = hashlib.sha256(opened.seal_key).digest()[:8]
        self.key = HelperKey(name=opened.name, seal_key=opened.seal_key, seal_id=seal_id,
                             signature=opened.signature)  # fmt: skip
        self.offer = Offer(
            task=TASK, round=TERMS.round, step=1, plan=PLAN, release=0, model=MODEL,
            seal_key=opened.seal_key, seal_id=seal_id, helper=self.key,
        )  # fmt: skip

    def report(self, seed: int) -> HelperReport:
        made = make_report(TERMS, some_numbers(TERMS, seed), secret_of(seed))
        update = seal_report(self.offer, self.key, bytes(16), made)
        looked = self.sum.look(self.verify_key, made.id, made.public, made.leader)
        return HelperReport(report=made.id, public=made.public, helper=update.helper,
                            seen=looked.seen.encoded())  # fmt: skip

    def send(self, *reports: HelperReport) -> bytes:
        batch = ReportBatch(round=TERMS.round, reports=list(reports))
        return self.helper.rounds.check_batch(batch).counted

    def close(self, *reports: HelperReport) -> bytes:
        ids = {one.report for one in reports}
        asked = CloseRound(round=TERMS.round, count=len(ids), digest=set_digest(ids))
        return self.helper.rounds.close_round(asked).share


def problem(raised: pytest.ExceptionInfo[Refusal]) -> HelperProblem:
    return raised.value.problem


@pytest.mark.spec("13.6")
def test_a_round_is_opened_counted_and_closed_once(helper: LocalHelper) -> None:
    leader = Leader(helper)
    check_helper(leader.offer, bytes.fromhex(helper.identity))
    reports = [leader.report(seed) for seed in range(3)]
    assert leader.send(*reports[:2]) == b"\1\1"
    assert leader.send(*reports) == b"\1\1\1"  # two of them came before: counted once
    share = leader.close(*reports)
    both = to_signed(reduce(leader.sum.share() + np.frombuffer(share, "<u4")))
    assert (both == expected_sum(TERMS, [some_numbers(TERMS, seed) for seed in range(3)])).all()
    assert leader.close(*reports) == share  # the same bytes, ever after
    assert leader.send(*reports) == b"\1\1\1"
    helper.start()
    assert leader.close(*reports) == share


@pytest.mark.spec("13.6")
def test_a_step_is_summed_from_one_set_alone(helper: LocalHelper) -> None:
    leader = Leader(helper)
    reports = [leader.report(seed) for seed in range(3)]
    leader.send(*reports)
    with pytest.raises(Refusal) as raised:
        leader.close(*reports[:2])  # a difference of two sums would be one device
    assert problem(raised) is HelperProblem.ANOTHER_SET
    leader.close(*reports)
    with pytest.raises(Refusal) as raised:
        leader.close(*reports[:2])
    assert problem(raised) is HelperProblem.ANOTHER_SET
    late = leader.report(9)
    assert leader.send(late) == b"\0"
    for step in (0, 1):  # another round of a step that was summed
        with pytest.raises(Refusal) as raised:
            helper.rounds.open_round(question(round=b"another round...", step=step))
        assert problem(raised) is HelperProblem.BURNED_STEP
    helper.rounds.open_round(question(round=b"another round...", step=2))


@pytest.mark.spec("13.6")
def test_the_round_key_is_gone_when_the_sum_is_out(helper: LocalHelper) -> None:
    leader = Leader(helper)
    reports = [leader.report(seed) for seed in range(2)]
    leader.send(*reports)
    files = list((helper.folder / "helper-keys").glob("round-*"))
    assert len(files) == 1
    private = files[0].read_text("ascii").strip()
    database = (helper.folder / "helper.sqlite").read_bytes()
    assert bytes.fromhex(private) not in database  # keys are apart from data
    leader.close(*reports)
    assert not list((helper.folder / "helper-keys").glob("round-*"))


def test_too_few_devices_have_no_sum(tmp_path: Path) -> None:
    """Also where the helper's operator asks for more since the round was opened."""
    helper = LocalHelper(tmp_path / "helper", clock=lambda: NOW)
    leader = Leader(helper)
    helper.close()
    helper = leader.helper = LocalHelper(tmp_path / "helper", least=3, clock=lambda: NOW)
    reports = [leader.report(seed) for seed in range(2)]
    leader.send(*reports)
    with pytest.raises(Refusal) as raised:
        leader.close(*reports)
    assert problem(raised) is HelperProblem.TOO_FEW
    reports.append(leader.report(2))
    leader.send(reports[2])
    assert leader.close(*reports)
    helper.close()


def test_a_report_that_does_not_hold_is_not_counted(helper: LocalHelper) -> None:
    leader = Leader(helper)
    good, other = leader.report(1), leader.report(2)
    change = msgspec.structs.replace
    flipped = bytearray(good.seen)
    flipped[40] ^= 1
    bad = [
        change(good, seen=bytes(flipped)),
        change(other, helper=good.helper),
        change(leader.report(3), public=good.public),
        change(leader.report(4), helper=b""),
        change(leader.report(5), seen=b""),
    ]
    assert leader.send(*bad) == bytes(5)
    assert leader.send(good) == b"\0"  # its id came with something else; replays do not help
    assert leader.send(leader.report(6), leader.report(7)) == b"\1\1"


def test_rounds_that_it_would_not_sum_are_not_opened(tmp_path: Path) -> None:
    """Devices would be charged, and the round abandoned, again and again."""
    helper = LocalHelper(tmp_path / "helper", least=20, clock=lambda: NOW)
    with pytest.raises(Refusal, match="below this helper's 20; raise `min_updates`") as raised:
        helper.rounds.open_round(question())
    assert problem(raised) is HelperProblem.NOT_ALLOWED
    enough = msgspec.structs.replace(TERMS.plan, min_updates=20)
    assert helper.rounds.open_round(question(plan=encode_value(enough))).seal_key
    helper.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": encode_value(Plan())},
        {"plan": b"no plan"},
        {"ends_at": NOW - 1},
        {"ends_at": NOW + 86400.0 * 365},
    ],
    ids=["sealed", "malformed", "over", "too long"],
)
def test_rounds_that_this_helper_does_not_serve(
    helper: LocalHelper, changes: dict[str, object]
) -> None:
    with pytest.raises(Refusal) as raised:
        helper.rounds.open_round(question(**changes))
    assert problem(raised) is HelperProblem.NOT_ALLOWED
    assert not list((helper.folder / "helper-keys").glob("round-*"))


def test_a_helper_may_insist_on_noise(tmp_path: Path) -> None:
    helper = LocalHelper(tmp_path / "helper", noise=1.0, clock=lambda: NOW)
    with pytest.raises(Refusal):
        helper.rounds.open_round(question())
    noisy = msgspec.structs.replace(TERMS.plan, privacy=Privacy(clip=10.0, noise=1.5))
    helper.rounds.open_round(question(plan=encode_value(noisy)))
    helper.close()


def test_a_round_id_stands_for_one_round(helper: LocalHelper) -> None:
    first = helper.rounds.open_round(question())
    assert helper.rounds.open_round(question()) == first
    with pytest.raises(Refusal) as raised:
        helper.rounds.open_round(question(items=TERMS.items + 1))
    assert problem(raised) is HelperProblem.ANOTHER_ROUND


def test_a_round_whose_time_is_over_is_forgotten_with_its_key(tmp_path: Path) -> None:
    now = [NOW]
    helper = LocalHelper(tmp_path / "helper", clock=lambda: now[0])
    leader = Leader(helper)
    report = leader.report(1)
    now[0] += 3601.0
    with pytest.raises(Refusal) as raised:
        leader.send(report)
    assert problem(raised) is HelperProblem.NO_ROUND
    assert helper.rounds.tidy() == 1
    helper.close()


@pytest.mark.parametrize(
    "point",
    ["helper: key made", "helper: round kept", "helper: batch kept", "helper: summed",
     "helper: sum kept", "helper: key destroyed"],
)  # fmt: skip
def test_a_kill_at_any_point_changes_nothing(tmp_path: Path, point: str) -> None:
    """Asked again after a kill -9 it comes to the same numbers, and counts nothing twice."""
    helper = LocalHelper(tmp_path / "helper", clock=lambda: NOW, noise=0.0)
    helper._kill_at = point
    try:
        helper.rounds.open_round(question())
    except Crash:
        helper.start()
    leader = Leader(helper)
    reports = [leader.report(seed) for seed in range(3)]
    for some in (reports[:2], reports[2:]):
        try:
            assert leader.send(*some) == bytes([1] * len(some))
        except Crash:
            helper.start()
            assert leader.send(*some) == bytes([1] * len(some))
    try:
        share = leader.close(*reports)
    except Crash:
        helper.start()
        share = leader.close(*reports)
    assert helper._kill_at == ""  # it was reached
    both = to_signed(reduce(leader.sum.share() + np.frombuffer(share, "<u4")))
    assert (both == expected_sum(TERMS, [some_numbers(TERMS, seed) for seed in range(3)])).all()
    helper.close()


def test_a_database_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "db")
    store._db.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(ConfigError, match="schema 99"):
        Store(tmp_path / "db")
