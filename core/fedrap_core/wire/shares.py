"""Reports of `split` as messages: sealed to leader and helper, and what the helper signs.

The helper's identity key is pinned in the app. For every round it signs a fresh sealing key with
task, round, step, model and plan, so that a coordinator can neither put its own key in the
helper's place nor let the helper serve under another plan than devices were shown; for every
question one with what it holds the question to.
"""

from __future__ import annotations

import hashlib
import struct
from enum import StrEnum
from typing import Annotated

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_core.errors import SignatureInvalid
from fedrap_core.plan import OFF
from fedrap_core.split.report import HELPER, HELPER_BYTES, LEADER, Report
from fedrap_core.split.vectors import VectorTerms, sum_spread, vector_terms
from fedrap_core.wire.keys import public_from_point
from fedrap_core.wire.messages import (
    Digest,
    HelperKey,
    Id16,
    KeyId,
    Message,
    Offer,
    Point,
    Question,
    Seconds70,
    Signature,
    Step,
)
from fedrap_core.wire.question_layout import layout_of
from fedrap_core.wire.seal import open_sealed, seal
from fedrap_core.wire.signing import sign, verify

SEALED_HELPER_BYTES = HELPER_BYTES + 81  # an encapsulated point and a tag
MOST_REPORTS = 64  # in one batch
MOST_BATCH_BYTES = 6 * 1024 * 1024
_HELPER = b"fedrap/2 helper\n"
_QUESTION = b"fedrap/2 question\n"


class SplitUpdate(Message, frozen=True, kw_only=True, tag="split-update"):
    """Device -> coordinator: a report for two servers, in a round whose plan has `split`.

    The helper gets `report`, `public` and `helper`, and nothing that names the device.
    """

    task: Id16
    round: Id16
    step: Step
    model: Digest
    plan: Digest  # SHA-256 of the plan's bytes
    device: Id16
    seal_id: KeyId  # of the leader's key
    report: Id16  # random
    public: bytes  # joint parts and corrections, see split/report.py
    leader: bytes  # sealed
    helper: bytes  # sealed to the helper's key of this round


class SplitAnswer(Message, frozen=True, kw_only=True, tag="split-answer"):
    """Device -> coordinator: an answer for two servers, to a question that has a helper."""

    task: Id16
    question: Id16
    device: Id16
    seal_id: KeyId  # of the leader's key
    report: Id16  # random
    public: Annotated[bytes, msgspec.Meta(max_length=64)]  # joint parts
    leader: Annotated[bytes, msgspec.Meta(max_length=16384)]  # sealed
    helper: Annotated[bytes, msgspec.Meta(max_length=SEALED_HELPER_BYTES)]  # sealed to the helper


class HelperProblem(StrEnum):
    """Why a helper refuses the leader; the code of its problem document."""

    MALFORMED = "malformed"  # not a message of this protocol
    NOT_ALLOWED = "not-allowed"  # a plan or a time that this helper does not serve
    NO_ROUND = "no-round"  # never opened, over, or its key is gone
    ANOTHER_ROUND = "another-round"  # opened under the same id with something else
    BURNED_STEP = "burned-step"  # the step was summed before
    ANOTHER_SET = "another-set"  # not the reports that were counted or summed
    TOO_FEW = "too-few"  # fewer devices than a sum needs


class OpenRound(Message, frozen=True, kw_only=True, tag="open-round"):
    """Leader -> helper: a round begins; please make a key for it."""

    task: Id16
    round: Id16
    step: Step
    model: Digest
    plan: Annotated[bytes, msgspec.Meta(max_length=4096)]
    items: Annotated[int, msgspec.Meta(ge=1, le=2**24)]  # m
    ends_at: Seconds70  # after which the helper forgets the round's key


class OpenQuestion(Message, frozen=True, kw_only=True, tag="open-question"):
    """Leader -> helper: a question begins; please make a key for it. Answered as a round is.

    What is asked is no business of the helper's; what its sum shows of a device is.
    """

    task: Id16
    question: Id16
    numbers: Annotated[int, msgspec.Meta(ge=1, le=4096)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=2**24)]  # Q, see split/vectors.py
    noise: Annotated[float, msgspec.Meta(ge=0, le=1e4)]  # z
    least: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]  # devices
    ends_at: Seconds70  # after which the helper forgets the key


