"""P-256 keys as bytes: uncompressed points for public keys, 32-byte scalars for private ones."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedrap_core.errors import MalformedMessage

_CURVE = ec.SECP256R1()


def new_private_key() -> ec.EllipticCurvePrivateKey:
    """A fresh P-256 key."""
    return ec.generate_private_key(_CURVE)


def private_to_bytes(private: ec.EllipticCurvePrivateKey) -> bytes:
    """The secret scalar, 32 bytes big-endian."""
    return private.private_numbers().private_value.to_bytes(32, "big")


def private_from_bytes(raw: bytes) -> ec.EllipticCurvePrivateKey:
    """The key of a secret scalar.

    Raises:
        MalformedMessage: not 32 bytes, or not a scalar of the curve.
    """
    try:
        if len(raw) != 32:
            raise ValueError(f"{len(raw)} bytes")
        return ec.derive_private_key(int.from_bytes(raw, "big"), _CURVE)
    except ValueError as error:
        raise MalformedMessage("not a P-256 private key of 32 bytes") from error


def public_point(public: ec.EllipticCurvePublicKey) -> bytes:
    """The public key as an uncompressed point, 65 bytes."""
    return public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def public_from_point(raw: bytes) -> ec.EllipticCurvePublicKey:
    """The public key of an uncompressed point.

    Raises:
        MalformedMessage: the bytes are not a point of the curve.
    """
    try:
        if len(raw) != 65:
            raise ValueError(f"{len(raw)} bytes")
        return ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, raw)
    except ValueError as error:
        raise MalformedMessage("not an uncompressed P-256 point") from error
