"""What the helper does with a round: opens it, counts reports, closes it. Decides every refusal.

Each verb may be asked again: the same question has the same answer, also after a crash. What is
given away of a sum is written down first, and the round's key destroyed, before anybody hears it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from fedrap_aggregator.errors import Refusal
from fedrap_aggregator.keys import Keys, PrivateKey
from fedrap_aggregator.settings import Settings
from fedrap_aggregator.store import ClosedRound, Store, StoredRound
from fedrap_core.errors import FedRapError
from fedrap_core.plan import Plan, split_of
from fedrap_core.privacy.mechanisms import task_noise_key
from fedrap_core.split.numbers import Terms, add_noise, server_noise
from fedrap_core.split.report import HELPER
from fedrap_core.split.verify import RunningSum, accepts, read_seen
from fedrap_core.wire.codec import decode_value
from fedrap_core.wire.keys import public_point
from fedrap_core.wire.shares import (
    BatchChecked,
    CloseRound,
    HelperProblem,
    HelperReport,
    OpenRound,
    ReportBatch,
    RoundClosed,
    RoundOpened,
    open_helper,
    set_digest,
    sign_round,
)

log = logging.getLogger(__name__)
DAY = 86400.0
Reached = Callable[[str], None]  # is told of every fault point


def pass_by(point: str) -> None:
    """No fault."""


@dataclass
class _Loaded:
    """The running sum of the round that is at work, so that it is not read for each batch."""

    round_id: bytes
    terms: Terms
    sum: RunningSum


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

    def tidy(self) -> int:
        """Forget rounds whose time is over, and destroy keys that no open round has."""
        now = self._clock()
        over = [one for one in self._store.open_rounds() if one.ends_at < now]
        for one in over:
            with self._store.transaction():
                self._store.forget_round(one.id)
            log.warning("round over without a sum", extra={"step": one.step})
        return self._keys.destroy_all_but({one.id for one in self._store.open_rounds()})

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
        if not now < asked.ends_at <= now + self._settings.longest_days * DAY:
            raise Refusal(
                HelperProblem.NOT_ALLOWED,
                f"a round may stay open for {self._settings.longest_days:g} days here",
            )
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
        is_closed = self._store.closed(round_.task, round_.step) is not None
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
        closed = self._store.closed(round_.task, round_.step)
        if closed is None:
            closed = self._sum(round_, asked)
        if closed.digest != asked.digest or closed.count != asked.count:
            raise Refusal(HelperProblem.ANOTHER_SET, "that step was summed from other reports")
        if closed.share is None:
            raise Refusal(HelperProblem.BURNED_STEP, "later steps were summed since")
        self.tidy()  # the round's key is gone before anybody has its sum
        self._reached("helper: key destroyed")
        return RoundClosed(share=closed.share)

    def _sum(self, round_: StoredRound, asked: CloseRound) -> ClosedRound:
        counted = {one for one, (_, yes) in self._store.reports(round_.id).items() if yes}
        if len(counted) != asked.count or set_digest(counted) != asked.digest:
            raise Refusal(
                HelperProblem.ANOTHER_SET, f"{len(counted)} reports were counted here, not these"
            )
        loaded = self._load(round_)
        split = split_of(loaded.terms.plan)
        assert split is not None
        least = max(split.least, loaded.terms.plan.min_updates, self._settings.least)
        if len(counted) < least:
            raise Refusal(HelperProblem.TOO_FEW, f"no sum of fewer than {least} devices")
        sets = {**self._store.sets(round_.task), round_.step: asked.digest}
        key = task_noise_key(self._keys.noise, round_.task)
        noise = server_noise(loaded.terms, key, round_.step, sets)
        share = add_noise(loaded.sum.share(), noise).astype("<u4").tobytes()
        closed = ClosedRound(
            round_.task, round_.step, round_.id, asked.digest, asked.count, self._clock(), share
        )
        self._reached("helper: summed")
        with self._store.transaction():
            self._store.close_round(closed)
        self._loaded = None
        self._reached("helper: sum kept")
        log.info("round closed", extra={"step": round_.step, "reports": asked.count})
        return closed

    def _check_plan(self, asked: OpenRound) -> Plan:
        try:
            plan = decode_value(Plan, asked.plan)
        except FedRapError as error:
            raise Refusal(HelperProblem.NOT_ALLOWED, f"a plan that is not read: {error}") from error
        if split_of(plan) is None:
            raise Refusal(HelperProblem.NOT_ALLOWED, "a plan without `split`")
        if plan.privacy.noise < self._settings.noise:
            raise Refusal(
                HelperProblem.NOT_ALLOWED,
                f"noise {plan.privacy.noise:g} lies below this helper's {self._settings.noise:g}",
            )
        return plan

    def _opened(self, round_: StoredRound) -> RoundOpened:
        return RoundOpened(
            name=self._settings.name,
            seal_key=round_.seal_key,
            signature=round_.signature,
            verify_key=round_.verify_key,
        )

    def _known(self, round_id: bytes) -> StoredRound:
        round_ = self._store.round(round_id)
        if round_ is None:
            raise Refusal(HelperProblem.NO_ROUND, "no such round is open here, or it is over")
        closed = self._store.closed(round_.task, round_.step)
        if closed is not None and closed.round_id != round_.id:
            raise Refusal(HelperProblem.BURNED_STEP, "that step was summed in another round")
        if closed is None and round_.ends_at < self._clock():
            raise Refusal(HelperProblem.NO_ROUND, "the time of that round is over")
        return round_

    def _private(self, round_: StoredRound) -> PrivateKey:
        private = self._keys.round_key(round_.id, make=False)
        if private is None:
            raise Refusal(HelperProblem.NO_ROUND, "the key of that round is gone")
        return private

    def _load(self, round_: StoredRound) -> _Loaded:
        if self._loaded is None or self._loaded.round_id != round_.id:
            terms = Terms(round_.id, decode_value(Plan, round_.plan), round_.items)
            state = self._store.running_sum(round_.id)
            self._loaded = _Loaded(round_.id, terms, RunningSum(terms, HELPER, state))
        return self._loaded

    def _count(
        self, loaded: _Loaded, private: PrivateKey, round_: StoredRound, report: HelperReport
    ) -> bool:
        """Is this report one that both servers count? If not, nothing of it stays."""
        plan = hashlib.sha256(round_.plan).digest()
        try:
            seen = read_seen(loaded.terms, report.seen)
            share = open_helper(round_.task, plan, round_.id, report, private)
            looked = loaded.sum.look(round_.verify_key, report.report, report.public, share)
        except FedRapError:
            log.warning("a report that cannot be read", extra={"step": round_.step})
            return False
        if accepts(loaded.terms, seen, looked.seen, looked.joint):
            return True
        loaded.sum.take_out(looked)
        log.warning("a report that does not hold", extra={"step": round_.step})
        return False
