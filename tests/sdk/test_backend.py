"""The small function for an app's own server."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_public_key,
)

from fedrap.backend import TokenIssuer, make_issuer_key
from fedrap_core.wire.tokens import Claims, read_token

PRIVATE, PUBLIC = make_issuer_key()
NOW = 1_700_000_000.0


def claims_of(token: str) -> Claims:
    key = load_pem_public_key(PUBLIC)
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return read_token(token, {"shop": key}, "fedrap", NOW)


def issuer() -> TokenIssuer:
    return TokenIssuer("shop", PRIVATE, audience="fedrap", clock=lambda: NOW)


@pytest.mark.spec("3.3")
def test_a_token_is_good_for_ten_minutes_and_never_twice_the_same() -> None:
    one, two = claims_of(issuer().token()), claims_of(issuer().token())
    assert one.exp == NOW + 600
    assert one.acc is None
    assert one.jti != two.jti


def test_an_account_is_a_pseudonym_that_only_this_backend_can_make() -> None:
    ann = claims_of(issuer().token(account="ann@example.org")).acc
    again = claims_of(issuer().token(account="ann@example.org")).acc
    bob = claims_of(issuer().token(account="bob@example.org")).acc
    assert ann == again
    assert ann != bob
    assert ann is not None
    assert "ann" not in ann
    other = TokenIssuer("shop", make_issuer_key()[0], audience="fedrap", clock=lambda: NOW)
    assert other._pseudonym("ann@example.org") != ann


@pytest.mark.parametrize("seconds", [0.0, -1.0, 8 * 86400.0])
def test_a_token_that_would_be_refused_is_not_made(seconds: float) -> None:
    with pytest.raises(ValueError, match="at most a week"):
        issuer().token(seconds=seconds)


def test_only_a_p256_key_signs_and_none_is_in_the_repr() -> None:
    wrong = rsa.generate_private_key(65537, 2048)
    pem = wrong.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for bad in (pem, b"nonsense", PUBLIC):
        with pytest.raises(ValueError):  # noqa: PT011
            TokenIssuer("shop", bad, audience="fedrap")
    assert repr(issuer()) == "TokenIssuer('shop')"
