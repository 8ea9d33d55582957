"""Vectors of messages: their bytes, and bytes that are refused. All bit-exact."""

from __future__ import annotations

import hashlib
import struct

import msgpack
import msgspec

from fedrap_core.plan import Adapt, PaperMethod, PaperScoring, Plan, Privacy, Scoring, SolveMethod
from fedrap_core.wire import messages
from fedrap_core.wire.codec import (
    MAX_DEPTH,
    MAX_VALUES,
    decode,
    decode_value,
    encode,
    encode_value,
)
from fedrap_core.wire.messages import Message
from spec.vector_format import Case, File, builtins, error_name

_ID, _DIGEST = bytes(range(16)), hashlib.sha256(b"a digest").digest()
_POINT = b"\4" + bytes(range(64))
_BANDED = Privacy(
    noise=2.0, row_clip=0.5, coefficients=(1.0, 0.75, 0.5), separation=3, adapt=Adapt(noise=4.0)
)
_PLAN = Plan(method=SolveMethod(dim=8, ridge=2.5), privacy=Privacy(clip=3.0, noise=1.04, cap=3))
_MESSAGES: list[Message] = [
    messages.Enrol(token="a one-time token, é", public_key=_POINT),
    messages.Enrolled(
        device=_ID, task=_ID[::-1], certificate=bytes(64) + b"signed", authority=_POINT
    ),
    messages.OfferRequest(release=0),
    messages.OfferRequest(release=2**31),
    messages.Offer(
        task=_ID, round=_ID[::-1], step=300, plan=encode_value(_PLAN), release=299, model=_DIGEST,
        seal_key=_POINT, seal_id=bytes(8),
    ),
    messages.Update(
        task=_ID, round=_ID[::-1], step=70_000, model=_DIGEST, plan=_DIGEST[::-1], device=_ID,
        seal_id=bytes(range(8)), sealed=bytes(range(256)) * 2,
    ),
    messages.Share(
        rows=struct.pack("<II", 3, 70_000), scales=struct.pack("<ff", 0.5, 0.25),
        values=b"\x01\xff\x7f\x81", triangle_scales=struct.pack("<ff", 1.0, 0.0),
        triangle=b"\x7f\x00\x00\x00",
    ),
    messages.Accepted(round=_ID, digest=_DIGEST),
    messages.Question(
        task=_ID, question=_ID[::-1], metric="ndcg10", releases=[7, 9], light=20, noise=11.5,
        delta=1e-5, least=100, most=100_000, budget=10, asked_at=1.8e9, ends_at=1.8006048e9,
        seal_key=_POINT, seal_id=_ID[:8],
    ),
    messages.Question(
        task=_ID, question=_ID, metric="mrr", releases=[7], variants=[Scoring(), Scoring(tau=4.0)],
        noise=2.0, delta=1e-5, least=20, most=1000, budget=3, asked_at=0.0, ends_at=60.0,
        seal_key=_POINT, seal_id=_ID[:8],
    ),
    messages.Questions(questions=[messages.Signed(body=b"a question", signature=bytes(64))]),
    messages.Answer(task=_ID, question=_ID, device=_ID, seal_id=_ID[:8], sealed=b"sealed"),
    messages.Signed(body=b"an offer or a receipt", signature=bytes(range(64))),
    messages.ReleaseEntry(
        task=_ID, version=4, step=9, size=2, dim=3, catalogue=5, scoring=Scoring(tau=2.0),
        clip=1.5, model=_DIGEST, withheld=_DIGEST, before=bytes(32),
    ),
    messages.Log(entries=[bytes(64) + b"one", bytes(64) + b"two"], head=bytes(64) + b"two"),
    messages.Log(entries=[]),
    messages.Release(
        task=_ID, version=4, step=9, size=2, dim=3, catalogue=5,
        scoring=Scoring(tau=2.0, recent=50), model=_DIGEST,
        scales=struct.pack("<ff", 0.5, 0.25), bitmap=b"\x3d", values=b"\x01\x03\xfd\xfe\xff",
    ),
    messages.Release(
        task=_ID, version=1, step=0, size=0, dim=3, catalogue=0, scoring=PaperScoring(seed=7),
        model=_DIGEST, scales=b"", bitmap=b"", values=b"",
    ),
    messages.Delta(
        task=_ID, since=3, version=4, step=9, size=2, dim=3, catalogue=5, scoring=Scoring(),
        model=_DIGEST, rows=struct.pack("<I", 1), scales=struct.pack("<f", 0.25),
        bitmap=b"\x07", values=b"\xfd\xfe\xff",
    ),
    messages.Catalogue(
        version=4, start=2, count=2, items="film:3\nünïcode\n".encode(),
        retired=struct.pack("<II", 0, 70_000),
    ),
    messages.Catalogue(version=0, start=0, count=0, items=b"", retired=b""),
    messages.Attributes(entry=bytes(64) + b"signed", pages=_DIGEST + _DIGEST[::-1]),
    messages.AttributesEntry(
        task=_ID, release=4, version=7, count=1500, rows=1024, size_bytes=70_000,
        names=["title", "catégorie"], pages=_DIGEST,
    ),
    messages.AttributePage(columns=["Ein Hügel\n\n".encode(), b"drama\nfilm\n"]),
    messages.AttributePage(columns=[]),
    messages.Forget(),
    messages.Forgotten(),
    messages.Enrol(
        token="signed.by.a-backend", public_key=_POINT, attestation_kind="play-integrity",
        attestation=bytes(range(32)),
    ),
    messages.Certificate(
        task=_ID, device=_ID[::-1], public_key=_POINT, level="none", issued_at=1.7e9,
        expires_at=1.7e9 + 30 * 86400,
    ),
    messages.Renew(),
    messages.Renew(nonce=2**63 - 1, attestation_kind="app-attest", attestation=b"blob"),
    messages.Renewed(certificate=bytes(64) + b"signed"),
]  # fmt: skip


