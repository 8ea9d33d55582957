"""Questions about quality: the list of open ones, answers that come, and sums when they are due.

An answer is opened twice, like an update: when it comes, so that its device hears at once that it
cannot be counted, and when its question is summed up. Everything that is read afterwards is the
noised sum; how it is shown is `admin/quality.py`'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from fedrap_coordinator.domain.questions import GivenAnswer, QuestionRow, QuestionState
from fedrap_coordinator.errors import HelperAway, HelperRefused, Refusal, StoreGone, refusal_of
from fedrap_coordinator.identity.authentication import SignedRequest
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.aggregation import Aggregator, AnswerTotal
from fedrap_coordinator.rounds.asking import read_question
from fedrap_coordinator.rounds.ingest import Ingest
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.errors import BrokenModel, FedRapError, MalformedMessage
from fedrap_core.plan import OFF
from fedrap_core.wire import problems
from fedrap_core.wire.authority import sign_message
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import (
    MOST_QUESTIONS,
    Accepted,
    Question,
    Questions,
    Signed,
)

log = logging.getLogger(__name__)
TICK_SECONDS = 5.0
_LIST_SECONDS = 2.0  # that the list of open questions may be old


class OpenQuestions:
    """What devices ask and send about questions, and the timer that sums them up."""

    def __init__(
        self,
        store: Store,
        keyring: Keyring,
        aggregator: Aggregator,
        ingest: Ingest,
        sources: Sources,
        limit_rate: Callable[[bytes], None],
        after: Callable[[], Awaitable[None]],
        window: Callable[[], float],
    ) -> None:
        """`limit_rate` raises for a device that asks too often; `after` follows what ended.

        `window` is how long answers count in a device's budget, in seconds.
        """
        self._window = window
        self._after = after
        self._limit_rate = limit_rate
        self._store = store
        self._keyring = keyring
        self._aggregator = aggregator
        self._ingest = ingest
        self._sources = sources
        self._listed: tuple[float, dict[bool, bytes]] = (-1e9, {})  # all, and plain ones

    async def listed(self, every: bool) -> bytes:
        """The open questions as a message; the same for everybody, and a moment old at most."""
        now = self._sources.monotonic()
        if now - self._listed[0] > _LIST_SECONDS:
            rows = await self._store.questions(MOST_QUESTIONS, only_open=True)
            asked = [row for row in rows if row.state is QuestionState.OPEN]
            plain = [row for row in asked if _is_plain(read_question(row))]
            self._listed = (now, {True: _message(asked), False: _message(plain)})
        return self._listed[1][every]

    async def accept(self, signed: SignedRequest, question_id: bytes) -> Signed:
        """Verify, unseal, check, store: a receipt for an answer that is on the disk.

        Raises:
            Refusal, SignatureInvalid: it is not kept.
        """
        await self._ingest.authenticate(signed)
        self._limit_rate(signed.device)
        row = await self._store.question(question_id)
        if row is not None and row.state is QuestionState.OPEN:
            await asyncio.to_thread(self._check, signed, row)
        given = GivenAnswer(signed.device, signed.nonce, signed.digest, signed.body)
        now = self._sources.clock()
        problem = await self._store.add_answer(question_id, given, now, now - self._window())
        if problem is problems.NOT_FOUND:
            raise Refusal(problem, "there never was such a question")
        if problem is problems.ROUND_CLOSED:
            raise Refusal(problem, "the question is over")
        if problem is not None:
            raise Refusal(problem)
        accepted = Accepted(round=question_id, digest=signed.digest)
        return await asyncio.to_thread(sign_message, self._keyring.authority, accepted)

    def _check(self, signed: SignedRequest, row: QuestionRow) -> None:
        """Can it be counted? Raises Refusal with a problem and words, never what was raised."""
        try:
            if self._aggregator.check_answer(signed.body, read_question(row)) != signed.device:
                raise MalformedMessage("an answer of another device")
        except FedRapError as error:
            refusal = refusal_of(error, lambda: 0.0)
            if refusal is None:
                raise
            raise Refusal(refusal.problem, refusal.detail, refusal.retry_after) from None

    async def run(self, tick: float = TICK_SECONDS) -> None:
        """Sum up what is due, until cancelled."""
        while True:
            await asyncio.sleep(tick)
            try:
                await self.advance()
            except StoreGone:  # the store has said so, once
                pass
            except Exception:
                log.exception("questions could not be summed up; trying again")

    async def advance(self) -> int:
        """Sum up the questions that are due; how many ended."""
        now, ended = self._sources.clock(), 0
        for row in await self._store.questions(1000, only_open=True):
            try:
                if row.is_due(now):
                    ended += await self._end(row, now)
                elif row.state is QuestionState.OPENING:
                    await self._open(row)
            except (HelperAway, HelperRefused) as error:
                log.warning("a question waits for the helper", extra={"why": str(error)})
        await self._after()
        return ended

    async def _end(self, row: QuestionRow, now: float) -> bool:
        """Repeatable until the sum is in the store, and the same whoever does it."""
        summing = QuestionState.SUMMING
        if row.state is not summing and not await self._store.end_question(
            row.id, summing, row.state
        ):
            return False
        question = read_question(row)
        found = await self._total(row, question)
        state = QuestionState.TOO_FEW if found is None else QuestionState.ANSWERED
        raw = b"" if found is None else found.total.astype("<f8").tobytes()
        ended = await self._store.end_question(row.id, state, summing, raw, now)
        if ended:
            log.info("question ended", extra={"state": state.value})
        return ended

    async def _total(self, row: QuestionRow, question: Question) -> AnswerTotal | None:
        """The noised sum; None where there is none of enough answers."""
        if row.answers < question.least:  # also one that was never opened
            return None
        try:
            bodies = self._store.sealed_answers(question.question)
            found = await self._aggregator.total_answers(bodies, question)
        except BrokenModel:
            log.exception("no sum of the answers to a question")
            return None
        return found if found.count >= question.least else None

    async def _open(self, row: QuestionRow) -> None:
        """Ask the helper for a key and sign the question with it; whoever comes first does."""
        question = await self._aggregator.open_question(read_question(row))
        signed = await asyncio.to_thread(sign_message, self._keyring.authority, question)
        if await self._store.open_question(row.id, encode(signed)):
            log.info("question opened")


def _is_plain(question: Question) -> bool:
    """Does every device that answers questions know this kind?"""
    return question.trial is OFF and question.lists is OFF


def _message(rows: Sequence[QuestionRow]) -> bytes:
    return encode(Questions(questions=[decode(Signed, row.signed) for row in rows]))
