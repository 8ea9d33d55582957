"""Who this device is to its coordinator, and its signature under every request."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from copy import copy

import msgspec

from fedrap_core.wire.keys import (
    private_from_bytes,
)
from fedrap_core.wire.signing import (
    DEVICE_HEADER,
    NONCE_HEADER,
    SIGNATURE_HEADER,
    sign,
    signed_bytes,
)


class Credentials(msgspec.Struct, frozen=True):
    """What enrolment gave this device. It survives restarts; a new one is a new device."""

    device: bytes
    task: bytes
    private_key: bytes
    certificate: bytes = b""  # as the authority signed it
    authority: bytes = b""  # whose certificates this device takes
    renew_at: float = math.inf  # by this device's clock

    def __repr__(self) -> str:
        return "Credentials(...)"


class Signer:
    """Signs requests. `next_nonce` gives a number that is larger than every one before."""

    def __init__(self, credentials: Credentials, next_nonce: Callable[[], int]) -> None:
        self.device = credentials.device
        self._key = private_from_bytes(credentials.private_key)
        self._next_nonce = next_nonce
        self._check: Callable[[], None] = lambda: None

    def only_while(self, check: Callable[[], None]) -> Signer:
        """This signer, but `check` runs before each signature, and may raise."""
        guarded = copy(self)
        guarded._check = check
        return guarded

    def headers(self, method: str, path: str, body: bytes) -> dict[str, str]:
        """The headers that prove this request; each call uses up one nonce."""
        self._check()
        nonce = self._next_nonce()
        signature = sign(self._key, signed_bytes(method, path, body, self.device, nonce))
        return {
            DEVICE_HEADER: self.device.hex(),
            NONCE_HEADER: str(nonce),
            SIGNATURE_HEADER: base64.b64encode(signature).decode("ascii"),
        }
