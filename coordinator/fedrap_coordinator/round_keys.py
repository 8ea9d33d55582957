"""Which sealing key a round names, and when keys are destroyed. File work runs in threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from fedrap_coordinator.faults import Reached, pass_by
from fedrap_coordinator.keyring import Keyring, SealKeyGone
from fedrap_coordinator.sealing_keys import KeyState

log = logging.getLogger(__name__)


class RoundKeys:
    """The coordinator's use of its keyring."""

    def __init__(
        self,
        keyring: Keyring,
        rotate_hours: float,
        clock: Callable[[], float],
        reached: Reached = pass_by,
    ) -> None:
        self._keyring = keyring
        self._reached = reached
        self._seconds = rotate_hours * 3600
        self._clock = clock

    async def for_a_round(self) -> bytes:
        """The name of the key for a round that is opened now; rotated by age first."""
        key = await asyncio.to_thread(self._keyring.for_a_round, self._clock(), self._seconds)
        self._reached("key chosen")
        return key.id

    async def refresh(self) -> None:
        """Forget the keys that another process has destroyed."""
        await asyncio.to_thread(self._keyring.refresh)

    def has(self, seal_id: bytes) -> bool:
        """Can updates sealed to this key be opened?"""
        try:
            self._keyring.private(seal_id)
        except SealKeyGone:
            log.exception("a sealing key is gone")
            return False
        return True

    async def tidy(self, named: set[bytes]) -> None:
        """Destroy what no open round names, once the store says that the others are over."""
        if any(key.state is KeyState.RETIRED for key in self._keyring.keys):
            gone = await asyncio.to_thread(self._keyring.destroy_unused, named, self._clock())
            self._reached("keys destroyed")
            if gone:
                log.info("sealing keys destroyed", extra={"count": gone})
