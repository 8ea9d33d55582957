"""The aggregator of `split`: this coordinator as leader, and a helper that somebody else runs.

A device's update is two shares, of which this side reads one. When a round is summed every report
is looked at here, sent on to the helper without anything that names its device, and counted where
both sides find it good. The sum leaves each side with noise of its own.

Nothing of it is kept here: after a crash the round is summed again from the bodies in the store.
The helper gives the same answers to the same questions, so it comes to the same numbers.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_coordinator.errors import HelperAway, HelperRefused
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.aggregation import (
    ANSWER_BYTES,
    HELPER_SECONDS,
    Aggregator,
    AnswerTotal,
    AnyUpdate,
    RoundTotal,
    check_answer_envelope,
    read_update,
)
from fedrap_core.errors import (
    BrokenModel,
    FedRapError,
    MalformedMessage,
    SignatureInvalid,
    UnsupportedVersion,
)
from fedrap_core.model import CommonItems
from fedrap_core.plan import OFF, Plan, split_of
from fedrap_core.privacy.mechanisms import UpdateSets, adapted_clip, task_noise_key
from fedrap_core.split.compiled import Way, best_expansion
from fedrap_core.split.numbers import Terms, add_noise, join_sums, server_noise
from fedrap_core.split.report import LEADER, ReportTerms, check_bound, read_public, read_share
from fedrap_core.split.vectors import VectorTerms, join_vectors, vector_noise
from fedrap_core.split.verify import Looked, RunningSum
from fedrap_core.wire.codec import decode, encode_value
from fedrap_core.wire.messages import HelperKey, Offer, Question
from fedrap_core.wire.shares import (
    MOST_BATCH_BYTES,
    MOST_REPORTS,
    SEALED_HELPER_BYTES,
    BatchChecked,
    CloseRound,
    HelperProblem,
    HelperReport,
    OpenQuestion,
    OpenRound,
    ReportBatch,
    RoundClosed,
    RoundOpened,
    SplitAnswer,
    SplitUpdate,
    check_helper,
    check_question_helper,
    open_leader,
    open_leader_answer,
    set_digest,
    terms_of,
    to_open,
)

log = logging.getLogger(__name__)
A = TypeVar("A")
_OVERHEAD = 512  # bytes of a report in a batch beside its parts


class Helper(Protocol):
    """The other server, in its verbs; `http.helper_client` calls it over mTLS.

    All of them raise HelperAway where it does not answer, and HelperRefused where it says no.
    """

    async def open_round(self, asked: OpenRound) -> RoundOpened:
        """A key for a round; the same for the same round."""
        ...

    async def open_question(self, asked: OpenQuestion) -> RoundOpened:
        """A key for a question, whose answers come in batches and are closed as a round is."""
        ...

    async def check_batch(self, batch: ReportBatch) -> BatchChecked:
        """Which reports both servers count."""
        ...

    async def close_round(self, asked: CloseRound, share_bytes: int) -> RoundClosed:
        """Its noised share, of so many bytes."""
        ...


class SplitAggregator:
    """Counts reports together with the helper."""

    def __init__(
        self,
        keyring: Keyring,
        helper: Helper,
        identity: bytes,
        max_body_bytes: int,
        expansion: Way = "c",
    ) -> None:
        """`identity` is the helper's point: a key that it did not sign goes to no device."""
        self._keyring, self._helper, self._identity = keyring, helper, identity
        self._max_body_bytes, self._expansion = max_body_bytes, expansion

    async def open_round(self, offer: Offer, plan: Plan, items: int, ends_at: float) -> bytes:
        """See `Aggregator`; raises HelperAway or HelperRefused."""
        asked = OpenRound(
            task=offer.task, round=offer.round, step=offer.step, model=offer.model,
            plan=offer.plan, items=items, ends_at=ends_at,
        )  # fmt: skip
        key = _key_of(await self._helper.open_round(asked))
        with _signed_by_the_helper():
            check_helper(msgspec.structs.replace(offer, helper=key), self._identity)
        return encode_value(key)

    def check(self, update: AnyUpdate, common: CommonItems, plan: Plan) -> None:
        """See `Aggregator`: all that one side can tell of a report without expanding it."""
        report = _report(update)
        terms = Terms(report.round, plan, common.size)
        if len(report.helper) != SEALED_HELPER_BYTES:
            raise MalformedMessage("the helper's share has another length")
        plaintext = open_leader(report, self._keyring.private(report.seal_id))
        share = read_share(terms, LEADER, report.report, plaintext)
        check_bound(terms, LEADER, report.report, read_public(terms, report.public), share)

    async def total(
        self,
        bodies: AsyncIterator[Sequence[bytes]],
        common: CommonItems,
        plan: Plan,
        task: bytes,
        step: int,
        sets: UpdateSets,
    ) -> RoundTotal:
        """See `Aggregator`; raises HelperAway: ask again later."""
        split = split_of(plan)
        assert split is not None
        found: Terms | None = None

        def begin(body: bytes) -> tuple[Terms, Awaitable[RoundOpened]]:
            """Ask for the round again: the helper tells the key that both check with."""
            nonlocal found
            first = _report(read_update(body, self._max_body_bytes))
            found = Terms(first.round, plan, common.size)
            asked = OpenRound(
                task=first.task, round=first.round, step=first.step, model=first.model,
                plan=encode_value(plan), items=common.size, ends_at=0.0,
            )  # fmt: skip
            return found, self._helper.open_round(asked)

        least = max(plan.min_updates, split.least)
        work, digest = await self._count(bodies, begin, self._read_update, least)
        assert found is not None
        closed = await self._close(work, digest, found.sum_words)
        key = task_noise_key(self._keyring.noise, task)
        own = {**sets, step: digest}
        return await asyncio.to_thread(_joined, found, work, closed, key, step, own)

    async def open_question(self, question: Question) -> Question:
        """See `Aggregator`; raises HelperAway or HelperRefused."""
        asked = to_open(question, question.ends_at + HELPER_SECONDS)
        key = _key_of(await self._helper.open_question(asked))
        signed = msgspec.structs.replace(question, helper=key)
        with _signed_by_the_helper():
            check_question_helper(signed, self._identity)
        return signed

    def check_answer(self, body: bytes, question: Question) -> bytes:
        """See `Aggregator`: all that one side can tell of an answer."""
        answer, terms = decode(SplitAnswer, body, ANSWER_BYTES), terms_of(question)
        check_answer_envelope(answer, question)
        if len(answer.helper) != SEALED_HELPER_BYTES:
            raise MalformedMessage("the helper's share has another length")
        plaintext = open_leader_answer(answer, self._keyring.private(answer.seal_id))
        share = read_share(terms, LEADER, answer.report, plaintext)
        check_bound(terms, LEADER, answer.report, read_public(terms, answer.public), share)
        return answer.device

    async def total_answers(
        self, bodies: AsyncIterator[Sequence[bytes]], question: Question
    ) -> AnswerTotal:
        """See `Aggregator`."""
        terms = terms_of(question)

        def begin(_: bytes) -> tuple[VectorTerms, Awaitable[RoundOpened]]:
            asked = to_open(question, question.ends_at + HELPER_SECONDS)
            return terms, self._helper.open_question(asked)

        work, digest = await self._count(bodies, begin, self._read_answer, question.least)
        closed = await self._close(work, digest, terms.sum_words)
        key = task_noise_key(self._keyring.noise, question.task)
        mine = add_noise(work.sum.share(), vector_noise(terms, key, question.noise, digest))
        return AnswerTotal(join_vectors(mine, closed), len(work.counted))

    async def _count(
        self,
        bodies: AsyncIterator[Sequence[bytes]],
        begin: Callable[[bytes], tuple[ReportTerms, Awaitable[RoundOpened]]],
        read: Callable[[bytes], _Read],
        least: int,
    ) -> tuple[_Work, bytes]:
        """Look at all reports together with the helper; those that count, and the set's digest.

        Raises:
            BrokenModel: they are fewer than `least`, or the helper counts none.
        """
        work: _Work | None = None
        async for some in bodies:
            for body in some:
                if work is None:
                    terms, opening = begin(body)
                    try:
                        opened = await opening
                    except HelperRefused as error:
                        raise BrokenModel(f"the helper has no such round: {error}") from error
                    way, expand = await asyncio.to_thread(
                        best_expansion, self._expansion, terms.shape
                    )
                    log.info("counting reports", extra={"expansion": way})
                    ours = RunningSum(terms, LEADER, None, expand)
                    work = _Work(terms, ours, opened.verify_key)
                looked = await asyncio.to_thread(self._look, work, body, read)
                if looked is not None and work.is_full:
                    await self._send(work)
        if work is None:
            raise BrokenModel("a round without reports")
        await self._send(work)
        await self._answered(work)
        if len(work.counted) < least:
            raise BrokenModel("too few reports could be counted")
        return work, set_digest(work.counted)

    def _read_update(self, body: bytes) -> _Read:
        update = _report(read_update(body, self._max_body_bytes))
        plaintext = open_leader(update, self._keyring.private(update.seal_id))
        return _Read(update.report, update.public, update.helper, plaintext)

    def _read_answer(self, body: bytes) -> _Read:
        answer = decode(SplitAnswer, body, ANSWER_BYTES)
        plaintext = open_leader_answer(answer, self._keyring.private(answer.seal_id))
        return _Read(answer.report, answer.public, answer.helper, plaintext)

    def _look(self, work: _Work, body: bytes, read: Callable[[bytes], _Read]) -> Looked | None:
        """Add one report here and put it into the batch; None where it cannot be read."""
        try:
            came = read(body)
            if came.report in work.came:  # a report counts once, whoever sends it
                raise MalformedMessage("a report that came before")
            work.came.add(came.report)
            looked = work.sum.look(work.verify_key, came.report, came.public, came.plaintext)
        except FedRapError:
            log.exception("a stored report cannot be counted")
            return None
        report = HelperReport(
            report=came.report, public=came.public, helper=came.helper, seen=looked.seen.encoded()
        )
        work.batch.append((report, looked))
        return looked

    async def _send(self, work: _Work) -> None:
        """Hand the batch over; the helper looks at it while this side goes on."""
        await self._answered(work)
        batch, work.batch = work.batch, []
        if batch:
            message = ReportBatch(round=work.terms.round, reports=[one for one, _ in batch])
            work.sent = asyncio.create_task(self._asked(message)), batch

    async def _asked(self, batch: ReportBatch) -> BatchChecked:
        return await self._helper.check_batch(batch)

    async def _answered(self, work: _Work) -> None:
        """What the helper says to the batch that is under way; what it refuses is taken out."""
        if work.sent is None:
            return
        (task, batch), work.sent = work.sent, None
        try:
            answer = await task
        except HelperRefused as error:
            raise BrokenModel(f"the helper does not count reports: {error}") from error
        if len(answer.counted) != len(batch):
            raise HelperAway("the helper answered for another number of reports")
        for (report, looked), counted in zip(batch, answer.counted, strict=True):
            if counted:
                work.counted.add(report.report)
            else:
                log.warning("a report does not hold")
                await asyncio.to_thread(work.sum.take_out, looked)

    async def _close(self, work: _Work, digest: bytes, words: int) -> npt.NDArray[np.uint32]:
        asked = CloseRound(round=work.terms.round, count=len(work.counted), digest=digest)
        size = 4 * words
        try:
            closed = await self._helper.close_round(asked, size)
        except HelperRefused as error:
            raise BrokenModel(f"the helper gives no sum: {error}") from error
        if len(closed.share) != size:
            raise HelperAway("the helper's share has another length")
        return np.frombuffer(closed.share, dtype="<u4").astype(np.uint32)


