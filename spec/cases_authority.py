"""Vectors of what the task's authority signs: offers, receipts, releases and their log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np

from fedrap_core.model import CommonItems
from fedrap_core.plan import OFF, Off, PaperScoring, Plan, Scoring
from fedrap_core.quantize import quantize_rows
from fedrap_core.wire.attributes import (
    Pages,
    check_attributes,
    check_page,
    make_pages,
    page_digests,
    sign_attributes,
)
from fedrap_core.wire.authority import (
    NOTHING_BEFORE,
    check_leads,
    check_release,
    entry_digest,
    follows_at_once,
    open_signed,
    sign_message,
    sign_release,
)
from fedrap_core.wire.codec import encode, encode_value
from fedrap_core.wire.keys import private_from_bytes, public_point
from fedrap_core.wire.messages import (
    Accepted,
    AttributePage,
    Attributes,
    Delta,
    Message,
    Offer,
    Release,
    Signed,
)
from fedrap_core.wire.releases import pack_delta, pack_release
from fedrap_core.wire.seal import seal_id
from spec.vector_format import Case, File, error_name

_AUTHORITY = private_from_bytes(hashlib.sha256(b"fedrap vectors: an authority").digest())
_OTHER = private_from_bytes(hashlib.sha256(b"fedrap vectors: another authority").digest())
_POINT = public_point(_AUTHORITY.public_key())
_STRANGER = public_point(_OTHER.public_key())
_TASK = b"T" * 16
_OFFER = Offer(
    task=_TASK, round=b"R" * 16, step=7, plan=encode_value(Plan()), release=6, model=b"M" * 32,
    seal_key=_STRANGER, seal_id=seal_id(_OTHER.public_key()),
)  # fmt: skip
_RECEIPT = Accepted(round=b"R" * 16, digest=b"D" * 32)
KINDS: dict[str, type[Message]] = {"offer": Offer, "accepted": Accepted}


class _Signatures:
    """ECDSA gives others each time: those of the file before are used again."""

    def __init__(self, previous: File | None) -> None:
        self.known: dict[str, str] = dict((previous or {}).get("signatures", {}))
        self.used: dict[str, str] = {}

    def of(self, raw: bytes, fresh: bytes) -> bytes:
        name = hashlib.sha256(raw).hexdigest()[:16]
        self.used[name] = self.known.get(name, fresh.hex())
        return bytes.fromhex(self.used[name])

    def message(self, message: Message) -> Signed:
        made = sign_message(_AUTHORITY, message)
        return msgspec.structs.replace(made, signature=self.of(made.body, made.signature))

    def attributes(self, pages: Pages, release: int = 4, version: int = 7) -> Attributes:
        made = sign_attributes(_AUTHORITY, _TASK, release, version, pages)
        raw = made.entry[64:]
        return msgspec.structs.replace(made, entry=self.of(raw, made.entry[:64]) + raw)

    def release(self, release: Release, before: bytes, staged: bytes | Off = OFF) -> Release:
        made = sign_release(_AUTHORITY, release, before, staged)
        raw = made.entry[64:]
        return msgspec.structs.replace(made, entry=self.of(raw, made.entry[:64]) + raw)


def signed(previous: File | None) -> File:
    """signed.json, with the signatures of `previous` where it has them."""
    signatures = _Signatures(previous)
    chain = _chain(signatures)
    cases = [
        *_messages(signatures),
        *_releases(signatures, chain),
        *_logs(signatures, chain),
        *_attributes(signatures),
    ]
    about = (
        "What the authority signs. `what` = message: `bytes` are those of a `signed` around a "
        "message of `type`. release: `bytes` are those of a release or delta with its entry, whose "
        "digest is `digest`. log: do the entries of `following` lead on from `held`? at-once: is "
        "`signed` the entry after `held` (`follows`), or can it never follow? attributes: `bytes` "
        "are those of an `attributes` message, `bodies` the pages that it names, in order."
    )
    return {"about": about, "signatures": signatures.used, "cases": cases}


def _case(
    what: str, comment: str, call: Callable[[], object], good: bool, **fields: object
) -> Case:
    case: Case = {"comment": comment, "valid": good, "what": what, **fields}
    if good:
        call()
    else:
        case["error"] = error_name(call)
    return case


def _messages(signatures: _Signatures) -> list[Case]:
    offer, receipt = signatures.message(_OFFER), signatures.message(_RECEIPT)
    forged = encode(msgspec.structs.replace(_OFFER, seal_key=_POINT))
    flipped = bytes([offer.signature[0] ^ 1]) + offer.signature[1:]
    asked: list[tuple[str, Signed, str, bytes, bool]] = [
        ("an offer", offer, "offer", _POINT, True),
        ("a receipt", receipt, "accepted", _POINT, True),
        ("another sealing key", Signed(body=forged, signature=offer.signature), "offer", _POINT,
         False),
        ("a changed signature", Signed(body=offer.body, signature=flipped), "offer", _POINT, False),
        ("another authority", offer, "offer", _STRANGER, False),
        ("a signature of zeros", Signed(body=offer.body, signature=bytes(64)), "offer", _POINT,
         False),
        ("the signature of another message",
         Signed(body=receipt.body, signature=offer.signature), "accepted", _POINT, False),
        ("a receipt in place of an offer", receipt, "offer", _POINT, False),
    ]  # fmt: skip
    return [
        _case(
            "message", comment, partial(open_signed, point, one, KINDS[kind]), good,
            authority=point.hex(), type=kind, bytes=encode(one).hex(),
            **({"body": one.body.hex()} if good else {}),
        )
        for comment, one, kind, point, good in asked
    ]  # fmt: skip


def _common(version: int) -> CommonItems:
    rows = np.arange(12, dtype=np.float64).reshape(4, 3) - 5.0
    rows[0, 0] = version
    return CommonItems(version, quantize_rows(rows))


def _chain(signatures: _Signatures) -> list[Release]:
    """Versions 1, 2, 3 and 5: a rollback keeps the step, and a recovery leaves versions out."""
    made, before = [], NOTHING_BEFORE
    for version, step in ((1, 0), (2, 1), (3, 1), (5, 4)):
        withheld = np.array([False, version == 2, False, True])
        release = pack_release(
            _TASK, step, _common(version), 9, PaperScoring(seed=version), 0.5, withheld
        )
        made.append(signatures.release(release, before))
        before = entry_digest(made[-1].entry)
    return made


def _releases(signatures: _Signatures, chain: list[Release]) -> list[Case]:
    whole = chain[1]
    delta = pack_delta(_common(1), _common(2), whole)
    assert delta is not None
    solve = pack_release(_TASK, 1, _common(2), 9, Scoring(tau=1.5))
    scored = signatures.release(solve, NOTHING_BEFORE)

    def changed(**fields: object) -> Release:
        return msgspec.structs.replace(whole, **fields)

    asked: list[tuple[str, Release | Delta, bytes, bool]] = [
        ("a release", whole, _POINT, True),
        ("a delta", delta, _POINT, True),
        ("another authority", whole, _STRANGER, False),
        ("no entry", changed(entry=b""), _POINT, False),
        ("the entry of another release", changed(entry=chain[2].entry), _POINT, False),
        ("another model", changed(model=bytes(32)), _POINT, False),
        ("another step", changed(step=9), _POINT, False),
        ("another seed", changed(scoring=PaperScoring(seed=9)), _POINT, False),
        ("a release of solve", scored, _POINT, True),
        ("another scoring", msgspec.structs.replace(scored, scoring=Scoring(tau=1.25)), _POINT,
         False),
        ("another clip", changed(clip=0.75), _POINT, False),
        ("another catalogue", changed(catalogue=8), _POINT, False),
        ("other rows withheld", changed(withheld=b"\1"), _POINT, False),
        ("no rows withheld", changed(withheld=b""), _POINT, False),
        ("a delta with other rows withheld", msgspec.structs.replace(delta, withheld=b"\1"), _POINT,
         False),
    ]  # fmt: skip
    return [
        _case(
            "release", comment, partial(check_release, point, one), good,
            authority=point.hex(), type=str(one.__struct_config__.tag), bytes=encode(one).hex(),
            **({"digest": entry_digest(one.entry).hex()} if good else {}),
        )
        for comment, one, point, good in asked
    ]  # fmt: skip


def _logs(signatures: _Signatures, chain: list[Release]) -> list[Case]:
    first, second, third, fifth = (one.entry for one in chain)
    fork = msgspec.structs.replace(chain[1], model=bytes(32), entry=b"")
    forked = signatures.release(fork, entry_digest(first)).entry
    after_fork = signatures.release(
        msgspec.structs.replace(chain[2], entry=b""), entry_digest(forked)
    ).entry
    back = signatures.release(
        msgspec.structs.replace(chain[3], step=0, entry=b""), entry_digest(third)
    ).entry
    plain = msgspec.structs.replace(chain[1], entry=b"")
    staged = signatures.release(plain, entry_digest(first), b"a roll-out, say.").entry
    promoted = signatures.release(
        msgspec.structs.replace(plain, version=3), entry_digest(staged)
    ).entry
    asked: list[tuple[str, bytes, list[bytes], bool]] = [
        ("all of it", first, [second, third, fifth], True),
        ("over a staged one", first, [staged, promoted], True),
        ("a staged one left out", first, [promoted], False),
        ("the next one", third, [fifth], True),
        ("nothing new", fifth, [], True),
        ("one left out", first, [third, fifth], False),
        ("out of order", first, [third, second, fifth], False),
        ("another history", second, [after_fork], False),
        ("a step back", third, [back], False),
        ("the first again", second, [first], False),
        ("no entry", first, [second, b"nothing"], False),
    ]
    cases = [
        _case(
            "log", comment, partial(check_leads, held, following), good,
            held=held.hex(), following=[one.hex() for one in following],
        )
        for comment, held, following, good in asked
    ]  # fmt: skip
    once: list[tuple[str, bytes, bytes, bool | None]] = [
        ("it is", second, third, True),
        ("one lies between", second, fifth, False),
        ("another one of the same version", second, forked, None),
        ("an earlier one", third, first, None),
        ("a step back", third, back, None),
    ]
    for comment, held, one, follows in once:
        fields = {} if follows is None else {"follows": follows}
        cases.append(
            _case(
                "at-once",
                comment,
                partial(follows_at_once, held, one),
                follows is not None,
                held=held.hex(),
                signed=one.hex(),
                **fields,
            )
        )
    return cases


def _check_all(authority: bytes, message: Attributes, bodies: list[bytes]) -> None:
    entry = check_attributes(authority, message)
    numbered = zip(page_digests(message.pages), bodies, strict=True)
    for number, (digest, raw) in enumerate(numbered):
        check_page(entry, number, digest, raw)


def _attributes(signatures: _Signatures) -> list[Case]:
    items = [
        {"title": "Ünder a line", "category": "book"},
        {"title": "a b\nc"},
        {"category": "film"},
    ]
    two, rest = make_pages(["title"], items[:2]), make_pages(["title"], items[2:])
    many = Pages(["title"], 3, 2, [*two.digests, *rest.digests], {**two.bodies, **rest.bodies})
    pages, none = make_pages(["title", "category"], items), make_pages([], items)
    twice = make_pages(["title", "title"], items)
    good, nothing = signatures.attributes(pages), signatures.attributes(none)
    bodies = [pages.bodies[one] for one in pages.digests]
    fewer = replace(pages, count=2)
    columns = make_pages(["title"], items)
    narrow = replace(pages, digests=columns.digests, bodies=columns.bodies)
    binary = encode(AttributePage(columns=[b"\xff\n\n\n", b"\n\n\n"]))
    binary_digest = hashlib.sha256(binary).digest()
    unreadable = replace(pages, digests=[binary_digest], bodies={binary_digest: binary})
    asked: list[tuple[str, Attributes, list[bytes], bytes, bool]] = [
        ("three items", good, bodies, _POINT, True),
        ("two pages", signatures.attributes(many), [many.bodies[one] for one in many.digests],
         _POINT, True),
        ("nothing is told", nothing, [], _POINT, True),
        ("another authority", good, bodies, _STRANGER, False),
        ("other pages", msgspec.structs.replace(good, pages=bytes(32)), bodies, _POINT, False),
        ("a page left out", msgspec.structs.replace(good, pages=b""), [], _POINT, False),
        ("another entry", msgspec.structs.replace(good, entry=nothing.entry), bodies, _POINT,
         False),
        ("no entry", msgspec.structs.replace(good, entry=b""), bodies, _POINT, False),
        ("a name twice", signatures.attributes(twice), [twice.bodies[one] for one in twice.digests],
         _POINT, False),
        ("more rows than were signed", signatures.attributes(fewer), bodies, _POINT, False),
        ("a column that is missing", signatures.attributes(narrow),
         [columns.bodies[one] for one in columns.digests], _POINT, False),
        ("not UTF-8", signatures.attributes(unreadable), [binary], _POINT, False),
        ("other bytes", good, [bodies[0] + b"\0"], _POINT, False),
    ]  # fmt: skip
    return [
        _case(
            "attributes", comment, partial(_check_all, point, message, given), valid,
            authority=point.hex(), bytes=encode(message).hex(), bodies=[one.hex() for one in given],
        )
        for comment, message, given, point, valid in asked
    ]  # fmt: skip
