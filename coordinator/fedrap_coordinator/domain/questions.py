"""Questions about quality: their life, and which answers are kept. Pure.

    open -> summing -> answered | too-few
    opening -> open, where answers are shares for two servers and the helper has still to be asked

While a question is open answers come; in `summing` none do any more, so that a sum that is begun
again after a crash is the same sum with the same noise. At its end the sealed answers are destroyed
and the noised sum is kept, or nothing, where too few came.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from fedrap_coordinator.domain.decisions import authenticated
from fedrap_coordinator.domain.records import DeviceRecord
from fedrap_core.wire import problems
from fedrap_core.wire.problems import Problem


class QuestionState(StrEnum):
    """Where a question is in its life."""

    OPENING = "opening"
    OPEN = "open"
    SUMMING = "summing"
    ANSWERED = "answered"
    TOO_FEW = "too-few"


ENDED = frozenset({QuestionState.ANSWERED, QuestionState.TOO_FEW})


@dataclass(frozen=True)
class QuestionRow:
    """A question as the store keeps it."""

    id: bytes
    signed: bytes  # the message `signed` with it, as devices get it
    seal_id: bytes  # names the key that its answers are sealed to
    asked_at: float
    ends_at: float
    most: int  # answers that are taken
    budget: int  # questions that a device answers at most
    purpose: str = ""  # why it was asked: a word, and what is to be done with the result
    state: QuestionState = QuestionState.OPEN
    answers: int = 0
    total: bytes = b""  # the noised sum, float64 little-endian; empty before the end
    closed_at: float | None = None

    def is_due(self, now: float) -> bool:
        """Is it time to sum up?"""
        if self.state is QuestionState.SUMMING:
            return True
        if self.state is QuestionState.OPENING:
            return now >= self.ends_at
        full = self.answers >= self.most
        return self.state is QuestionState.OPEN and (full or now >= self.ends_at)


class GivenAnswer(msgspec.Struct, frozen=True):
    """An answer that came: who sent it, its nonce and digest, and the sealed bytes."""

    device: bytes
    nonce: int
    digest: bytes
    body: bytes


@dataclass(frozen=True)
class AnswerDecision:
    """What becomes of an answer; `device` is its record with the nonce raised."""

    problem: Problem | None
    device: DeviceRecord | None = None
    is_new: bool = False  # it is to be stored, and counted


def decide_answer(
    given: GivenAnswer,
    question: QuestionRow | None,
    known: DeviceRecord | None,
    before: bytes | None,
    answered: int,
    now: float,
) -> AnswerDecision:
    """May this answer be kept?

    `before` is the digest of the answer that this device gave to the same question, if any;
    `answered` how many questions it has answered in all.
    """
    changed: dict[bytes, DeviceRecord] = {}
    _, problem = authenticated(known, given.nonce, now, changed)
    decision = AnswerDecision(problem, changed.get(given.device))
    if problem is not None:
        return decision
    if question is None:
        return replace(decision, problem=problems.NOT_FOUND)
    if before is not None:
        same = None if before == given.digest else problems.CONFLICTING_UPDATE
        return replace(decision, problem=same)
    if question.state is not QuestionState.OPEN or question.is_due(now):
        return replace(decision, problem=problems.ROUND_CLOSED)
    if answered >= question.budget:
        return replace(decision, problem=problems.BUDGET_SPENT)
    return replace(decision, is_new=True)
