"""For an app's own server: enrolment tokens that it signs itself, without asking a coordinator.

    issuer = TokenIssuer("shop", key_pem, audience="fedrap")
    token = issuer.token(account=user_id)      # give it to the app, which gives it to FedRap.open

The coordinator is told once who may sign: `fedrap-coordinator issuers add shop shop-public.pem`.
Tokens are JWTs with ES256, so a backend in another language uses any JWT library; the claims are
in spec/PROTOCOL.md 3.
"""

from __future__ import annotations

import base64
import hmac
import os
import time
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from fedrap_core.wire.keys import new_private_key, private_to_bytes
from fedrap_core.wire.tokens import LONGEST_SECONDS, Claims, sign_token

__all__ = ["TokenIssuer", "make_issuer_key"]


def make_issuer_key() -> tuple[bytes, bytes]:
    """A fresh key as PEM: the private half for the backend, the public one for `issuers add`."""
    key = new_private_key()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return private, public


class TokenIssuer:
    """Signs one-time enrolment tokens. Has no repr of its key."""

    def __init__(
        self,
        name: str,
        private_pem: bytes,
        *,
        audience: str,
        clock: Callable[[], float] = time.time,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """
        Args:
            name: as registered with the coordinator.
            audience: `audience` of the coordinator's `[enrolment]`.
            clock: seconds since 1970, for the time until which a token is good.
            random_bytes: so many bytes that nobody can guess, for the name of a token.

        Raises:
            ValueError: not a P-256 private key in PEM.
        """
        key = load_pem_private_key(private_pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
            raise ValueError("an issuer signs with a P-256 key")
        self._key = key
        self._name = name
        self._audience = audience
        self._clock = clock
        self._random_bytes = random_bytes

    def __repr__(self) -> str:
        return f"TokenIssuer({self._name!r})"

    def token(self, *, account: str | None = None, seconds: float = 600.0) -> str:
        """A token that enrols one device within `seconds`.

        Args:
            account: who it is for. Only a keyed hash of it leaves this process, so that the
                coordinator can limit devices per account without learning who that is.

        Raises:
            ValueError: `seconds` is not above 0 and at most a week.
        """
        if not 0 < seconds <= LONGEST_SECONDS:
            raise ValueError("a token is good for more than 0 seconds and at most a week")
        claims = Claims(
            iss=self._name,
            aud=self._audience,
            exp=self._clock() + seconds,
            jti=base64.urlsafe_b64encode(self._random_bytes(16)).rstrip(b"=").decode(),
            acc=None if account is None else self._pseudonym(account),
        )
        return sign_token(self._key, claims)

    def _pseudonym(self, account: str) -> str:
        """Keyed with the private key: nobody else can try names until one fits."""
        secret = hmac.digest(private_to_bytes(self._key), b"fedrap account", "sha256")
        return hmac.digest(secret, account.encode("utf-8"), "sha256").hex()