@dataclass(frozen=True, eq=False)
class _Read:
    """What this side reads of one device's report."""

    report: bytes
    public: bytes
    helper: bytes  # sealed
    plaintext: bytes  # of the leader's share


@dataclass(eq=False)
class _Work:
    """A round, or a question, that is being summed."""

    terms: ReportTerms
    sum: RunningSum
    verify_key: bytes
    came: set[bytes] = field(default_factory=set)
    counted: set[bytes] = field(default_factory=set)
    batch: list[tuple[HelperReport, Looked]] = field(default_factory=list)
    sent: tuple[asyncio.Task[BatchChecked], list[tuple[HelperReport, Looked]]] | None = None

    @property
    def is_full(self) -> bool:
        """Is there no room for another report in the batch?"""
        report = self.batch[-1][0]
        size = len(report.public) + len(report.seen) + _OVERHEAD
        return len(self.batch) == MOST_REPORTS or (len(self.batch) + 1) * size > MOST_BATCH_BYTES


def _joined(
    terms: Terms,
    work: _Work,
    helper: npt.NDArray[np.uint32],
    key: bytes,
    step: int,
    sets: UpdateSets,
) -> RoundTotal:
    mine = add_noise(work.sum.share(), server_noise(terms, key, step, sets))
    joined = join_sums(terms, mine, helper, len(work.counted), step)
    rule = terms.plan.privacy
    clip = 0.0
    if rule.adapt is not None:
        clip = adapted_clip(rule.clip, rule.adapt, joined.fitting, len(work.counted))
    return RoundTotal(joined.total, clip, sets[step])


