"""Signed enrolment tokens: what is believed, and everything that is not."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import TokenInvalid
from fedrap_core.wire.keys import new_private_key
from fedrap_core.wire.tokens import Claims, is_signed_token, read_token, sign_token

KEY, OTHER = new_private_key(), new_private_key()
ISSUERS = {"shop": KEY.public_key(), "other": OTHER.public_key()}
NOW = 1_700_000_000.0
CLAIMS = Claims(iss="shop", aud="fedrap", exp=NOW + 600, jti="j" * 20, acc="a" * 64)


def read(token: str, now: float = NOW, audience: str = "fedrap") -> Claims:
    return read_token(token, ISSUERS, audience, now)


def made(**changes: Any) -> dict[str, Any]:
    """Claims as another house would write them."""
    return {"iss": "shop", "aud": "fedrap", "exp": NOW + 600, "jti": "j" * 20, **changes}


@pytest.mark.spec("3.3")
def test_what_a_backend_signs_is_what_is_read() -> None:
    token = sign_token(KEY, CLAIMS)
    assert is_signed_token(token)
    assert read(token) == CLAIMS


@pytest.mark.spec("3.3")
def test_tokens_of_any_jwt_library_are_read_and_ours_by_it() -> None:
    theirs = jwt.encode(made(iat=int(NOW), acc="b" * 32), KEY, algorithm="ES256")
    assert read(theirs) == Claims(**made(acc="b" * 32))
    ours = sign_token(KEY, CLAIMS)
    options: Any = {"verify_exp": False}
    claims = jwt.decode(ours, KEY.public_key(), ["ES256"], options, audience="fedrap")
    assert (claims["jti"], claims["acc"]) == (CLAIMS.jti, CLAIMS.acc)


@pytest.mark.spec("3.3")
@pytest.mark.parametrize(
    ("now", "good"),
    [(NOW, True), (NOW + 599.9, True), (NOW + 600, False), (NOW - 8 * 86400, False)],
)
def test_a_token_is_good_until_its_end_and_not_for_more_than_a_week(now: float, good: bool) -> None:
    token = sign_token(KEY, CLAIMS)
    if good:
        read(token, now)
    else:
        with pytest.raises(TokenInvalid, match=r"expired|week"):
            read(token, now)


def with_header(header: dict[str, Any], signature: str | None = None) -> str:
    _, body, old = sign_token(KEY, CLAIMS).split(".")
    head = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
    return f"{head}.{body}.{old if signature is None else signature}"


@pytest.mark.spec("3.3")
@pytest.mark.parametrize(
    "token",
    [
        with_header({"alg": "none"}, ""),
        with_header({"alg": "none"}),
        with_header({"alg": "HS256"}),
        with_header({"alg": "es256"}),
        with_header({"alg": "ES256", "crit": ["exp"]}),
        with_header({"typ": "JWT"}),
        with_header({"alg": "ES256", "typ": "JWT "}),  # good, but not what was signed
        sign_token(OTHER, CLAIMS),  # signed by another issuer
        jwt.encode(made(iss="nobody"), KEY, algorithm="ES256"),
        jwt.encode(made(aud="another task"), KEY, algorithm="ES256"),
        jwt.encode(made(aud=["fedrap"]), KEY, algorithm="ES256"),
        jwt.encode(made(jti="short"), KEY, algorithm="ES256"),
        jwt.encode(made(nbf=NOW + 1), KEY, algorithm="ES256"),
        jwt.encode({"iss": "shop", "aud": "fedrap", "jti": "j" * 20}, KEY, algorithm="ES256"),
        jwt.encode(made(), "a secret of thirty-two characters", algorithm="HS256"),
        jwt.encode(made(acc="x" * 3000), KEY, algorithm="ES256"),
        "a.b.c",
        "..",
        "",
        "é.é.é",
    ],
)
def test_nothing_else_is_believed(token: str) -> None:
    with pytest.raises(TokenInvalid):
        read(token)


@pytest.mark.spec("3.3")
@given(st.data())
def test_no_change_of_a_token_passes(data: st.DataObject) -> None:
    token = sign_token(KEY, CLAIMS)
    place = data.draw(st.integers(0, len(token) - 2))  # the last character has spare bits
    letter = data.draw(st.sampled_from("AQgwz-_.0=é"))
    changed = token[:place] + letter + token[place + 1 :]
    if changed != token:
        with pytest.raises(TokenInvalid):
            read(changed)


@given(st.text(max_size=60) | st.from_regex(r"[A-Za-z0-9_-]{0,40}(\.[A-Za-z0-9_-]{0,40}){2}"))
def test_whatever_the_text_only_one_error_comes(text: str) -> None:
    with pytest.raises(TokenInvalid):
        read(text)
