"""Vectors of certificates and signed enrolment tokens: verified, never made twice."""

from __future__ import annotations

import hashlib
from functools import partial

from fedrap_core.wire.certificates import (
    enrol_challenge,
    read_certificate,
    renew_challenge,
    sign_certificate,
)
from fedrap_core.wire.keys import private_from_bytes, public_from_point, public_point
from fedrap_core.wire.messages import Certificate
from fedrap_core.wire.tokens import Claims, read_token, sign_token
from spec.vector_format import Case, File, builtins, error_name

_AUTHORITY = private_from_bytes(hashlib.sha256(b"fedrap vectors: an authority").digest())
_DEVICE = public_point(
    private_from_bytes(hashlib.sha256(b"fedrap vectors: a device").digest()).public_key()
)
_POINT = public_point(_AUTHORITY.public_key())
_NOW = 1_700_000_000.0
_NONCE = 1_700_000_000_000_001
GOOD = 2  # tokens, the others are refused
_CERTIFICATE = Certificate(
    task=b"T" * 16, device=bytes(range(16)), public_key=_DEVICE, level="none", issued_at=_NOW,
    expires_at=_NOW + 30 * 86400,
)  # fmt: skip
_CLAIMS = Claims(iss="shop", aud="fedrap", exp=_NOW + 600, jti="0123456789abcdef", acc="a" * 64)


def certificates(previous: File | None) -> File:
    """certificate.json, with the signature of `previous` where it has one."""
    stored = (previous or {"cases": []})["cases"]
    signed = bytes.fromhex(stored[0]["signed"]) if stored else None
    signed = signed or sign_certificate(_AUTHORITY, _CERTIFICATE)
    changed = [
        ("a certificate", signed),
        ("a byte of the certificate changed", signed[:-1] + bytes([signed[-1] ^ 1])),
        ("a byte of the signature changed", bytes([signed[0] ^ 1]) + signed[1:]),
        ("the signature alone", signed[:64]),
        ("the certificate alone", signed[64:]),
        ("empty", b""),
    ]
    cases: list[Case] = []
    for comment, raw in changed:
        key = public_from_point(_POINT)
        error = error_name(partial(read_certificate, key, raw)) if cases else None
        case: Case = {
            "comment": comment, "valid": error is None, "authority": _POINT.hex(),
            "signed": raw.hex(),
        }  # fmt: skip
        if error is None:
            read = read_certificate(key, raw)
            fields = {name: value for name, value in builtins(read).items() if name != "type"}
            case["fields"] = fields
            case["token"] = "one-time token"
            case["enrol_challenge"] = enrol_challenge(_DEVICE, "one-time token").hex()
            case["renew_challenge"] = renew_challenge(_DEVICE, _NONCE).hex()
            case["nonce"] = _NONCE
        else:
            case["error"] = error
        cases.append(case)
    about = (
        "signed = r | s | the bytes of a certificate message; the signature is over `fedrap/1 "
        "certificate`, a newline and those bytes. The challenges are those of clause 3.7 for the "
        "certificate's key, with the token and with the nonce."
    )
    return {"about": about, "cases": cases}


def tokens(previous: File | None) -> File:
    """token.json, with the signature of `previous` where it has one."""
    stored = (previous or {"cases": []})["cases"]
    good = str(stored[0]["token"]) if stored else sign_token(_AUTHORITY, _CLAIMS)
    head, body, signature = good.split(".")
    none = "eyJhbGciOiJub25lIn0"  # {"alg":"none"}
    asked: list[tuple[str, str, str, float]] = [
        ("a token", good, "fedrap", _NOW),
        ("a second before its end", good, "fedrap", _NOW + 599),
        ("at its end", good, "fedrap", _NOW + 600),
        ("good for more than a week", good, "fedrap", _NOW - 8 * 86400),
        ("another audience", good, "other", _NOW),
        ("no algorithm", f"{none}.{body}.", "fedrap", _NOW),
        ("no algorithm, with the signature", f"{none}.{body}.{signature}", "fedrap", _NOW),
        ("another header", f"{head[:-1]}.{body}.{signature}", "fedrap", _NOW),
        ("claims changed", f"{head}.{body[:-4]}AAAA.{signature}", "fedrap", _NOW),
        ("no signature", f"{head}.{body}.", "fedrap", _NOW),
        ("with padding", f"{head}.{body}.{signature}=", "fedrap", _NOW),
        ("two parts", f"{head}.{body}", "fedrap", _NOW),
    ]
    cases: list[Case] = []
    for comment, token, audience, now in asked:
        known = {"shop": _AUTHORITY.public_key()}
        call = partial(read_token, token, known, audience, now)
        error = None if len(cases) < GOOD else error_name(call)
        case: Case = {
            "comment": comment, "valid": error is None, "issuer": "shop",
            "public_key": _POINT.hex(), "token": token, "audience": audience, "now": now,
        }  # fmt: skip
        if error is None:
            case["claims"] = builtins(call())
        else:
            case["error"] = error
        cases.append(case)
    about = "Signed enrolment tokens (JWT, ES256), judged at `now` for `audience`."
    return {"about": about, "cases": cases}
