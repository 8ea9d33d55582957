"""The aggregator: the only code that sees a plaintext share, and only for as long as it adds it.

It stands behind a seam of two verbs, so that secure aggregation can take its place. CPU work runs
in threads; memory does not depend on how many updates a round has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from fedrap_coordinator.admission import open_share, read_update
from fedrap_coordinator.keyring import Keyring
from fedrap_core.aggregate import Accumulator
from fedrap_core.errors import BrokenModel, FedRapError
from fedrap_core.learn import RoundSum
from fedrap_core.model import CommonItems
from fedrap_core.plan import Plan, Privacy
from fedrap_core.privacy import adapted_clip, task_noise_key
from fedrap_core.wire.messages import Update

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Summed:
    """All of a round that leaves the aggregator."""

    total: RoundSum
    clip: float  # S of the next round where the plan adapts it, else 0


class Aggregator:
    """Opens sealed updates and sums them."""

    def __init__(self, keyring: Keyring, max_body_bytes: int) -> None:
        self._keyring = keyring
        self.max_body_bytes = max_body_bytes

    def check(self, update: Update, common: CommonItems) -> None:
        """Returns when the update can be counted; what it says is forgotten again.

        Raises:
            MalformedMessage, UnsupportedVersion, WrongShape, NotFinite: it cannot.
        """
        open_share(update, self._keyring.private(update.seal_id), common.size, common.dim)

    async def total(
        self,
        bodies: AsyncIterator[Sequence[bytes]],
        common: CommonItems,
        plan: Plan,
        task: bytes,
        step: int,
    ) -> Summed:
        """The round's sum, clipped and noised as the plan says, and the clip of the next round.

        Raises:
            BrokenModel: fewer updates than the plan allows a release from.
        """
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
                update = read_update(body, self.max_body_bytes)
                private = self._keyring.private(update.seal_id)
                accumulator.add(open_share(update, private, size, dim))
            except FedRapError:  # each was opened once before it was stored
                log.exception("a stored update does not open; was a key lost?")


def _noised(accumulator: Accumulator, rule: Privacy, key: bytes, step: int) -> Summed:
    total = accumulator.total(rule.noise, key, step, rule.coefficients)
    if rule.adapt is None:
        return Summed(total, 0.0)
    spread = rule.adapt.noise if rule.noise else 0.0  # without noise nothing is promised
    fitting = accumulator.fitting(spread, key, step, rule.coefficients)
    return Summed(total, adapted_clip(rule.clip, rule.adapt, fitting, total.devices))
