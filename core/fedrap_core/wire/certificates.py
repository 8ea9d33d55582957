"""Certificates of devices: the enrolment authority signs whose key it is, and until when.

64 bytes of signature (r, s) · the bytes of a `certificate` message, as signed
"""

from __future__ import annotations

import hashlib
import struct

from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_core.errors import SignatureInvalid
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Certificate
from fedrap_core.wire.signing import SIGNATURE_BYTES, sign, verify

_MAX_BYTES = 1024
_PREFIX = b"fedrap/1 certificate\n"


def sign_certificate(authority: ec.EllipticCurvePrivateKey, certificate: Certificate) -> bytes:
    """The certificate with the authority's signature before it."""
    raw = encode(certificate)
    return sign(authority, _PREFIX + raw) + raw


def read_certificate(authority: ec.EllipticCurvePublicKey, signed: bytes) -> Certificate:
    """What the authority certified. Whether it is still good is for the caller to say.

    Raises:
        SignatureInvalid: not signed by this authority.
        MalformedMessage, UnsupportedVersion, TooLarge: not a certificate.
    """
    raw = signed[SIGNATURE_BYTES:]
    if not raw:
        raise SignatureInvalid("not a signed certificate")
    verify(authority, _PREFIX + raw, signed[:SIGNATURE_BYTES])
    return decode(Certificate, raw, _MAX_BYTES)


def enrol_challenge(public_key: bytes, token: str) -> bytes:
    """What an attestation at enrolment must be made for: this key and this token."""
    return hashlib.sha256(
        b"fedrap/1 attest enrol" + public_key + hashlib.sha256(token.encode("utf-8")).digest()
    ).digest()


def renew_challenge(public_key: bytes, nonce: int) -> bytes:
    """At renewal: this key and a nonce that was never used, so that no proof serves twice."""
    return hashlib.sha256(b"fedrap/1 attest renew" + public_key + struct.pack(">Q", nonce)).digest()
