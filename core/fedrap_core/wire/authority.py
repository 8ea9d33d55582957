"""What the task's authority signs: offers, receipts, and the log of releases.

A device takes an offer, a receipt or a release only from the authority whose key it keeps, so
whoever relays them can read and withhold them, and change nothing. Releases are entries of a log:
each names the digest of the one before it. Who has seen one entry notices when a later one does not
follow from it, and two who compare their entries notice when they were shown different ones.

An entry travels as 64 bytes of signature (r, s) and the bytes of a `release-entry`, as signed. Its
digest leaves the signature out: ECDSA gives another one each time.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_core.errors import FedRapError, ForkedLog, MalformedMessage, SignatureInvalid
from fedrap_core.plan import OFF, Off
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.keys import public_from_point
from fedrap_core.wire.messages import Delta, Message, Release, ReleaseEntry, Signed
from fedrap_core.wire.signing import SIGNATURE_BYTES, sign, verify

NOTHING_BEFORE = bytes(32)  # the digest before the first entry
_MAX_BYTES = 8192
_SIGNED = b"fedrap/1 signed\n"
_ENTRY = b"fedrap/1 release-entry\n"
_LOG = b"fedrap/1 log"

M = TypeVar("M", bound=Message)


def read_authority(given: bytes | str) -> bytes:
    """The point of an authority that an app pins: 65 bytes, or those as hex or base64 text.

    Raises:
        ValueError: it is none of them.
    """
    raw = given if isinstance(given, bytes) else _from_text(given.strip())
    try:
        public_from_point(raw)
    except MalformedMessage as error:
        raise ValueError(
            "an authority is the point that `fedrap-coordinator authority` prints"
        ) from error
    return raw


def _from_text(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        pass
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def sign_message(authority: ec.EllipticCurvePrivateKey, message: Message) -> Signed:
    """An offer or a receipt, signed."""
    body = encode(message)
    return Signed(body=body, signature=sign(authority, _SIGNED + body))


def open_signed(authority: bytes, signed: Signed, kind: type[M]) -> M:
    """The message that the authority, a point, signed.

    Raises:
        SignatureInvalid: it did not.
        MalformedMessage, UnsupportedVersion, TooLarge: it signed something else.
    """
    verify(public_from_point(authority), _SIGNED + signed.body, signed.signature)
    return decode(kind, signed.body, _MAX_BYTES)


def sign_release(
    authority: ec.EllipticCurvePrivateKey,
    release: Release,
    before: bytes,
    staged: bytes | Off = OFF,
) -> Release:
    """The same release with its entry, which follows the one of digest `before`.

    `staged` is the roll-out that it is staged by, where it is not for every device.
    """
    raw = encode(
        ReleaseEntry(
            task=release.task,
            version=release.version,
            step=release.step,
            size=release.size,
            dim=release.dim,
            catalogue=release.catalogue,
            scoring=release.scoring,
            clip=release.clip,
            model=release.model,
            withheld=hashlib.sha256(release.withheld).digest(),
            before=before,
            staged=staged,
        )
    )
    return msgspec.structs.replace(release, entry=sign(authority, _ENTRY + raw) + raw)


def read_entry(signed: bytes) -> ReleaseEntry:
    """What an entry says; who signed it is not looked at.

    Raises:
        SignatureInvalid: it is not an entry.
    """
    try:
        return decode(ReleaseEntry, signed[SIGNATURE_BYTES:], _MAX_BYTES)
    except FedRapError as error:
        raise SignatureInvalid(f"not a signed entry of the log of releases: {error}") from error


def is_signed_by(authority: bytes, signed: bytes) -> bool:
    """Did this authority, a point, sign this entry?"""
    signature, raw = signed[:SIGNATURE_BYTES], signed[SIGNATURE_BYTES:]
    try:
        verify(public_from_point(authority), _ENTRY + raw, signature)
    except SignatureInvalid:
        return False
    return True


def entry_digest(signed: bytes) -> bytes:
    """The digest by which the next entry names this one; zeros where there is none."""
    if not signed:
        return NOTHING_BEFORE
    return hashlib.sha256(_LOG + signed[SIGNATURE_BYTES:]).digest()


def check_release(authority: bytes | None, message: Release | Delta) -> ReleaseEntry:
    """The entry of a release, once it is found to speak of this release and to be signed.

    The numbers of C are held against `model` by whoever unpacks them. Without an authority, on a
    device that is not enrolled yet, who signed is checked when there is one.

    Raises:
        SignatureInvalid: not signed, or it says something else than the authority signed.
    """
    entry, m = read_entry(message.entry), message
    if authority is not None and not is_signed_by(authority, message.entry):
        raise SignatureInvalid(f"release {m.version} is not signed by the task's authority")
    same = (
        (m.task, m.version, m.step, m.size, m.dim, m.catalogue, m.scoring, m.model)
        == (entry.task, entry.version, entry.step, entry.size, entry.dim, entry.catalogue,
            entry.scoring, entry.model)
        and hashlib.sha256(m.withheld).digest() == entry.withheld
        and (isinstance(m, Delta) or m.clip == entry.clip)
    )  # fmt: skip
    if not same:
        raise SignatureInvalid(f"release {m.version} says something else than was signed")
    return entry


def check_leads(held: bytes, following: Sequence[bytes]) -> None:
    """Do these entries follow each other, and the first of them the one that is held?

    The last one is signed and each names the one before it, so all of them are what was signed.

    Raises:
        ForkedLog: they do not.
        SignatureInvalid: one of them is no entry.
    """
    last, digest = read_entry(held), entry_digest(held)
    for signed in following:
        entry = read_entry(signed)
        if entry.before != digest or entry.task != last.task:
            raise ForkedLog(
                f"release {entry.version} does not follow from release {last.version}, which is "
                "held: this device was shown another history than others"
            )
        if entry.version <= last.version or entry.step < last.step:
            raise ForkedLog(
                f"the log goes back from release {last.version} of step {last.step} to release "
                f"{entry.version} of step {entry.step}"
            )
        last, digest = entry, entry_digest(signed)


def follows_at_once(held: bytes, signed: bytes) -> bool:
    """Is this the entry after the one that is held? If not, the log may lead from one to the other.

    Raises:
        ForkedLog: it can never be: another one of the same version, or an earlier one.
    """
    last, entry = read_entry(held), read_entry(signed)
    if entry.version == last.version:
        raise ForkedLog(f"there are two releases {entry.version}: this is not the one that is held")
    if entry.version < last.version or entry.step < last.step:
        raise ForkedLog(
            f"release {entry.version} of step {entry.step} lies behind release {last.version} of "
            f"step {last.step}, which is held"
        )
    return entry.before == entry_digest(held)
