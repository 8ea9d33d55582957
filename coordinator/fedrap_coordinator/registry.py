"""Who the devices are: enrolment with a one-time token, and signatures of their requests."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Sequence

from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.store.protocol import Store
from fedrap_core.wire import problems
from fedrap_core.wire.keys import public_from_point
from fedrap_core.wire.messages import Enrol, Enrolled
from fedrap_core.wire.signing import signed_bytes, verify


class Registry:
    """Enrols devices and checks what they sign. `clock` gives seconds of wall time."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    async def add_tokens(self, tokens: Sequence[str]) -> None:
        """One-time enrolment tokens; only their hashes are kept."""
        await self._store.add_tokens([_digest(token) for token in tokens], self._clock())

    async def enrol(self, message: Enrol, task: bytes) -> Enrolled:
        """A token becomes a device with a key and a random id.

        Raises:
            Refusal: the token is unknown or was used.
            MalformedMessage: the key is not a point of the curve.
        """
        public_from_point(message.public_key)
        device, token = os.urandom(16), _digest(message.token)
        if not await self._store.enrol(token, device, message.public_key, self._clock()):
            raise Refusal(problems.TOKEN_REFUSED)
        return Enrolled(device=device, task=task)

    async def authenticate(
        self, method: str, path: str, body: bytes, device: bytes, nonce: int, signature: bytes
    ) -> None:
        """Returns when the request comes from that device and was never seen before.

        Raises:
            Refusal, SignatureInvalid: it does not, or it was.
        """
        known = await self._store.device(device)
        if known is None:
            raise Refusal(problems.NOT_ENROLLED)
        message = signed_bytes(method, path, body, device, nonce)
        key = public_from_point(known.public_key)
        await asyncio.to_thread(verify, key, message, signature)
        # After the signature, so that nobody else can use up a device's nonces.
        if not await self._store.use_nonce(device, nonce):
            raise Refusal(problems.REPLAYED)

    async def forget(self, device: bytes) -> None:
        """Drop a device's key and record; what it sent into open or past rounds stays counted."""
        await self._store.forget_device(device)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8")).digest()