def codec() -> File:
    """codec.json: every message, and what is refused."""
    cases: list[Case] = []
    for message in _MESSAGES:
        raw = encode(message)
        kind = str(message.__struct_config__.tag)
        cases.append(_codec_case(f"{kind}, {len(raw)} bytes", kind, raw, message, "both"))
    for name, value in (
        ("plan", _PLAN),
        ("plan", Plan()),
        ("plan", Plan(privacy=_BANDED)),
        ("plan", Plan(method=PaperMethod(penalty="l2"))),
        ("scoring", Scoring()),
    ):
        raw = encode_value(value)
        cases.append(_codec_case(f"{name}, a value inside a message", name, raw, value, "both"))
    request = {"v": 1, "type": "offer-request", "release": 3}
    reordered = {"release": 3, "type": "offer-request", "v": 1}
    for comment, fields in (
        ("an unknown field is ignored", {**request, "colour": [1, {"a": None}]}),
        ("as deep as it may be", {**request, "x": _nested(MAX_DEPTH - 1)}),
        ("as many values as there may be", {**request, "x": [1] * _ROOM}),
        ("fields in another order", reordered),
    ):
        raw = msgpack.packb(fields)
        read = decode(messages.OfferRequest, raw)
        cases.append(_codec_case(comment, "offer-request", raw, read, "decode"))
    raw = msgpack.packb({"alpha": 5, "w0": 1})
    read_value = decode_value(Scoring, raw)
    comment = "an integer where a float is expected, and defaults for what is missing"
    cases.append(_codec_case(comment, "scoring", raw, read_value, "decode"))
    about = (
        "Messages as msgpack. direction both: encode(fields) = bytes and decode(bytes) = fields; "
        'decode: only the latter. {"hex": ...} is a byte string. plan and scoring are values '
        "without v and type. Refused cases name the error; max_bytes is the limit to decode with."
    )
    return {"about": about, "cases": cases + _refused_messages(request)}


