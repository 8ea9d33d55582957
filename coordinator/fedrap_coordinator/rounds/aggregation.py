"""From sealed updates to the sum of a round, behind a seam of two verbs.

`SealedAggregator` is the implementation of today: it holds the sealing keys, so this module is the
only code that sees a plaintext share, and only for as long as it adds it. CPU work runs in threads;
memory does not depend on how many updates a round has.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.keyring import Keyring
from fedrap_core.aggregate import Accumulator
from fedrap_core.errors import BrokenModel, FedRapError
from fedrap_core.model import CommonItems
from fedrap_core.plan import Plan, Privacy
from fedrap_core.privacy.mechanisms import adapted_clip, task_noise_key
from fedrap_core.solve.server_step import RoundSum
from fedrap_core.sparse import RowUpdate
from fedrap_core.wire import problems
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Offer, Update
from fedrap_core.wire.seal import open_update
from fedrap_core.wire.share import decode_share

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class RoundTotal:
    """All of a round that leaves an aggregator."""

    total: RoundSum
    clip: float  # S of the next round where the plan adapts it, else 0


class Aggregator(Protocol):
    """Tells which updates can be counted, and what those of a round sum up to."""

    def check(self, update: Update, common: CommonItems) -> None:
        """Returns when the update can be counted. Called in a worker thread.

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
    ) -> RoundTotal:
        """The round's sum, clipped and noised as the plan says, and the clip of the next round.

        Asked again for the same round it gives the same numbers: the noise follows from the step.

        Raises:
            BrokenModel: fewer updates than the plan allows a release from.
        """
        ...


class SealedAggregator:
    """Opens updates that devices sealed to the keys of this coordinator.

    Every update is opened twice: when it comes, so that its device hears at once that it cannot be
    counted, and when its round is summed. To keep what the first time showed would let plaintext
    live for as long as a round, and memory grow with it.
    """

    def __init__(self, keyring: Keyring, max_body_bytes: int) -> None:
        self._keyring = keyring
        self._max_body_bytes = max_body_bytes

    def check(self, update: Update, common: CommonItems) -> None:
        """See `Aggregator`; MalformedMessage, UnsupportedVersion, WrongShape or NotFinite."""
        open_share(update, self._keyring.private(update.seal_id), common.size, common.dim)

    async def total(
        self,
        bodies: AsyncIterator[Sequence[bytes]],
        common: CommonItems,
        plan: Plan,
        task: bytes,
        step: int,
    ) -> RoundTotal:
        """See `Aggregator`."""
        rule = plan.privacy
        accumulator = Accumulator(common.size, common.dim, rule.clip, rule.row_clip)
        async for some in bodies:
            await asyncio.to_thread(self._add, accumulator, some)
        if accumulator.devices < plan.min_updates:
            raise BrokenModel("too few updates of this round could be opened")
        key = task_noise_key(self._keyring.noise, task)
        return await asyncio.to_thread(_noised, accumulator, rule, key, step)

    def _add(self, accumulator: Accumulator, bodies: Sequence[bytes]) -> None:
        size, dim = accumulator.shape
        for body in bodies:
            try:
                update = read_update(body, self._max_body_bytes)
                private = self._keyring.private(update.seal_id)
                accumulator.add(open_share(update, private, size, dim))
            except FedRapError:  # each was opened once before it was stored
                log.exception("a stored update does not open; was a key lost?")


def _noised(accumulator: Accumulator, rule: Privacy, key: bytes, step: int) -> RoundTotal:
    total = accumulator.total(rule.noise, key, step, rule.coefficients)
    if rule.adapt is None:
        return RoundTotal(total, 0.0)
    spread = rule.adapt.noise if rule.noise else 0.0  # without noise there is no guarantee to keep
    fitting = accumulator.fitting(spread, key, step, rule.coefficients)
    return RoundTotal(total, adapted_clip(rule.clip, rule.adapt, fitting, total.devices))


def read_update(raw: bytes, max_bytes: int) -> Update:
    """The envelope in a request's body; raises like `codec.decode`."""
    return decode(Update, raw, max_bytes)


def check_envelope(update: Update, offer: Offer, device: bytes) -> None:
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


def open_share(
    update: Update, private: ec.EllipticCurvePrivateKey, size: int, dim: int
) -> RowUpdate:
    """The plaintext share, checked against the model's shape.

    Raises:
        MalformedMessage, UnsupportedVersion, WrongShape, NotFinite: it cannot be counted.
    """
    share = decode_share(open_update(update, private), dim)
    share.check(size, dim)
    return share
