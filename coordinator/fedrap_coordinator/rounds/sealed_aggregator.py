"""The aggregator that opens updates which devices sealed to this coordinator's keys.

The only code that sees a plaintext share, and only for as long as it adds it. CPU work runs in
threads; memory does not depend on how many updates a round has.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.aggregation import (
    ANSWER_BYTES,
    AnswerTotal,
    AnyUpdate,
    RoundTotal,
    check_answer_envelope,
    read_update,
)
from fedrap_core.aggregate import Accumulator
from fedrap_core.errors import BrokenModel, FedRapError, UnsupportedVersion
from fedrap_core.model import CommonItems
from fedrap_core.parts import more_parts
from fedrap_core.plan import Plan, Privacy
from fedrap_core.privacy.mechanisms import (
    UpdateSets,
    adapted_clip,
    question_noise,
    task_noise_key,
)
from fedrap_core.questions.answers import Vector, unpack
from fedrap_core.solve.server_step import Learning, touch_weight
from fedrap_core.sparse import Part, RowUpdate
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Answer, Offer, Question, Update
from fedrap_core.wire.question_layout import layout_of
from fedrap_core.wire.seal import open_answer, open_update
from fedrap_core.wire.share import check_share, decode_share

log = logging.getLogger(__name__)


class SealedAggregator:
    """Opens updates that devices sealed to the keys of this coordinator.

    Every update is opened twice: when it comes, so that its device hears at once that it cannot be
    counted, and when its round is summed. To keep what the first time showed would let plaintext
    live for as long as a round, and memory grow with it.
    """

    def __init__(self, keyring: Keyring, max_body_bytes: int, learning: Learning) -> None:
        self._keyring = keyring
        self._max_body_bytes = max_body_bytes
        self._learning = learning

    async def open_round(self, offer: Offer, plan: Plan, items: int, ends_at: float) -> bytes:
        """See `Aggregator`: there is no second server."""
        return b""

    def check(self, update: AnyUpdate, common: CommonItems, plan: Plan) -> None:
        """See `Aggregator`; MalformedMessage, UnsupportedVersion, WrongShape or NotFinite."""
        plaintext = open_update(_sealed(update), self._keyring.private(update.seal_id))
        check_share(plaintext, common.size, common.dim, more_parts(plan.method, common.size))

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
        rule = plan.privacy
        parts = more_parts(plan.method, common.size)
        touch = touch_weight(self._learning, rule.clip, rule.noise, common.size)
        accumulator = Accumulator(common.size, common.dim, rule.clip, rule.row_clip, parts, touch)
        frozen = hashlib.sha256(b"fedrap/1 updates")  # they come in order of device
        async for some in bodies:
            await asyncio.to_thread(self._add, accumulator, some, frozen)
        if accumulator.devices < plan.min_updates:
            raise BrokenModel("too few updates of this round could be opened")
        key = task_noise_key(self._keyring.noise, task)
        own = {step: frozen.digest()}
        return await asyncio.to_thread(_noised, accumulator, rule, key, step, {**sets, **own})

    async def open_question(self, question: Question) -> Question:
        """See `Aggregator`: there is no second server."""
        return question

    def check_answer(self, body: bytes, question: Question) -> bytes:
        """See `Aggregator`; MalformedMessage, WrongShape or NotFinite."""
        return self._read_answer(body, question)[0]

    async def total_answers(
        self, bodies: AsyncIterator[Sequence[bytes]], question: Question
    ) -> AnswerTotal:
        """See `Aggregator`."""
        layout = layout_of(question)
        total, count = np.zeros(layout.size), 0
        frozen = hashlib.sha256(b"fedrap/1 answers")  # they come in order of device
        async for some in bodies:
            count += await asyncio.to_thread(self._add_answers, total, some, question, frozen)
        key = task_noise_key(self._keyring.noise, question.task)
        stddev = question.noise * layout.clip
        noise = question_noise(key, question.question, frozen.digest(), layout.size, stddev)
        return AnswerTotal(total + noise, count)

    def _add_answers(
        self, total: Vector, bodies: Sequence[bytes], question: Question, frozen: hashlib._Hash
    ) -> int:
        """Add these answers to the sum; how many there were."""
        count = 0
        for body in bodies:
            frozen.update(hashlib.sha256(body).digest())
            try:
                total += self._read_answer(body, question)[1]
                count += 1
            except FedRapError:  # each was opened once before it was stored
                log.exception("a stored answer does not open; was a key lost?")
        return count

    def _read_answer(self, body: bytes, question: Question) -> tuple[bytes, Vector]:
        """Whose answer it is, and its numbers."""
        answer = decode(Answer, body, ANSWER_BYTES)
        check_answer_envelope(answer, question)
        plaintext = open_answer(answer, self._keyring.private(answer.seal_id))
        return answer.device, unpack(plaintext, layout_of(question))

    def _add(
        self, accumulator: Accumulator, bodies: Sequence[bytes], frozen: hashlib._Hash
    ) -> None:
        size, dim = accumulator.shape
        for body in bodies:
            frozen.update(hashlib.sha256(body).digest())
            try:
                update = _sealed(read_update(body, self._max_body_bytes))
                private = self._keyring.private(update.seal_id)
                accumulator.add(open_share(update, private, size, dim, accumulator.parts))
            except FedRapError:  # each was opened once before it was stored
                log.exception("a stored update does not open; was a key lost?")


def _noised(
    accumulator: Accumulator, rule: Privacy, key: bytes, step: int, sets: UpdateSets
) -> RoundTotal:
    total = accumulator.total(rule.noise, key, step, rule.coefficients, sets)
    if rule.adapt is None:
        return RoundTotal(total, 0.0, sets[step])
    spread = rule.adapt.noise if rule.noise else 0.0  # without noise there is no guarantee to keep
    fitting = accumulator.fitting(spread, key, step, rule.coefficients, sets)
    clip = adapted_clip(rule.clip, rule.adapt, fitting, total.devices)
    return RoundTotal(total, clip, sets[step])


def _sealed(update: AnyUpdate) -> Update:
    if not isinstance(update, Update):
        raise UnsupportedVersion("this round takes sealed updates: an 'update'")
    return update


def open_share(
    update: Update,
    private: ec.EllipticCurvePrivateKey,
    size: int,
    dim: int,
    parts: Sequence[Part] = (),
) -> RowUpdate:
    """The plaintext share, checked against the model's shape and the plan's other parts.

    Raises:
        MalformedMessage, UnsupportedVersion, WrongShape, NotFinite: it cannot be counted.
    """
    share = decode_share(open_update(update, private), dim, parts)
    share.check(size, dim, parts)
    return share
