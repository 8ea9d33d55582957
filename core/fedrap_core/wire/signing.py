"""A device signs each request: ECDSA P-256 over method, path, body digest and a rising nonce.

The nonce is a number that a device never uses twice and only ever raises, so a captured request
cannot be sent again, and the coordinator remembers one number per device.
"""

from __future__ import annotations

import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256

from fedrap_core.errors import SignatureInvalid

SIGNATURE_BYTES = 64
MAX_NONCE = 2**63 - 1
DEVICE_HEADER = "Fedrap-Device"
NONCE_HEADER = "Fedrap-Nonce"
SIGNATURE_HEADER = "Fedrap-Signature"
_ALGORITHM = ec.ECDSA(SHA256())


def signed_bytes(method: str, path: str, body: bytes, device: bytes, nonce: int) -> bytes:
    """What is signed: one line each, so that no two requests give the same bytes."""
    return signed_lines(method, path, hashlib.sha256(body).digest(), device, nonce)


def signed_lines(method: str, path: str, digest: bytes, device: bytes, nonce: int) -> bytes:
    """`signed_bytes` of a body whose SHA-256 is at hand."""
    return b"\n".join(
        (
            b"fedrap/1 request",
            method.encode("ascii"),
            path.encode("utf-8"),
            digest.hex().encode("ascii"),
            device.hex().encode("ascii"),
            str(nonce).encode("ascii"),
        )
    )


def sign(private: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    """r and s, 32 bytes each."""
    r, s = decode_dss_signature(private.sign(message, _ALGORITHM))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def verify(public: ec.EllipticCurvePublicKey, message: bytes, signature: bytes) -> None:
    """Returns when the signature is good.

    Raises:
        SignatureInvalid: it is not.
    """
    if len(signature) != SIGNATURE_BYTES:
        raise SignatureInvalid(f"a signature has {SIGNATURE_BYTES} bytes")
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    try:
        public.verify(encode_dss_signature(r, s), message, _ALGORITHM)
    except InvalidSignature as error:
        raise SignatureInvalid("the signature does not fit the request") from error