def _report(update: AnyUpdate) -> SplitUpdate:
    if not isinstance(update, SplitUpdate):
        raise UnsupportedVersion("this round takes shares for two servers: a 'split-update'")
    return update


def _key_of(opened: RoundOpened) -> HelperKey:
    """What devices get of the helper's answer."""
    return HelperKey(
        name=opened.name,
        seal_key=opened.seal_key,
        seal_id=hashlib.sha256(opened.seal_key).digest()[:8],
        signature=opened.signature,
    )


@contextmanager
def _signed_by_the_helper() -> Iterator[None]:
    """A key that another identity signed goes to no device."""
    try:
        yield
    except (SignatureInvalid, MalformedMessage) as error:
        raise HelperRefused(
            HelperProblem.NOT_ALLOWED,
            "this is not the helper whose identity the settings have: "
            f"split.helper.identity is wrong, or somebody else answers ({error})",
        ) from error


class ByPlan:
    """Each round by its own plan: one that was opened under other settings ends as it began."""

    def __init__(self, sealed: Aggregator, split: Aggregator | None) -> None:
        self._sealed, self._split = sealed, split

    async def open_round(self, offer: Offer, plan: Plan, items: int, ends_at: float) -> bytes:
        """See `Aggregator`."""
        return await self._of(plan).open_round(offer, plan, items, ends_at)

    def check(self, update: AnyUpdate, common: CommonItems, plan: Plan) -> None:
        """See `Aggregator`."""
        self._of(plan).check(update, common, plan)

    async def total(
        self,
        bodies: AsyncIterator[Sequence[bytes]],
        common: CommonItems,
        plan: Plan,
        task: bytes,
        step: int,
        sets: UpdateSets,
    ) -> RoundTotal:
        """See `Aggregator`."""
        return await self._of(plan).total(bodies, common, plan, task, step, sets)

    async def open_question(self, question: Question) -> Question:
        """See `Aggregator`: with the helper that the settings name, if they do."""
        return await (self._split or self._sealed).open_question(question)

    def check_answer(self, body: bytes, question: Question) -> bytes:
        """See `Aggregator`."""
        return self._by(question.helper is not OFF).check_answer(body, question)

    async def total_answers(
        self, bodies: AsyncIterator[Sequence[bytes]], question: Question
    ) -> AnswerTotal:
        """See `Aggregator`."""
        return await self._by(question.helper is not OFF).total_answers(bodies, question)

    def _of(self, plan: Plan) -> Aggregator:
        return self._by(split_of(plan) is not None)

    def _by(self, two: bool) -> Aggregator:
        if not two:
            return self._sealed
        if self._split is None:
            raise BrokenModel("shares for two servers, and the settings name no helper")
        return self._split
