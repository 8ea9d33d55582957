"""From updates to the sum of a round: the seam of two verbs, and what holds for every update.

`sealed_aggregator` has the implementation that opens sealed updates, `split_aggregator` the
one that sums shares together with a helper.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from fedrap_coordinator.errors import Refusal
from fedrap_core.errors import MalformedMessage
from fedrap_core.model import CommonItems
from fedrap_core.plan import Plan
from fedrap_core.privacy.mechanisms import UpdateSets
from fedrap_core.questions.answers import Vector
from fedrap_core.solve.server_step import RoundSum
from fedrap_core.wire import problems
from fedrap_core.wire.codec import decode_one_of
from fedrap_core.wire.messages import Answer, Offer, Question, Update
from fedrap_core.wire.shares import SplitAnswer, SplitUpdate

AnyUpdate = Update | SplitUpdate
ANSWER_BYTES = 16_384  # of a whole message
HELPER_SECONDS = 7 * 86400.0  # after the end of a round or question, within which it is summed


@dataclass(frozen=True, eq=False)
class RoundTotal:
    """All of a round that leaves an aggregator."""

    total: RoundSum
    clip: float  # S of the next round where the plan adapts it, else 0
    updates: bytes  # digest of the frozen set that was summed


@dataclass(frozen=True, eq=False)
class AnswerTotal:
    """All of the answers to a question that leaves an aggregator."""

    total: Vector  # noised
    count: int  # of answers in it


class Aggregator(Protocol):
    """Tells which updates and answers can be counted, and what those of a round sum up to."""

    async def open_round(self, offer: Offer, plan: Plan, items: int, ends_at: float) -> bytes:
        """What a round's offers say of a second server, to be kept with the round; empty: none.

        `ends_at`, in seconds of wall time, is when the round is over at the latest.

        Raises:
            HelperAway, HelperRefused: the round cannot be opened now.
        """
        ...

    def check(self, update: AnyUpdate, common: CommonItems, plan: Plan) -> None:
        """Returns when the update can be counted in a round of that plan. In a worker thread.

        Raises:
            FedRapError: it cannot; `errors.refusal_of` has the answer for the device.
        """
        ...

    async def total(
        self,
        bodies: AsyncIterator[Sequence[bytes]],
        common: CommonItems,
        plan: Plan,
        task: bytes,
        step: int,
        sets: UpdateSets,
    ) -> RoundTotal:
        """The round's sum, clipped and noised as the plan says, and the clip of the next round.

        Asked again for the same round it gives the same numbers: the noise follows from the step,
        the updates that were summed, and `sets`, those that earlier steps were made from.

        Raises:
            BrokenModel: fewer updates than the plan allows a release from.
            HelperAway: not now; nothing was released, and the same is asked again.
        """
        ...

    async def open_question(self, question: Question) -> Question:
        """The question with what it says of a second server, if there is one.

        Raises:
            HelperAway, HelperRefused: it cannot be opened now.
        """
        ...

    def check_answer(self, body: bytes, question: Question) -> bytes:
        """The device whose answer to this question it is, if it can be counted. In a thread.

        Raises:
            FedRapError: it cannot; `errors.refusal_of` has the answer for the device.
        """
        ...

    async def total_answers(
        self, bodies: AsyncIterator[Sequence[bytes]], question: Question
    ) -> AnswerTotal:
        """The noised sum of answers; asked again for the same ones it gives the same numbers.

        Raises:
            BrokenModel: there will never be one, or of too few.
            HelperAway: not now; the same is asked again.
        """
        ...


def read_update(raw: bytes, max_bytes: int) -> AnyUpdate:
    """The envelope in a request's body; raises like `codec.decode`."""
    kinds: tuple[type[AnyUpdate], ...] = (Update, SplitUpdate)
    return decode_one_of(kinds, raw, max_bytes)


def check_envelope(update: AnyUpdate, offer: Offer, device: bytes) -> None:
    """The update is this device's answer to this offer, whatever is sealed inside.

    Raises:
        Refusal: signed by another device, or made for another task, round, model or plan.
    """
    if update.device != device:
        raise Refusal(problems.BAD_SIGNATURE, "the update names another device than its signature")
    if update.task != offer.task or update.round != offer.round:
        raise Refusal(problems.STALE_MODEL, "the update was made for another round")
    same = (
        update.step == offer.step
        and update.model == offer.model
        and update.plan == hashlib.sha256(offer.plan).digest()
        and update.seal_id == offer.seal_id
    )
    if not same:
        raise Refusal(problems.STALE_MODEL, "the update was made for another model or plan")


def check_answer_envelope(answer: Answer | SplitAnswer, question: Question) -> None:
    """The answer is one to this question, whatever is sealed inside.

    Raises:
        MalformedMessage: it was made for another question or key.
    """
    if (answer.task, answer.question) != (question.task, question.question):
        raise MalformedMessage("an answer to another question")
    if answer.seal_id != question.seal_id:
        raise MalformedMessage("an answer that is sealed to another key")