class RoundOpened(Message, frozen=True, kw_only=True, tag="round-opened"):
    """Helper -> leader: the key that devices seal to, signed, and the key that both check with."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    seal_key: Point
    signature: Signature
    verify_key: Id16


class HelperReport(msgspec.Struct, frozen=True, kw_only=True):
    """Inside a batch: one report, without anything that names its device."""

    report: Id16
    public: bytes
    helper: Annotated[bytes, msgspec.Meta(max_length=SEALED_HELPER_BYTES)]
    seen: bytes  # what the leader saw of it: verify.Seen


class ReportBatch(Message, frozen=True, kw_only=True, tag="report-batch"):
    """Leader -> helper: reports of a round, in any number of batches."""

    round: Id16
    reports: Annotated[list[HelperReport], msgspec.Meta(max_length=MOST_REPORTS)]


class BatchChecked(Message, frozen=True, kw_only=True, tag="batch-checked"):
    """Helper -> leader: for each report of the batch 1, counted, or 0."""

    counted: Annotated[bytes, msgspec.Meta(max_length=MOST_REPORTS)]


class CloseRound(Message, frozen=True, kw_only=True, tag="close-round"):
    """Leader -> helper: these reports and no others are summed; your share, please."""

    round: Id16
    count: Annotated[int, msgspec.Meta(ge=0, le=2**31)]
    digest: Digest  # see `set_digest`


class RoundClosed(Message, frozen=True, kw_only=True, tag="round-closed"):
    """Helper -> leader: its share of the sum, with its noise."""

    share: bytes  # u32 little-endian, in the order of parts.py


def set_digest(reports: set[bytes]) -> bytes:
    """The name of a set of reports: SHA-256 over their ids, ascending."""
    return hashlib.sha256(b"fedrap/2 reports" + b"".join(sorted(reports))).digest()


def helper_bytes(
    task: bytes, round_id: bytes, step: int, model: bytes, plan: bytes, seal_key: bytes
) -> bytes:
    """What a helper signs of a round; `plan` is the SHA-256 of the plan's bytes."""
    fields = (task, round_id, struct.pack(">I", step), model, plan, seal_key)
    return _HELPER + b"".join(struct.pack(">H", len(field)) + field for field in fields)


def sign_round(identity: ec.EllipticCurvePrivateKey, opened: OpenRound, seal_key: bytes) -> bytes:
    """The helper's signature of a round that it opens."""
    plan = hashlib.sha256(opened.plan).digest()
    return sign(
        identity,
        helper_bytes(opened.task, opened.round, opened.step, opened.model, plan, seal_key),
    )


def check_helper(offer: Offer, pinned: bytes) -> HelperKey:
    """The helper of an offer, once the pinned identity is found to have signed it.

    Raises:
        SignatureInvalid: there is none, its key is not the one it names, or somebody else signed.
    """
    helper = offer.helper
    if helper is OFF:
        raise SignatureInvalid("an offer without a helper")
    if hashlib.sha256(helper.seal_key).digest()[:8] != helper.seal_id:
        raise SignatureInvalid("the helper's key has another name")
    plan = hashlib.sha256(offer.plan).digest()
    message = helper_bytes(offer.task, offer.round, offer.step, offer.model, plan, helper.seal_key)
    verify(public_from_point(pinned), message, helper.signature)
    return helper


def question_bytes(asked: OpenQuestion, seal_key: bytes) -> bytes:
    """What a helper signs of a question."""
    numbers = struct.pack(">IIdI", asked.numbers, asked.limit, asked.noise, asked.least)
    fields = (asked.task, asked.question, numbers, seal_key)
    return _QUESTION + b"".join(struct.pack(">H", len(field)) + field for field in fields)


def sign_question(
    identity: ec.EllipticCurvePrivateKey, opened: OpenQuestion, seal_key: bytes
) -> bytes:
    """The helper's signature of a question that it opens."""
    return sign(identity, question_bytes(opened, seal_key))


def terms_of(question: Question) -> VectorTerms:
    """The shape of the reports that answer a question; raises MalformedMessage as `layout_of`."""
    return vector_terms(question.question, layout_of(question))


def sum_stddev(question: Question, answers: int) -> float:
    """Standard deviation that noise gives each number of the sum of so many answers.

    With two servers it has what rounding to whole steps adds, at the most.
    """
    if question.helper is OFF:
        return question.noise * layout_of(question).clip
    return sum_spread(terms_of(question), question.noise, answers)


