"""Questions about quality: which this device answers, when, and what becomes of the answer.

Everybody gets the same list of questions, without a device id. A device answers each once, at a
moment of the question's time that only it can compute, whatever it has to say by then: neither the
fact nor the hour of an answer tells anything about the user. As with a round, the ledger's entry
and the bytes are kept before anything leaves, and the same bytes are sent again after a crash.

A question of a staged release is answered by all devices as well; those in its share, which each
draws for itself, fetch that release and use it beside the full one until a newer full one comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fedrap.errors import UpdateRefused
from fedrap.rounds import ledger
from fedrap.rounds.ledger import Entry, Floor
from fedrap.rounds.prepare import report_secret
from fedrap.rounds.runner import check_receipt, opened
from fedrap.rounds.state import RoundSnapshot
from fedrap.rounds.sync import trusted_entry
from fedrap.transport import Transport
from fedrap.transport.credentials import Credentials, Signer
from fedrap_core.errors import BrokenModel, FedRapError, SignatureInvalid
from fedrap_core.paper.sampling import Uniform, private_stream
from fedrap_core.plan import OFF
from fedrap_core.questions.answers import Vector, pack
from fedrap_core.split.report import Report, make_report
from fedrap_core.split.vectors import to_vector
from fedrap_core.wire import problems
from fedrap_core.wire.authority import check_leads, check_release
from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import Accepted, Question, Release, Signed, Trial
from fedrap_core.wire.question_layout import layout_of
from fedrap_core.wire.seal import seal_answer
from fedrap_core.wire.shares import check_question_helper, seal_split_answer, terms_of

LATEST = 0.9  # of its time, at which the last devices answer; they may come a while later
TRIED = 0.6  # of its time, before which no device speaks of a staged release: it has to be used


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

    def snapshot(self) -> RoundSnapshot:
        """The full release that is held, among others."""

    def staged_version(self) -> int | None:
        """The version of the staged release that is held beside the full one, if any."""

    def adopt_staged(self, base: RoundSnapshot, message: Release) -> None:
        """Use a staged release beside the full one of `base`, if that is still held.

        Raises:
            BrokenModel: it is damaged, hostile, or not of the same items as the full one.
        """

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
    helper: bytes | None = None  # the second server that the app pins; None: answers are sealed

    async def run(self, entries: Sequence[Entry], now: float) -> int:
        """Answer what is to be answered now; how many questions that were.

        Raises:
            CoordinatorUnreachable, UpdateRefused, SignatureInvalid: as a round does.
        """
        for name, left in self.state.pending_answers():
            await self._send(name, left)
        answered = 0
        for signed in (await self.transport.questions()).questions:
            question = self._open(signed, now)
            if question is None:
                continue
            await self._join(question)
            if not self._is_due(question, entries, now):
                continue
            entry = Entry(0, question.question, question.noise, question.delta, now, question=True)
            body = await asyncio.to_thread(self._sealed, question)
            if not self.state.commit_answer(question.question, body, entry):
                break
            entries = [*entries, entry]
            await self._send(question.question, body)
            answered += 1
        return answered

    def _open(self, signed: Signed, now: float) -> Question | None:
        """The question, if it is for this device at all."""
        question = opened(self.authority, signed, Question)
        if question.task != self.credentials.task or now >= question.ends_at:
            return None
        if not is_answerable(question) or not self._fits(question):
            return None
        return question

    def _fits(self, question: Question) -> bool:
        """Is it summed as the app wants it: by one server, or by two of which it pins one?"""
        if self.helper is None or question.helper is OFF:
            return self.helper is None and question.helper is OFF
        try:
            check_question_helper(question, self.helper)
        except SignatureInvalid:
            return False
        return True

    def _is_due(self, question: Question, entries: Sequence[Entry], now: float) -> bool:
        """Does this device answer it now?"""
        if ledger.why_not_answer(entries, question, self.floor, now) is not None:
            return False
        return now >= answer_time(self.credentials.private_key, question)

    async def _join(self, question: Question) -> None:
        """Where this device is in the share of a staged release, fetch that and use it.

        Raises:
            BrokenModel, SignatureInvalid, ForkedLog: it is not what the authority staged.
        """
        trial, version = question.trial, question.releases[0]
        if trial is OFF or self.state.staged_version() == version:
            return
        device = self.state.snapshot()
        held = trusted_entry(device, self.authority)
        if not held or device.release_version != trial.base:
            return  # the next sync brings the full release that it stands beside
        if not in_share(self.credentials.private_key, trial):
            return
        try:
            message = await self.transport.release_of(version)
        except UpdateRefused as refused:
            if refused.problem is problems.NOT_FOUND:  # it ended a moment ago
                return
            raise
        if message.task != self.credentials.task or message.version != version:
            raise BrokenModel("another release than the one that is staged")
        if check_release(self.authority, message).staged != trial.rollout:
            raise SignatureInvalid(f"release {version} is not staged by this roll-out")
        check_leads(held, [message.entry])
        await asyncio.to_thread(self.state.adopt_staged, device, message)

    def _sealed(self, question: Question) -> bytes:
        answer, device = self.state.answer(question), self.credentials.device
        if question.helper is OFF:
            return encode(seal_answer(question, device, pack(answer)))
        uniform = private_stream(self.credentials.private_key, b"answer " + question.question)
        report = answer_report(question, answer, uniform)
        return encode(seal_split_answer(question, question.helper, device, report))

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


def answer_report(question: Question, answer: Vector, uniform: Uniform) -> Report:
    """An answer as shares for two servers; `uniform` rounds, and draws what is random."""
    terms = terms_of(question)
    numbers = to_vector(answer, terms, uniform(terms.whole))
    return make_report(terms, numbers, report_secret(uniform))


def answer_time(private_key: bytes, question: Question) -> float:
    """When this device answers, in seconds since 1970: spread evenly, and told to nobody."""
    (uniform,) = private_stream(private_key, b"question " + question.question)(1)
    first = 0.0 if question.trial is OFF else TRIED
    place = first + (LATEST - first) * float(uniform)
    return question.asked_at + place * (question.ends_at - question.asked_at)


def in_share(private_key: bytes, trial: Trial) -> bool:
    """Is this device among those that a release is staged to? The same at each larger share."""
    (uniform,) = private_stream(private_key, b"trial " + trial.rollout)(1)
    return bool(uniform < trial.share)


def is_answerable(question: Question) -> bool:
    """Can this version lay out an answer at all?"""
    try:
        layout_of(question)
    except FedRapError:
        return False
    return True
