"""The items' public attributes on the wire: pages of rows, and one signed entry over all of them.

A page is known by the SHA-256 of its bytes, so that a device fetches only those that changed, and
takes only what the authority signed. Everybody fetches all pages or none: which pages a device asks
for says when it last asked, and nothing of its user.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_core.errors import BrokenModel, FedRapError, SignatureInvalid
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.keys import public_from_point
from fedrap_core.wire.messages import (
    MOST_ATTRIBUTE_BYTES,
    PAGE_ROWS,
    AttributePage,
    Attributes,
    AttributesEntry,
)
from fedrap_core.wire.signing import SIGNATURE_BYTES, sign, verify

PAGE_BYTES = 1024 * 1024  # of one page
_DIGEST = 32
_ENTRY = b"fedrap/1 attributes-entry\n"


@dataclass(frozen=True, eq=False)
class Pages:
    """The public attributes of a catalogue, ready to be signed and sent."""

    names: Sequence[str]
    count: int  # rows
    rows: int  # in each page but the last
    digests: Sequence[bytes]  # in order
    bodies: Mapping[bytes, bytes]  # by digest


def make_pages(names: Sequence[str], items: Sequence[Mapping[str, str]]) -> Pages:
    """Pages of the attributes `names` of these items, row 0 first.

    A line break in a value becomes a space: it ends a value.

    Raises:
        ValueError: they have more bytes together than a device takes.
    """
    rows = PAGE_ROWS
    while True:
        starts = range(0, len(items) if names else 0, rows)
        bodies = [_page(names, items[start : start + rows]) for start in starts]
        if rows == 1 or max(map(len, bodies), default=0) <= PAGE_BYTES:
            break
        rows //= 2
    if sum(map(len, bodies)) > MOST_ATTRIBUTE_BYTES:
        raise ValueError(f"public attributes have at most {MOST_ATTRIBUTE_BYTES} bytes together")
    digests = [hashlib.sha256(one).digest() for one in bodies]
    count = len(items) if names else 0
    return Pages(names, count, rows, digests, dict(zip(digests, bodies, strict=True)))


def _page(names: Sequence[str], items: Sequence[Mapping[str, str]]) -> bytes:
    columns = [
        "".join(" ".join(item.get(name, "").splitlines()) + "\n" for item in items)
        for name in names
    ]
    return encode(AttributePage(columns=[column.encode("utf-8") for column in columns]))


def sign_attributes(
    authority: ec.EllipticCurvePrivateKey, task: bytes, release: int, version: int, pages: Pages
) -> Attributes:
    """Which pages there are, signed."""
    digests = b"".join(pages.digests)
    entry = AttributesEntry(
        task=task,
        release=release,
        version=version,
        count=pages.count,
        rows=pages.rows,
        size_bytes=sum(len(pages.bodies[digest]) for digest in pages.digests),
        names=list(pages.names),
        pages=hashlib.sha256(digests).digest(),
    )
    raw = encode(entry)
    return Attributes(entry=sign(authority, _ENTRY + raw) + raw, pages=digests)


def check_attributes(authority: bytes | None, message: Attributes) -> AttributesEntry:
    """The entry, once it is found to speak of these pages and to be signed.

    Without an authority, on a device that knows none yet, who signed is not checked.

    Raises:
        SignatureInvalid: not signed, or these are other pages than the authority signed.
    """
    signature, raw = message.entry[:SIGNATURE_BYTES], message.entry[SIGNATURE_BYTES:]
    try:
        entry = decode(AttributesEntry, raw)
    except FedRapError as error:
        raise SignatureInvalid(f"not a signed entry of attributes: {error}") from error
    if authority is not None:
        verify(public_from_point(authority), _ENTRY + raw, signature)
    if hashlib.sha256(message.pages).digest() != entry.pages:
        raise SignatureInvalid("other pages of attributes than were signed")
    if len(message.pages) != _DIGEST * -(-entry.count // entry.rows):
        raise SignatureInvalid("more or fewer pages of attributes than the rows that were signed")
    if len(set(entry.names)) < len(entry.names):
        raise SignatureInvalid("two attributes have the same name")
    return entry


def page_digests(pages: bytes) -> list[bytes]:
    """One digest for each page, in order."""
    return [pages[start : start + _DIGEST] for start in range(0, len(pages), _DIGEST)]


def check_page(entry: AttributesEntry, number: int, digest: bytes, raw: bytes) -> None:
    """Is this that page, with the rows that its place says?

    Raises:
        BrokenModel: it is not.
    """
    if hashlib.sha256(raw).digest() != digest:
        raise BrokenModel("a page of attributes with another digest")
    rows = min(entry.rows, entry.count - number * entry.rows)
    try:
        columns = decode(AttributePage, raw, PAGE_BYTES).columns
        for column in columns:
            column.decode("utf-8")
    except (FedRapError, UnicodeDecodeError) as error:
        raise BrokenModel(f"a page of attributes that cannot be read: {error}") from error
    if len(columns) != len(entry.names) or any(
        column.count(b"\n") != rows or not column.endswith(b"\n") for column in columns
    ):
        raise BrokenModel("a page of attributes with other rows or columns than were signed")
