"""From updates to the sum of a round: the seam of two verbs, and what holds for every update.

`sealed_aggregator` has the implementation that opens sealed updates.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from fedrap_coordinator.errors import Refusal
from fedrap_core.model import CommonItems
from fedrap_core.plan import Plan
from fedrap_core.privacy.mechanisms import UpdateSets
from fedrap_core.solve.server_step import RoundSum
from fedrap_core.wire import problems
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Offer, Update


@dataclass(frozen=True, eq=False)
class RoundTotal:
    """All of a round that leaves an aggregator."""

    total: RoundSum
    clip: float  # S of the next round where the plan adapts it, else 0
    updates: bytes  # digest of the frozen set that was summed


class Aggregator(Protocol):
    """Tells which updates can be counted, and what those of a round sum up to."""

    def check(self, update: Update, common: CommonItems, plan: Plan) -> None:
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
        """
        ...


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