def _codec_case(
    comment: str, kind: str, raw: bytes, message: msgspec.Struct, direction: str
) -> Case:
    fields = {name: value for name, value in builtins(message).items() if name != "type"}
    return {
        "comment": comment,
        "valid": True,
        "type": kind,
        "direction": direction,
        "fields": fields,
        "bytes": raw.hex(),
    }


_ROOM = MAX_VALUES - 9  # beside the map of a request, its three fields, and the one that is full


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def _refused_messages(request: Case) -> list[Case]:
    raw = msgpack.packb(request)
    enrolled = {"v": 1, "type": "enrolled", "device": _ID, "task": _ID}
    bad: list[tuple[str, str, bytes]] = [
        ("no bytes", "offer-request", b""),
        ("a byte that msgpack never uses", "offer-request", b"\xc1"),
        ("an array", "offer-request", msgpack.packb([request])),
        ("cut short", "offer-request", raw[:-1]),
        ("a byte too many", "offer-request", raw + b"\0"),
        ("version 2", "offer-request", msgpack.packb({**request, "v": 2})),
        ("version true", "offer-request", msgpack.packb({**request, "v": True})),
        ("no version", "offer-request", msgpack.packb({"type": "offer-request", "release": 3})),
        ("another type", "offer-request", msgpack.packb({**request, "type": "offer"})),
        ("a field missing", "offer-request", msgpack.packb({"v": 1, "type": "offer-request"})),
        ("a negative number", "offer-request", msgpack.packb({**request, "release": -1})),
        ("a number too large", "offer-request", msgpack.packb({**request, "release": 2**31 + 1})),
        ("a float for an integer", "offer-request", msgpack.packb({**request, "release": 3.0})),
        (
            "a base64 string for bytes",
            "enrolled",
            msgpack.packb({**enrolled, "task": "A" * 22 + "=="}),
        ),
        ("15 bytes of 16", "enrolled", msgpack.packb({**enrolled, "task": _ID[:15]})),
        ("not a number", "offer-request", msgpack.packb({**request, "wait": float("nan")})),
        ("infinite", "offer-request", msgpack.packb({**request, "wait": float("inf")})),
        ("not UTF-8", "catalogue", encode(_MESSAGES[9]).replace(b"film", b"fil\xff")),
        ("not a number", "scoring", msgpack.packb({"tau": float("nan")})),
        ("out of range", "scoring", msgpack.packb({"tau": 0.0})),
        ("an unknown scalar", "scoring", msgpack.packb({"colour": 1.0})),
        ("an unknown method", "plan", msgpack.packb({"method": {"name": "guess"}})),
    ]
    beyond = [
        (
            "an extension",
            "offer-request",
            msgpack.packb({**request, "x": msgpack.ExtType(5, b"a")}),
        ),
        (
            "a time as an extension",
            "offer-request",
            msgpack.packb({**request, "x": msgpack.Timestamp(1)}),
        ),
        ("a second value behind the first", "offer-request", raw + raw),
        ("too deep", "offer-request", msgpack.packb({**request, "x": _nested(MAX_DEPTH)})),
        ("too many values", "offer-request", msgpack.packb({**request, "x": [1] * (_ROOM + 1)})),
        ("an array that is not there", "offer-request", b"\xdd\xff\xff\xff\xff"),
    ]
    cases = [_refused_case(comment, kind, given, 1024) for comment, kind, given in bad]
    cases += [_refused_case(comment, kind, given, 4096) for comment, kind, given in beyond]
    return [*cases, _refused_case("more bytes than allowed", "offer-request", raw, 10)]


def _refused_case(comment: str, kind: str, raw: bytes, max_bytes: int) -> Case:
    values: dict[str, type[msgspec.Struct]] = {"plan": Plan, "scoring": Scoring}
    if kind in values:
        error = error_name(lambda: decode_value(values[kind], raw, max_bytes))
    else:
        (known,) = {type(m) for m in _MESSAGES if m.__struct_config__.tag == kind}
        error = error_name(lambda: decode(known, raw, max_bytes))
    return {
        "comment": comment,
        "valid": False,
        "type": kind,
        "max_bytes": max_bytes,
        "bytes": raw.hex(),
        "error": error,
    }
