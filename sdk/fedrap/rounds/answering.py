"""Questions about quality: which this device answers, when, and what becomes of the answer.

Everybody gets the same list of questions, without a device id. A device answers each once, at a
moment of the question's time that only it can compute, whatever it has to say by then: neither the
fact nor the hour of an answer tells anything about the user. As with a round, the ledger's entry
and the bytes are kept before anything leaves, and the same bytes are sent again after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fedrap.errors import UpdateRefused
from fedrap.rounds import ledger
from fedrap.rounds.ledger import Entry, Floor
from fedrap.rounds.runner import check_receipt, opened
from fedrap.transport import Transport
from fedrap.transport.credentials import Credentials, Signer
from fedrap_core.errors import FedRapError
from fedrap_core.paper.sampling import private_stream
from fedrap_core.questions.answers import Vector, pack
from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import Accepted, Question, Signed
from fedrap_core.wire.question_layout import layout_of
from fedrap_core.wire.seal import seal_answer

LATEST = 0.9  # of its time, at which the last devices answer; they may come a while later


class QuestionState(Protocol):
    """The parts of a device that questions read and write. Each commit is durable at its return."""

    def may_measure(self) -> bool:
        """Has the user agreed that this device answers questions, and not taken it back?"""

    def measure(self) -> None:
        """Look at the interactions that were not looked at yet; takes some milliseconds each."""

    def answer(self, question: Question) -> Vector:
        """What this device has to say; zeros where that is nothing."""

    def pending_answers(self) -> Sequence[tuple[bytes, bytes]]:
        """Answers that were prepared and not yet received: (question, bytes)."""

    def commit_answer(self, question: bytes, body: bytes, entry: Entry) -> bool:
        """The ledger's entry and the outgoing bytes at once; False without consent."""

    def forget_answer(self, question: bytes) -> None:
        """An answer that was received, or refused for good."""


@dataclass(frozen=True, eq=False)
class Answering:
    """One visit to the coordinator for its questions."""

    state: QuestionState
    transport: Transport
    signer: Signer
    credentials: Credentials
    authority: bytes
    floor: Floor

    async def run(self, entries: Sequence[Entry], now: float) -> int:
        """Answer what is to be answered now; how many questions that were.

        Raises:
            CoordinatorUnreachable, UpdateRefused, SignatureInvalid: as a round does.
        """
        for name, left in self.state.pending_answers():
            await self._send(name, left)
        answered = 0
        for signed in (await self.transport.questions()).questions:
            question = self._due(signed, entries, now)
            if question is None:
                continue
            entry = Entry(0, question.question, question.noise, question.delta, now, question=True)
            body = await asyncio.to_thread(self._sealed, question)
            if not self.state.commit_answer(question.question, body, entry):
                break
            entries = [*entries, entry]
            await self._send(question.question, body)
            answered += 1
        return answered

    def _due(self, signed: Signed, entries: Sequence[Entry], now: float) -> Question | None:
        """The question, if this device answers it now."""
        question = opened(self.authority, signed, Question)
        if question.task != self.credentials.task or now >= question.ends_at:
            return None
        if not is_answerable(question):
            return None
        if ledger.why_not_answer(entries, question, self.floor, now) is not None:
            return None
        return question if now >= answer_time(self.credentials.private_key, question) else None

    def _sealed(self, question: Question) -> bytes:
        plaintext = pack(self.state.answer(question))
        return encode(seal_answer(question, self.credentials.device, plaintext))

    async def _send(self, question: bytes, body: bytes) -> None:
        """Until the coordinator has said yes or a final no, the bytes are kept."""
        try:
            receipt = await self.transport.send_answer(self.signer, question, body)
        except UpdateRefused as refused:
            if not refused.final:
                raise
            self.state.forget_answer(question)
            return
        check_receipt(opened(self.authority, receipt, Accepted), question, body)
        self.state.forget_answer(question)


def answer_time(private_key: bytes, question: Question) -> float:
    """When this device answers, in seconds since 1970: spread evenly, and told to nobody."""
    (uniform,) = private_stream(private_key, b"question " + question.question)(1)
    return question.asked_at + LATEST * float(uniform) * (question.ends_at - question.asked_at)


def is_answerable(question: Question) -> bool:
    """Can this version lay out an answer at all?"""
    try:
        layout_of(question)
    except FedRapError:
        return False
    return True