def to_open(question: Question, ends_at: float) -> OpenQuestion:
    """What a helper is told of a question; it keeps its key until `ends_at`."""
    terms = terms_of(question)
    return OpenQuestion(
        task=question.task, question=question.question, numbers=terms.whole, limit=terms.limit,
        noise=question.noise, least=question.least, ends_at=ends_at,
    )  # fmt: skip


def check_question_helper(question: Question, pinned: bytes) -> HelperKey:
    """The helper of a question, once the pinned identity is found to have signed it.

    Raises:
        SignatureInvalid: there is none, its key is not the one it names, or somebody else signed.
    """
    helper = question.helper
    if helper is OFF:
        raise SignatureInvalid("a question without a helper")
    if hashlib.sha256(helper.seal_key).digest()[:8] != helper.seal_id:
        raise SignatureInvalid("the helper's key has another name")
    message = question_bytes(to_open(question, question.ends_at), helper.seal_key)
    verify(public_from_point(pinned), message, helper.signature)
    return helper


def answer_context(task: bytes, question: bytes, report: bytes, role: int) -> bytes:
    """`info` of a sealed share of an answer: each field with its length."""
    fields = (task, question, report, bytes([role]))
    return b"fedrap/2 answer" + b"".join(struct.pack(">H", len(f)) + f for f in fields)


def seal_split_answer(
    question: Question, helper: HelperKey, device: bytes, report: Report
) -> SplitAnswer:
    """The message of an answer; each share can be read by its server alone."""

    def info(role: int) -> bytes:
        return answer_context(question.task, question.question, report.id, role)

    return SplitAnswer(
        task=question.task,
        question=question.question,
        device=device,
        seal_id=question.seal_id,
        report=report.id,
        public=report.public,
        leader=seal(report.leader, question.seal_key, info(LEADER)),
        helper=seal(report.helper, helper.seal_key, info(HELPER)),
    )


def open_leader_answer(answer: SplitAnswer, private: ec.EllipticCurvePrivateKey) -> bytes:
    """The leader's share; raises MalformedMessage: sealed for another context, or damaged."""
    info = answer_context(answer.task, answer.question, answer.report, LEADER)
    return open_sealed(answer.leader, private, info)


def open_helper_answer(
    task: bytes, question: bytes, report: HelperReport, private: ec.EllipticCurvePrivateKey
) -> bytes:
    """The helper's share; raises like `open_leader_answer`."""
    info = answer_context(task, question, report.report, HELPER)
    return open_sealed(report.helper, private, info)


def share_context(task: bytes, round_id: bytes, plan: bytes, report: bytes, role: int) -> bytes:
    """`info` of a sealed share: each field with its length."""
    fields = (task, round_id, plan, report, bytes([role]))
    return b"fedrap/2 share" + b"".join(struct.pack(">H", len(f)) + f for f in fields)


def seal_report(offer: Offer, helper: HelperKey, device: bytes, report: Report) -> SplitUpdate:
    """The message of a report; each share can be read by its server alone."""
    plan = hashlib.sha256(offer.plan).digest()

    def info(role: int) -> bytes:
        return share_context(offer.task, offer.round, plan, report.id, role)

    return SplitUpdate(
        task=offer.task,
        round=offer.round,
        step=offer.step,
        model=offer.model,
        plan=plan,
        device=device,
        seal_id=offer.seal_id,
        report=report.id,
        public=report.public,
        leader=seal(report.leader, offer.seal_key, info(LEADER)),
        helper=seal(report.helper, helper.seal_key, info(HELPER)),
    )


def open_leader(update: SplitUpdate, private: ec.EllipticCurvePrivateKey) -> bytes:
    """The leader's share; raises MalformedMessage: sealed for another context, or damaged."""
    info = share_context(update.task, update.round, update.plan, update.report, LEADER)
    return open_sealed(update.leader, private, info)


def open_helper(
    task: bytes, plan: bytes, round_id: bytes, report: HelperReport,
    private: ec.EllipticCurvePrivateKey,
) -> bytes:  # fmt: skip
    """The helper's share; raises like `open_leader`. `plan` is the SHA-256 of its bytes."""
    info = share_context(task, round_id, plan, report.report, HELPER)
    return open_sealed(report.helper, private, info)
