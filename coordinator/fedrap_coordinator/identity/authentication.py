"""Signed requests of devices: what a request says of its sender, and whether that is true."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_coordinator.errors import Refusal
from fedrap_core.wire import problems
from fedrap_core.wire.signing import (
    DEVICE_HEADER,
    MAX_NONCE,
    NONCE_HEADER,
    SIGNATURE_BYTES,
    SIGNATURE_HEADER,
    signed_lines,
    verify,
)


@dataclass(frozen=True)
class SignedRequest:
    """A request as it came, and what it says of its sender; nothing is proven yet."""

    device: bytes
    nonce: int
    signature: bytes
    method: str
    path: str
    body: bytes

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the body: part of what was signed, and of the receipt."""
        return hashlib.sha256(self.body).digest()


def read_headers(headers: Mapping[str, str]) -> tuple[bytes, int, bytes]:
    """Device, nonce and signature, as the headers have them.

    Raises:
        Refusal: one is missing or makes no sense.
    """
    device = read_hex(headers.get(DEVICE_HEADER, ""), 16)
    nonce = read_number(headers.get(NONCE_HEADER, ""))
    try:
        signature = base64.b64decode(headers.get(SIGNATURE_HEADER, ""), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refusal(problems.BAD_SIGNATURE, f"{SIGNATURE_HEADER} is not base64") from error
    if len(signature) != SIGNATURE_BYTES:
        raise Refusal(problems.BAD_SIGNATURE, f"a signature has {SIGNATURE_BYTES} bytes")
    return device, nonce, signature


def verify_request(key: ec.EllipticCurvePublicKey, signed: SignedRequest) -> None:
    """Returns when the owner of this key signed the request; raises SignatureInvalid."""
    message = signed_lines(signed.method, signed.path, signed.digest, signed.device, signed.nonce)
    verify(key, message, signed.signature)


def read_hex(text: str, size: int) -> bytes:
    """`size` bytes as hex; raises Refusal when it is none."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != size:
        raise Refusal(problems.MALFORMED)
    return raw


def read_number(text: str) -> int:
    """A whole number that a nonce can be; raises Refusal when it is none."""
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > MAX_NONCE:
        raise Refusal(problems.MALFORMED)
    return int(text)
