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
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_coordinator.errors import HelperAway, HelperRefused
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.aggregation import Aggregator, AnyUpdate, RoundTotal, read_update
from fedrap_core.errors import (
    BrokenModel,
    FedRapError,
    MalformedMessage,
    SignatureInvalid,
    UnsupportedVersion,
)
from fedrap_core.model import CommonItems
from fedrap_core.plan import Plan, split_of
from fedrap_core.privacy.mechanisms import UpdateSets, adapted_clip, task_noise_key
from fedrap_core.split.numbers import Terms, add_noise, join_sums, server_noise
from fedrap_core.split.report import LEADER, check_bound, read_public, read_share
from fedrap_core.split.verify import Looked, RunningSum
from fedrap_core.wire.codec import encode_value
from fedrap_core.wire.messages import HelperKey, Offer
from fedrap_core.wire.shares import (
    MOST_BATCH_BYTES,
    MOST_REPORTS,
    SEALED_HELPER_BYTES,
    BatchChecked,
    CloseRound,
    HelperProblem,
    HelperReport,
    OpenRound,
    ReportBatch,
    RoundClosed,
    RoundOpened,
    SplitUpdate,
    check_helper,
    open_leader,
    set_digest,
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

    async def check_batch(self, batch: ReportBatch) -> BatchChecked:
        """Which reports both servers count."""
        ...

    async def close_round(self, asked: CloseRound, share_bytes: int) -> RoundClosed:
        """Its noised share, of so many bytes."""
        ...


@dataclass
class HelperState:
    """How the helper was when it was last asked; for dashboard, metrics and health."""

    reachable: bool | None = None  # None: nobody asked yet
    why: str = ""
    name: str = ""
    refused: int = 0  # reports that it or this side did not count


class SplitAggregator:
    """Counts reports together with the helper."""

    def __init__(
        self, keyring: Keyring, helper: Helper, identity: bytes, max_body_bytes: int
    ) -> None:
        """`identity` is the helper's point: a key that it did not sign goes to no device."""
        self._keyring, self._helper, self._identity = keyring, helper, identity
        self._max_body_bytes = max_body_bytes
        self.state = HelperState()

    async def open_round(self, offer: Offer, plan: Plan, items: int, ends_at: float) -> bytes:
        """See `Aggregator`; raises HelperAway or HelperRefused."""
        opened = await self._opened(_question(offer, items, ends_at))
        key = HelperKey(
            name=opened.name,
            seal_key=opened.seal_key,
            seal_id=hashlib.sha256(opened.seal_key).digest()[:8],
            signature=opened.signature,
        )
        try:
            check_helper(msgspec.structs.replace(offer, helper=key), self._identity)
        except (SignatureInvalid, MalformedMessage) as error:
            raise HelperRefused(
                HelperProblem.NOT_ALLOWED,
                "this is not the helper whose identity the settings have: "
                f"split.helper.identity is wrong, or somebody else answers ({error})",
            ) from error
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
        work: _Work | None = None
        async for some in bodies:
            for body in some:
                if work is None:
                    work = await self._begin(body, common, plan)
                looked = await asyncio.to_thread(self._look, work, body)
                if looked is not None and work.is_full:
                    await self._send(work)
        if work is None:
            raise BrokenModel("a round without reports")
        await self._send(work)
        await self._answered(work)
        split = split_of(plan)
        assert split is not None
        if len(work.counted) < max(plan.min_updates, split.least):
            raise BrokenModel("too few reports of this round could be counted")
        digest = set_digest(work.counted)
        closed = await self._close(work, digest)
        own = {**sets, step: digest}
        key = task_noise_key(self._keyring.noise, task)
        return await asyncio.to_thread(_joined, work, closed, key, step, own)

    async def _begin(self, body: bytes, common: CommonItems, plan: Plan) -> _Work:
        """Ask for the round again: the helper tells the key that both check with."""
        first = _report(read_update(body, self._max_body_bytes))
        asked = OpenRound(
            task=first.task, round=first.round, step=first.step, model=first.model,
            plan=encode_value(plan), items=common.size, ends_at=0.0,
        )  # fmt: skip
        try:
            opened = await self._opened(asked)
        except HelperRefused as error:
            raise BrokenModel(f"the helper has no such round: {error}") from error
        terms = Terms(first.round, plan, common.size)
        return _Work(terms, RunningSum(terms, LEADER), opened.verify_key)

    def _look(self, work: _Work, body: bytes) -> Looked | None:
        """Add one report here and put it into the batch; None where it cannot be read."""
        try:
            update = _report(read_update(body, self._max_body_bytes))
            if update.report in work.came:  # a report counts once, whoever sends it
                raise MalformedMessage("a report that came before")
            work.came.add(update.report)
            plaintext = open_leader(update, self._keyring.private(update.seal_id))
            looked = work.sum.look(work.verify_key, update.report, update.public, plaintext)
        except FedRapError:
            log.exception("a stored report cannot be counted")
            self.state.refused += 1
            return None
        report = HelperReport(
            report=update.report,
            public=update.public,
            helper=update.helper,
            seen=looked.seen.encoded(),
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
        return await self._tell(self._helper.check_batch(batch))

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
                self.state.refused += 1
                log.warning("a report does not hold")
                await asyncio.to_thread(work.sum.take_out, looked)

    async def _close(self, work: _Work, digest: bytes) -> npt.NDArray[np.uint32]:
        asked = CloseRound(round=work.terms.round, count=len(work.counted), digest=digest)
        size = 4 * work.terms.sum_words
        try:
            closed = await self._tell(self._helper.close_round(asked, size))
        except HelperRefused as error:
            raise BrokenModel(f"the helper gives no sum: {error}") from error
        if len(closed.share) != size:
            raise HelperAway("the helper's share has another length")
        return np.frombuffer(closed.share, dtype="<u4").astype(np.uint32)

    async def _opened(self, asked: OpenRound) -> RoundOpened:
        opened = await self._tell(self._helper.open_round(asked))
        self.state.name = opened.name
        return opened

    async def _tell(self, call: Awaitable[A]) -> A:
        """A call of the helper, whose outcome is remembered."""
        try:
            answer = await call
        except (HelperAway, HelperRefused) as error:
            self.state.reachable, self.state.why = isinstance(error, HelperRefused), str(error)
            raise
        self.state.reachable, self.state.why = True, ""
        return answer


@dataclass(eq=False)
class _Work:
    """A round that is being summed."""

    terms: Terms
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
    work: _Work, helper: npt.NDArray[np.uint32], key: bytes, step: int, sets: UpdateSets
) -> RoundTotal:
    terms = work.terms
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


def _question(offer: Offer, items: int, ends_at: float) -> OpenRound:
    return OpenRound(
        task=offer.task, round=offer.round, step=offer.step, model=offer.model, plan=offer.plan,
        items=items, ends_at=ends_at,
    )  # fmt: skip


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

    def _of(self, plan: Plan) -> Aggregator:
        if split_of(plan) is None:
            return self._sealed
        if self._split is None:
            raise BrokenModel("a round for two servers, and the settings name no helper")
        return self._split
