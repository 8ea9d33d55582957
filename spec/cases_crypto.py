"""Vectors of sealing and signing: opened and verified, never made twice."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from fedrap_core.wire.keys import private_from_bytes, public_point
from fedrap_core.wire.messages import Offer, Update
from fedrap_core.wire.seal import open_update, seal_context, seal_id, seal_update
from fedrap_core.wire.signing import MAX_NONCE, sign, signed_bytes, verify
from spec.vector_format import Case, File, error_name

_PRIVATE = private_from_bytes(hashlib.sha256(b"fedrap vectors: a private key").digest())
_OTHER = private_from_bytes(hashlib.sha256(b"fedrap vectors: another private key").digest())
_SCALAR = _PRIVATE.private_numbers().private_value.to_bytes(32, "big")
_POINT = public_point(_PRIVATE.public_key())
_DEVICE = bytes(range(16))
_PLAN = b"the bytes of a plan"


def _kept(previous: File | None, comment: str, field: str) -> bytes | None:
    """The random bytes that the stored case with this comment has."""
    for case in (previous or {"cases": []})["cases"]:
        if case["comment"] == comment:
            return bytes.fromhex(case[field])
    return None


def seals(previous: File | None) -> File:
    """seal.json, with the ciphertexts of `previous` where it has them."""
    offer = Offer(
        task=b"T" * 16, round=b"R" * 16, step=7, plan=_PLAN, release=3,
        model=hashlib.sha256(b"a model").digest(), seal_key=_POINT,
        seal_id=seal_id(_PRIVATE.public_key()),
    )  # fmt: skip
    cases, updates = [], []
    for comment, plaintext in (
        ("a short plaintext", b"a share"),
        ("an empty plaintext", b""),
        ("one bucket of 512 bytes", bytes(range(256)) * 2),
    ):
        update = seal_update(offer, _DEVICE, plaintext)
        kept = _kept(previous, comment, "sealed")
        if kept is not None:
            update = msgspec.structs.replace(update, sealed=kept)
        if open_update(update, _PRIVATE) != plaintext:
            raise AssertionError(f"{comment}: the stored ciphertext holds something else")
        updates.append(update)
        cases.append(_seal_case(comment, update, {"plaintext": plaintext.hex()}))
    cases.extend(_broken_seals(updates[0]))
    about = (
        "HPKE (RFC 9180) base mode, DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, no aad. "
        "sealed = encapsulated point (65) | ciphertext | tag (16). Open with private_key and "
        "info, which is made from the fields before it. Sealing is random, so it is not here."
    )
    return {"about": about, "cases": cases}


def _broken_seals(good: Update) -> list[Case]:
    flipped = good.sealed[:70] + bytes([good.sealed[70] ^ 1]) + good.sealed[71:]
    changed: list[tuple[str, dict[str, Any]]] = [
        ("another task", {"task": b"t" * 16}),
        ("another round", {"round": b"r" * 16}),
        ("another step", {"step": 8}),
        ("another model", {"model": bytes(32)}),
        ("another plan", {"plan": bytes(32)}),
        ("another device", {"device": bytes(16)}),
        ("another name of the key", {"seal_id": bytes(8)}),
        ("one bit of the ciphertext flipped", {"sealed": flipped}),
        ("the last byte of the tag missing", {"sealed": good.sealed[:-1]}),
        ("an encapsulated point that is not on the curve", {"sealed": b"\4" * len(good.sealed)}),
        ("nothing at all", {"sealed": b""}),
    ]
    cases = []
    for comment, fields in changed:
        update = msgspec.structs.replace(good, **fields)
        error = error_name(partial(open_update, update, _PRIVATE))
        cases.append(_seal_case(comment, update, {"error": error}))
    error = error_name(partial(open_update, good, _OTHER))
    other = _seal_case("sealed to another key", good, {"error": error})
    other["private_key"] = _OTHER.private_numbers().private_value.to_bytes(32, "big").hex()
    return [*cases, other]


def _seal_case(comment: str, update: Update, outcome: Case) -> Case:
    info = seal_context(
        update.task, update.round, update.step, update.model, update.plan, update.device,
        update.seal_id,
    )  # fmt: skip
    return {
        "comment": comment,
        "valid": "error" not in outcome,
        "private_key": _SCALAR.hex(),
        "task": update.task.hex(),
        "round": update.round.hex(),
        "step": update.step,
        "model": update.model.hex(),
        "plan": update.plan.hex(),
        "device": update.device.hex(),
        "seal_id": update.seal_id.hex(),
        "info": info.hex(),
        "sealed": update.sealed.hex(),
        **outcome,
    }


def signatures(previous: File | None) -> File:
    """signing.json, with the signatures of `previous` where it has them."""
    body = b'{"any": "bytes"}'
    good = [
        ("an update", ("POST", "/v1/updates", body, _DEVICE, 1)),
        ("no body", ("GET", "/v1/releases/latest", b"", _DEVICE, 0)),
        (
            "a path with a query and a letter beyond ASCII",
            ("GET", "/v1/é?a=1&b=2", b"", _DEVICE, 2),
        ),
        ("the largest nonce", ("POST", "/v1/offers", b"\0", b"\xff" * 16, MAX_NONCE)),
    ]
    cases = []
    for comment, request in good:
        signature = _kept(previous, comment, "signature") or sign(_PRIVATE, signed_bytes(*request))
        verify(_PRIVATE.public_key(), signed_bytes(*request), signature)
        cases.append(_signing_case(comment, request, signature, None))
    cases.extend(_broken_signatures(good[0][1], bytes.fromhex(cases[0]["signature"])))
    about = (
        "ECDSA on P-256 with SHA-256 over `message`, which is made of the fields before it, one "
        "line each. signature = r | s, 32 bytes big-endian each. public_key is an uncompressed "
        "point; private_key is there so that another implementation can sign as well."
    )
    return {"about": about, "cases": cases}


def _broken_signatures(request: tuple[str, str, bytes, bytes, int], signature: bytes) -> list[Case]:
    method, path, body, device, nonce = request
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    changed = [
        ("another method", ("PUT", path, body, device, nonce), signature),
        ("another path", (method, path + "/", body, device, nonce), signature),
        ("another body", (method, path, body + b" ", device, nonce), signature),
        ("another device", (method, path, body, bytes(16), nonce), signature),
        ("another nonce", (method, path, body, device, nonce + 1), signature),
        ("a DER signature", request, encode_dss_signature(r, s)),
        ("s before r", request, signature[32:] + signature[:32]),
        ("r and s zero", request, bytes(64)),
        ("one byte short", request, signature[:-1]),
        ("s with a zero before it", request, signature[:32] + b"\0" + signature[32:]),
        ("empty", request, b""),
    ]
    cases = []
    for comment, asked, given in changed:
        key, message = _PRIVATE.public_key(), signed_bytes(*asked)
        error = error_name(partial(verify, key, message, given))
        cases.append(_signing_case(comment, asked, given, error))
    return cases


def _signing_case(
    comment: str,
    request: tuple[str, str, bytes, bytes, int],
    signature: bytes,
    error: str | None,
) -> Case:
    method, path, body, device, nonce = request
    case: Case = {
        "comment": comment,
        "valid": error is None,
        "private_key": _SCALAR.hex(),
        "public_key": _POINT.hex(),
        "method": method,
        "path": path,
        "body": body.hex(),
        "device": device.hex(),
        "nonce": nonce,
        "message": signed_bytes(*request).hex(),
        "signature": signature.hex(),
    }
    return case if error is None else {**case, "error": error}
