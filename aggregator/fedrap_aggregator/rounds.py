"""What the helper does with a round or a question: opens it, counts reports, closes it.

Decides every refusal. A question is a round without rows and steps, under its own id: it is summed
from one set of answers, once. Each verb may be asked again and has the same answer, also after a
crash. What is given away of a sum is written down first, and the key destroyed, before anybody
hears it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from fedrap_aggregator.errors import Refusal
from fedrap_aggregator.keys import Keys, PrivateKey
from fedrap_aggregator.settings import Settings
from fedrap_aggregator.store import ClosedRound, Given, Store, StoredQuestion, StoredRound
from fedrap_core.errors import FedRapError
from fedrap_core.plan import Plan, split_of
from fedrap_core.privacy.mechanisms import task_noise_key
from fedrap_core.split.compiled import best_expansion
from fedrap_core.split.numbers import Terms, Whole, add_noise, server_noise
from fedrap_core.split.report import HELPER, ReportTerms
from fedrap_core.split.vectors import VectorTerms, vector_noise
from fedrap_core.split.verify import RunningSum, accepts, read_seen
from fedrap_core.wire.codec import decode_value
from fedrap_core.wire.keys import public_point
from fedrap_core.wire.shares import (
    BatchChecked,
    CloseRound,
    HelperProblem,
    HelperReport,
    OpenQuestion,
    OpenRound,
    ReportBatch,
    RoundClosed,
    RoundOpened,
    open_helper,
    open_helper_answer,
    set_digest,
    sign_question,
    sign_round,
)

log = logging.getLogger(__name__)
DAY = 86400.0
Reached = Callable[[str], None]  # is told of every fault point


def pass_by(point: str) -> None:
    """No fault."""


@dataclass
class _Loaded:
    """The running sum of what is at work, so that it is not read for each batch."""

    round_id: bytes
    terms: ReportTerms
    sum: RunningSum


Opened = StoredRound | StoredQuestion


class HelperRounds:
    """The rounds of all tasks of one leader. Its verbs take time and come one after another."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        keys: Keys,
        clock: Callable[[], float],
        token_bytes: Callable[[int], bytes],
        reached: Reached = pass_by,
    ) -> None:
        self._settings, self._store, self._keys = settings, store, keys
        self._clock, self._token_bytes, self._reached = clock, token_bytes, reached
        self._loaded: _Loaded | None = None
        self.expansion = ""  # of the last sum

    def tidy(self) -> int:
        """Forget rounds whose time is over, and destroy keys that no open round has."""
        now = self._clock()
        over = [one for one in self._store.open_rounds() if one.ends_at < now]
        for one in over:
            with self._store.transaction():
                self._store.forget_round(one.id)
            log.warning("round over without a sum", extra={"step": one.step})
        for asked in self._store.open_questions():
            if asked.ends_at < now:
                with self._store.transaction():
                    self._store.forget_question(asked.id)
                log.warning("question over without a sum")
        with self._store.transaction():
            self._store.forget_reports(now)
        left = {one.id for one in self._store.open_rounds()}
        left |= {one.id for one in self._store.open_questions()}
        return self._keys.destroy_all_but(left)

    def open_round(self, asked: OpenRound) -> RoundOpened:
        """A key for a round, signed; the same for the same round.

        Raises:
            Refusal: a step that was summed or left behind, or a plan that this helper refuses.
        """
        known = self._store.round(asked.round)
        if known is not None:
            same = (asked.task, asked.step, asked.model, asked.plan, asked.items) == (
                known.task, known.step, known.model, known.plan, known.items,
            )  # fmt: skip
            if not same:
                raise Refusal(HelperProblem.ANOTHER_ROUND, "that round was opened otherwise")
            return self._opened(known)
        self._check_plan(asked)
        last = self._store.last_step(asked.task)
        if asked.step <= last:
            raise Refusal(
                HelperProblem.BURNED_STEP, f"steps up to {last} were summed; open step {last + 1}"
            )
        now = self._clock()
        self._check_time(asked.ends_at, now)
        private = self._keys.round_key(asked.round, make=True)  # on disk before it is signed
        assert private is not None
        point = public_point(private.public_key())
        made = StoredRound(
            asked.round, asked.task, asked.step, asked.model, asked.plan, asked.items, now,
            asked.ends_at, point, sign_round(self._keys.identity, asked, point),
            self._token_bytes(16),
        )  # fmt: skip
        self._reached("helper: key made")
        with self._store.transaction():
            self._store.add_round(made)
        self._reached("helper: round kept")
        log.info("round opened", extra={"step": asked.step, "items": asked.items})
        return self._opened(made)

    def open_question(self, asked: OpenQuestion) -> RoundOpened:
        """A key for a question, signed; the same for the same question.

        Raises:
            Refusal: it was opened otherwise, or is one that this helper does not serve.
        """
        known = self._store.question(asked.question)
        if known is not None:
            same = (asked.task, asked.numbers, asked.limit, asked.noise, asked.least) == (
                known.task, known.numbers, known.limit, known.noise, known.least,
            )  # fmt: skip
            if not same:
                raise Refusal(HelperProblem.ANOTHER_ROUND, "that question was opened otherwise")
            return self._opened(known)
        if self._store.round(asked.question) is not None:
            raise Refusal(HelperProblem.ANOTHER_ROUND, "a round has that id")
        self._check_noise(asked.noise)
        self._check_least(asked.least)
        now = self._clock()
        self._check_time(asked.ends_at, now)
        private = self._keys.round_key(asked.question, make=True)
        assert private is not None
        point = public_point(private.public_key())
        made = StoredQuestion(
            asked.question, asked.task, asked.numbers, asked.limit, asked.noise, asked.least, now,
            asked.ends_at, point, sign_question(self._keys.identity, asked, point),
            self._token_bytes(16),
        )  # fmt: skip
        self._reached("helper: key made")
        with self._store.transaction():
            self._store.add_question(made)
        self._reached("helper: round kept")
        log.info("question opened", extra={"numbers": asked.numbers})
        return self._opened(made)

    def check_batch(self, batch: ReportBatch) -> BatchChecked:
        """Which reports of a batch are counted; one that came before keeps its answer.

        Raises:
            Refusal: there is no such round, or its time is over.
        """
        round_ = self._known(batch.round)
        known = self._store.reports(round_.id)
        fresh: dict[bytes, tuple[bytes, bool]] = {}
        answers = bytearray()
        loaded: _Loaded | None = None
        is_closed = self._given(round_) is not None
        try:
            for report in batch.reports:
                digest = hashlib.sha256(report.public + report.helper).digest()
                before = fresh.get(report.report) or known.get(report.report)
                if before is not None:
                    answers.append(before[1] and before[0] == digest)
                    continue
                if is_closed:
                    answers.append(False)
                    continue
                if loaded is None:
                    loaded, private = self._load(round_), self._private(round_)
                counted = self._count(loaded, private, round_, report)
                fresh[report.report] = (digest, counted)
                answers.append(counted)
            if fresh and loaded is not None:
                with self._store.transaction():
                    self._store.add_reports(round_.id, fresh)
                    self._store.keep_sum(round_.id, loaded.sum.encoded())
                self._reached("helper: batch kept")
        except BaseException:
            self._loaded = None  # what is in memory is not what was kept
            raise
        return BatchChecked(counted=bytes(answers))

    def close_round(self, asked: CloseRound) -> RoundClosed:
        """The noised share of a round's sum; the same bytes for the same set, ever after.

        Raises:
            Refusal: too few reports, or another set than was counted or summed here.
        """
        round_ = self._known(asked.round)
        closed = self._given(round_)
        if closed is None:
            closed = self._sum(round_, asked)
        if closed.digest != asked.digest or closed.count != asked.count:
            raise Refusal(HelperProblem.ANOTHER_SET, "that was summed from other reports")
        if closed.share is None:
            raise Refusal(HelperProblem.BURNED_STEP, "later steps were summed since")
        self.tidy()  # the round's key is gone before anybody has its sum
        self._reached("helper: key destroyed")
        return RoundClosed(share=closed.share)

    def _given(self, opened: Opened) -> Given | None:
        """What was given away of it, if anything."""
        if isinstance(opened, StoredQuestion):
            return self._store.answered(opened.id)
        return self._store.closed(opened.task, opened.step)

    def _sum(self, round_: Opened, asked: CloseRound) -> Given:
        counted = {one for one, (_, yes) in self._store.reports(round_.id).items() if yes}
        if len(counted) != asked.count or set_digest(counted) != asked.digest:
            raise Refusal(
                HelperProblem.ANOTHER_SET, f"{len(counted)} reports were counted here, not these"
            )
        loaded = self._load(round_)
        least = max(_least(round_, loaded.terms), self._settings.least)
        if len(counted) < least:
            raise Refusal(HelperProblem.TOO_FEW, f"no sum of fewer than {least} devices")
        noise = self._noise(round_, loaded.terms, asked.digest)
        share = add_noise(loaded.sum.share(), noise).astype("<u4").tobytes()
        given = Given(asked.digest, asked.count, self._clock(), share)
        self._reached("helper: summed")
        with self._store.transaction():
            if isinstance(round_, StoredQuestion):
                self._store.close_question(round_.id, given)
            else:
                self._store.close_round(
                    ClosedRound(
                        given.digest, given.count, given.at, share, round_.task, round_.step,
                        round_.id,
                    )
                )  # fmt: skip
        self._loaded = None
        self._reached("helper: sum kept")
        of = {"question": True} if isinstance(round_, StoredQuestion) else {"step": round_.step}
        log.info("closed", extra={"reports": asked.count, **of})
        return given

    def _noise(self, opened: Opened, terms: ReportTerms, digest: bytes) -> Whole:
        """What this server adds to the sum of that set."""
        key = task_noise_key(self._keys.noise, opened.task)
        if isinstance(opened, StoredQuestion):
            assert isinstance(terms, VectorTerms)
            return vector_noise(terms, key, opened.noise, digest)
        assert isinstance(terms, Terms)
        sets = {**self._store.sets(opened.task), opened.step: digest}
        return server_noise(terms, key, opened.step, sets)

    def _check_time(self, ends_at: float, now: float) -> None:
        if not now < ends_at <= now + self._settings.longest_days * DAY:
            raise Refusal(
                HelperProblem.NOT_ALLOWED,
                f"a round may stay open for {self._settings.longest_days:g} days here",
            )

    def _check_noise(self, noise: float) -> None:
        if noise < self._settings.noise:
            raise Refusal(
                HelperProblem.NOT_ALLOWED,
                f"noise {noise:g} lies below this helper's {self._settings.noise:g}",
            )

    def _check_plan(self, asked: OpenRound) -> Plan:
        try:
            plan = decode_value(Plan, asked.plan)
        except FedRapError as error:
            raise Refusal(HelperProblem.NOT_ALLOWED, f"a plan that is not read: {error}") from error
        split = split_of(plan)
        if split is None:
            raise Refusal(HelperProblem.NOT_ALLOWED, "a plan without `split`")
        self._check_noise(plan.privacy.noise)
        self._check_least(max(split.least, plan.min_updates))
        return plan

    def _check_least(self, least: int) -> None:
        """Before devices are asked: what could never be summed would only be charged."""
        if least < self._settings.least:
            raise Refusal(
                HelperProblem.NOT_ALLOWED,
                f"sums of {least} devices lie below this helper's {self._settings.least}; raise "
                "`min_updates` of a round, `least` of questions",
            )

    def _opened(self, round_: Opened) -> RoundOpened:
        return RoundOpened(
            name=self._settings.name,
            seal_key=round_.seal_key,
            signature=round_.signature,
            verify_key=round_.verify_key,
        )

    def _known(self, round_id: bytes) -> Opened:
        round_ = self._store.round(round_id)
        if round_ is None:
            return self._known_question(round_id)
        closed = self._store.closed(round_.task, round_.step)
        if closed is not None and closed.round_id != round_.id:
            raise Refusal(HelperProblem.BURNED_STEP, "that step was summed in another round")
        if closed is None and round_.ends_at < self._clock():
            raise Refusal(HelperProblem.NO_ROUND, "the time of that round is over")
        return round_

    def _known_question(self, question_id: bytes) -> StoredQuestion:
        question = self._store.question(question_id)
        if question is None:
            raise Refusal(HelperProblem.NO_ROUND, "no such round is open here, or it is over")
        if question.ends_at < self._clock() and self._store.answered(question_id) is None:
            raise Refusal(HelperProblem.NO_ROUND, "the time of that question is over")
        return question

    def _private(self, round_: Opened) -> PrivateKey:
        private = self._keys.round_key(round_.id, make=False)
        if private is None:
            raise Refusal(HelperProblem.NO_ROUND, "the key of that round is gone")
        return private

    def _load(self, round_: Opened) -> _Loaded:
        if self._loaded is None or self._loaded.round_id != round_.id:
            terms = _terms(round_)
            state = self._store.running_sum(round_.id)
            self.expansion, expand = best_expansion(self._settings.expansion, terms.shape)
            self._loaded = _Loaded(round_.id, terms, RunningSum(terms, HELPER, state, expand))
        return self._loaded

    def _count(
        self, loaded: _Loaded, private: PrivateKey, round_: Opened, report: HelperReport
    ) -> bool:
        """Is this report one that both servers count? If not, nothing of it stays."""
        try:
            seen = read_seen(loaded.terms, report.seen)
            share = _open_share(round_, report, private)
            looked = loaded.sum.look(round_.verify_key, report.report, report.public, share)
        except FedRapError:
            log.warning("a report that cannot be read")
            return False
        if accepts(loaded.terms, seen, looked.seen, looked.joint):
            return True
        loaded.sum.take_out(looked)
        log.warning("a report that does not hold")
        return False


def _terms(opened: Opened) -> ReportTerms:
    if isinstance(opened, StoredQuestion):
        return VectorTerms(opened.id, opened.numbers, opened.limit)
    return Terms(opened.id, decode_value(Plan, opened.plan), opened.items)


def _least(opened: Opened, terms: ReportTerms) -> int:
    """Devices that the plan or the question asks for."""
    if isinstance(opened, StoredQuestion):
        return opened.least
    assert isinstance(terms, Terms)
    split = split_of(terms.plan)
    assert split is not None
    return max(split.least, terms.plan.min_updates)


def _open_share(opened: Opened, report: HelperReport, private: PrivateKey) -> bytes:
    if isinstance(opened, StoredQuestion):
        return open_helper_answer(opened.task, opened.id, report, private)
    plan = hashlib.sha256(opened.plan).digest()
    return open_helper(opened.task, plan, opened.id, report, private)
