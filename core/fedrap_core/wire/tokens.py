"""Enrolment tokens that an app's backend signs by itself: JWTs with ES256 (RFC 7519, 7518).

    header  {"alg": "ES256"}
    claims  iss  the backend's name at the coordinator    aud  the task's audience
            exp  seconds since 1970                       jti  one-time id
            acc  optional: pseudonymous hash of the account

Any JWT library makes such tokens; `fedrap.backend` does it for Python. The time comes in by
argument.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_core.errors import SignatureInvalid, TokenInvalid
from fedrap_core.wire.signing import sign, verify

MAX_CHARACTERS = 2000
LONGEST_SECONDS = 7 * 86400.0  # a token that is good for longer is not one-time in spirit


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a backend says of a device that may enrol."""

    iss: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    aud: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    exp: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    jti: Annotated[str, msgspec.Meta(min_length=16, max_length=100)]
    acc: Annotated[str, msgspec.Meta(min_length=16, max_length=100)] | None = None
    nbf: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 0.0


class _Header(msgspec.Struct, frozen=True):
    alg: str
    crit: Any = None  # extensions that must be understood; there are none here


def is_signed_token(token: str) -> bool:
    """One-time tokens of the coordinator itself have no dots."""
    return token.count(".") == 2


def sign_token(issuer: ec.EllipticCurvePrivateKey, claims: Claims) -> str:
    """The token as text for a URL or a header."""
    head = _text(b'{"alg":"ES256","typ":"JWT"}')
    signed = f"{head}.{_text(msgspec.json.encode(claims))}"
    return f"{signed}.{_text(sign(issuer, signed.encode('ascii')))}"


def read_token(
    token: str, issuers: Mapping[str, ec.EllipticCurvePublicKey], audience: str, now: float
) -> Claims:
    """The claims of a token that is good now.

    Raises:
        TokenInvalid: it is not; nothing of it may be believed.
    """
    if len(token) > MAX_CHARACTERS or not is_signed_token(token):
        raise TokenInvalid("not a signed token")
    head, body, signature = token.split(".")
    try:
        header = msgspec.json.decode(_bytes(head), type=_Header)
        claims = msgspec.json.decode(_bytes(body), type=Claims)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TokenInvalid("its header or claims are not those of an enrolment token") from error
    if header.alg != "ES256" or header.crit is not None:
        raise TokenInvalid("only ES256 is taken")  # also: never "none"
    key = issuers.get(claims.iss)
    if key is None:
        raise TokenInvalid("its issuer is not registered here")
    try:
        verify(key, f"{head}.{body}".encode("ascii"), _bytes(signature))
    except SignatureInvalid as error:
        raise TokenInvalid("its signature does not fit") from error
    if claims.aud != audience:
        raise TokenInvalid("it is meant for another audience")
    if not claims.nbf <= now < claims.exp:
        raise TokenInvalid("it has expired, or is not good yet")
    if claims.exp > now + LONGEST_SECONDS:
        raise TokenInvalid("it is good for more than a week; make shorter ones")
    return claims


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes:
    try:
        if not text.isascii() or "=" in text:
            raise ValueError("padding")
        padded = text + "=" * (-len(text) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise TokenInvalid("not base64url") from error
