"""Questions about quality: the list of open ones, answers that come, and sums when they are due.

An answer is opened twice, like an update: when it comes, so that its device hears at once that it
cannot be counted, and when its question is summed up. Everything that is read afterwards is the
noised sum; how it is shown is `admin/quality.py`'s.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from fedrap_coordinator.domain.questions import GivenAnswer, QuestionRow, QuestionState
from fedrap_coordinator.errors import Refusal, StoreGone, refusal_of
from fedrap_coordinator.identity.authentication import SignedRequest
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.asking import read_question
from fedrap_coordinator.rounds.ingest import Ingest
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.errors import FedRapError, MalformedMessage
from fedrap_core.plan import OFF
from fedrap_core.privacy.mechanisms import question_noise, task_noise_key
from fedrap_core.questions.answers import Vector, unpack
from fedrap_core.wire import problems
from fedrap_core.wire.authority import sign_message
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import (
    MOST_QUESTIONS,
    Accepted,
    Answer,
    Question,
    Questions,
    Signed,
)
from fedrap_core.wire.question_layout import layout_of
from fedrap_core.wire.seal import open_answer

log = logging.getLogger(__name__)
ANSWER_BYTES = 16_384  # of a whole message
TICK_SECONDS = 5.0
_LIST_SECONDS = 2.0  # that the list of open questions may be old


class OpenQuestions:
    """What devices ask and send about questions, and the timer that sums them up."""

    def __init__(
        self,
        store: Store,
        keyring: Keyring,
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
            device, _ = self._read(signed.body, read_question(row))
            if device != signed.device:
                raise MalformedMessage("an answer of another device")
        except FedRapError as error:
            refusal = refusal_of(error, lambda: 0.0)
            if refusal is None:
                raise
            raise Refusal(refusal.problem, refusal.detail, refusal.retry_after) from None

    def _read(self, body: bytes, question: Question) -> tuple[bytes, Vector]:
        """Whose answer it is, and its numbers."""
        answer = decode(Answer, body, ANSWER_BYTES)
        if (answer.task, answer.question) != (question.task, question.question):
            raise MalformedMessage("an answer to another question")
        if answer.seal_id != question.seal_id:
            raise MalformedMessage("an answer that is sealed to another key")
        plaintext = open_answer(answer, self._keyring.private(answer.seal_id))
        return answer.device, unpack(plaintext, layout_of(question))

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
            if row.is_due(now):
                ended += await self._end(row, now)
        await self._after()
        return ended

    async def _end(self, row: QuestionRow, now: float) -> bool:
        """Repeatable until the sum is in the store, and the same whoever does it."""
        opening, summing = QuestionState.OPEN, QuestionState.SUMMING
        if row.state is opening and not await self._store.end_question(row.id, summing, opening):
            return False
        question = read_question(row)
        total, count = await self._total(question)
        state = QuestionState.ANSWERED if count >= question.least else QuestionState.TOO_FEW
        raw = total.astype("<f8").tobytes() if state is QuestionState.ANSWERED else b""
        ended = await self._store.end_question(row.id, state, summing, raw, now)
        if ended:
            log.info("question ended", extra={"state": state.value, "answers": count})
        return ended

    async def _total(self, question: Question) -> tuple[Vector, int]:
        """The noised sum, and how many answers are in it."""
        layout = layout_of(question)
        total, count = np.zeros(layout.size), 0
        frozen = hashlib.sha256(b"fedrap/1 answers")  # they come in order of device
        async for bodies in self._store.sealed_answers(question.question):
            count += await asyncio.to_thread(self._add, total, bodies, question, frozen)
        key = task_noise_key(self._keyring.noise, question.task)
        stddev = question.noise * layout.clip
        noise = question_noise(key, question.question, frozen.digest(), layout.size, stddev)
        return total + noise, count

    def _add(
        self, total: Vector, bodies: Sequence[bytes], question: Question, frozen: hashlib._Hash
    ) -> int:
        """Add these answers to the sum; how many there were."""
        count = 0
        for body in bodies:
            frozen.update(hashlib.sha256(body).digest())
            try:
                total += self._read(body, question)[1]
                count += 1
            except FedRapError:  # each was opened once before it was stored
                log.exception("a stored answer does not open; was a key lost?")
        return count


def _is_plain(question: Question) -> bool:
    """Does every device that answers questions know this kind?"""
    return question.trial is OFF and question.lists is OFF


def _message(rows: Sequence[QuestionRow]) -> bytes:
    return encode(Questions(questions=[decode(Signed, row.signed) for row in rows]))
