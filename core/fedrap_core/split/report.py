"""A device's report: what both servers get, what each gets alone, and the bytes of them.

    public          32 bytes of joint part for each server · the corrections of the DPFs
    leader's share  seed · blind · SHA-256(public) · words: whole numbers, last wire, both proofs
    helper's share  seed · blind · SHA-256(public)

The helper's words follow from its seed; the leader's are what is left. Joint part b is
HMAC(blind_b, "fedrap/2 part" ‖ b ‖ round ‖ report ‖ SHA-256(corrections) ‖ SHA-256(share_b)), where
share_b is its seed and, for the leader, its words without the proofs. Each server computes its own
anew, so what the proofs are asked with depends on all that is proven.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import MalformedMessage
from fedrap_core.split.dpf import (
    Core,
    ReportBlocks,
    Shape,
    decode_core,
    encode_core,
    make_core,
)
from fedrap_core.split.field import P, Words, from_signed, reduce, sub
from fedrap_core.split.layout import assign_slots
from fedrap_core.split.numbers import Numbers
from fedrap_core.split.proof import PROOFS, Circuit, prove, slack_digits
from fedrap_core.split.xof import SEED_BYTES, field_numbers, kdf16, stream

LEADER, HELPER = 0, 1
REPORT_BYTES = 16
_PART = 32
_HEAD = SEED_BYTES + SEED_BYTES + 32


class ReportTerms(Protocol):
    """What reports of a round (`numbers.Terms`) or a question (`VectorTerms`) have in common."""

    @property
    def round(self) -> bytes:
        """Of a round or of a question."""

    @property
    def shape(self) -> Shape:
        """Of its tables; those of a question have no slots."""

    @property
    def whole(self) -> int:
        """Numbers that every device sends all of."""

    @property
    def circuit(self) -> Circuit:
        """Of the proof."""

    def in_order(self, table_sums: npt.NDArray[np.uint32], whole: Words, fits: int) -> Words:
        """A server's sums as the vector that leaves it."""


@dataclass(frozen=True, eq=False)
class Report:
    """What a device sends, before it is sealed."""

    id: bytes  # all of a device that the helper sees
    public: bytes
    leader: bytes
    helper: bytes


@dataclass(frozen=True, eq=False)
class Public:
    """What both servers read in `public`."""

    parts: tuple[bytes, bytes]
    core: Core
    core_digest: bytes
    digest: bytes


@dataclass(frozen=True, eq=False)
class ServerShare:
    """One server's share of a report."""

    seed: bytes
    blind: bytes
    digest: bytes  # of `public`
    whole: Words
    extra: Words  # of the last wire: digits, clipping number
    proofs: Words


def public_bytes(terms: ReportTerms) -> int:
    """Of every report's public part."""
    return 2 * _PART + terms.shape.core_bytes


def leader_bytes(terms: ReportTerms) -> int:
    """Of every report's share for the leader."""
    circuit = terms.circuit
    return _HEAD + 4 * (terms.whole + circuit.extra + PROOFS * circuit.proof_words)


HELPER_BYTES = _HEAD


def make_report(terms: ReportTerms, numbers: Numbers, secret: bytes) -> Report:
    """The report of these numbers; all that is random in it follows from 32 secret bytes.

    A row that finds no slot is left out, the shortest of those that are in each other's way.
    """
    report = kdf16(b"report", secret)
    seeds = (kdf16(b"leader seed", secret), kdf16(b"helper seed", secret))
    blinds = (kdf16(b"leader blind", secret), kdf16(b"helper blind", secret))
    positions, rows = _fill_slots(terms, numbers, kdf16(b"empty slots", secret))
    squares = int(np.sum(rows**2) + np.sum(numbers.whole**2))
    field_rows, core = from_signed(rows), b""
    if len(rows):
        blocks = ReportBlocks.of(terms.round, report)
        core = encode_core(make_core(terms.shape, blocks, seeds, positions, field_rows))
    whole = from_signed(numbers.whole)
    extra = from_signed(np.append(slack_digits(terms.circuit, squares), numbers.fits))
    helper_whole, helper_extra, helper_proofs = _helper_words(terms, report, seeds[HELPER])
    left_whole, left_extra = reduce(sub(whole, helper_whole)), reduce(sub(extra, helper_extra))
    core_digest = hashlib.sha256(core).digest()
    given = (_given(seeds[LEADER], left_whole, left_extra), seeds[HELPER])
    parts = tuple(
        _joint_part(terms.round, report, b, blinds[b], core_digest, given[b])
        for b in (LEADER, HELPER)
    )
    joint = joint_seed(terms.round, report, (parts[0], parts[1]))
    everything = np.concatenate([field_rows.ravel(), whole])
    proofs = prove(terms.circuit, everything, extra, joint, kdf16(b"prove", secret))
    public = parts[0] + parts[1] + core
    digest = hashlib.sha256(public).digest()
    words = np.concatenate([left_whole, left_extra, reduce(sub(proofs, helper_proofs))])
    return Report(
        report,
        public,
        seeds[LEADER] + blinds[LEADER] + digest + words.astype("<u4").tobytes(),
        seeds[HELPER] + blinds[HELPER] + digest,
    )


def _fill_slots(
    terms: ReportTerms, numbers: Numbers, key: bytes
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A position and a row for every slot: (slots,) and (slots, width)."""
    if not terms.shape.layout.slots:
        return np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.int64)
    layout, width = terms.shape.layout, terms.shape.width
    # 64 random bits over a few thousand positions: even to 2^-50
    drawn = np.frombuffer(stream(key, 8 * layout.slots), dtype="<u8")
    positions = (drawn % np.uint64(layout.size)).astype(np.int64)
    rows = np.zeros((layout.slots, width), dtype=np.int64)
    longest = np.argsort(-np.sum(numbers.values**2, axis=1), kind="stable")
    slots, places = layout.places(numbers.rows[longest])
    given = assign_slots(slots.T.tolist(), layout.slots)
    for at, slot in enumerate(given):
        if slot >= 0:
            positions[slot] = places[slot // layout.table_slots, at]
            rows[slot] = numbers.values[longest[at]]
    return positions, rows


def read_public(terms: ReportTerms, raw: bytes) -> Public:
    """The public part of a report.

    Raises:
        MalformedMessage: another length, or corrections that no device makes.
    """
    if len(raw) != public_bytes(terms):
        raise MalformedMessage(f"the public part of a report has {public_bytes(terms)} bytes")
    core = raw[2 * _PART :]
    return Public(
        (raw[:_PART], raw[_PART : 2 * _PART]),
        decode_core(core, terms.shape),
        hashlib.sha256(core).digest(),
        hashlib.sha256(raw).digest(),
    )


def read_share(terms: ReportTerms, server: int, report: bytes, raw: bytes) -> ServerShare:
    """One server's share of a report.

    Raises:
        MalformedMessage: another length, or words that are no numbers of the field.
    """
    expected = leader_bytes(terms) if server == LEADER else HELPER_BYTES
    if len(raw) != expected:
        raise MalformedMessage(f"a share of a report has {expected} bytes")
    seed, blind, digest = raw[:16], raw[16:32], raw[32:_HEAD]
    if server == HELPER:
        return ServerShare(seed, blind, digest, *_helper_words(terms, report, seed))
    words = np.frombuffer(raw, dtype="<u4", offset=_HEAD).astype(np.uint64)
    if (words >= P).any():
        raise MalformedMessage("a word that is no number of the field")
    extra = terms.whole + terms.circuit.extra
    return ServerShare(
        seed, blind, digest, words[: terms.whole], words[terms.whole : extra], words[extra:]
    )


def check_bound(
    terms: ReportTerms, server: int, report: bytes, public: Public, share: ServerShare
) -> bytes:
    """The joint seed, where this share belongs to that public part.

    Raises:
        MalformedMessage: the share or the corrections are others than the device bound together.
    """
    given = share.seed if server == HELPER else _given(share.seed, share.whole, share.extra)
    part = _joint_part(terms.round, report, server, share.blind, public.core_digest, given)
    same = hmac.compare_digest(part, public.parts[server])
    if not same or not hmac.compare_digest(share.digest, public.digest):
        raise MalformedMessage("a share of another report")
    return joint_seed(terms.round, report, public.parts)


def joint_seed(round_id: bytes, report: bytes, parts: tuple[bytes, bytes]) -> bytes:
    """What r, ρ and τ of the proofs follow from."""
    return kdf16(b"joint", round_id, report, *parts)


def _joint_part(
    round_id: bytes, report: bytes, server: int, blind: bytes, core_digest: bytes, given: bytes
) -> bytes:
    message = b"fedrap/2 part" + bytes([server]) + round_id + report + core_digest
    return hmac.digest(blind, message + hashlib.sha256(given).digest(), "sha256")


def _given(seed: bytes, whole: Words, extra: Words) -> bytes:
    return seed + np.concatenate([whole, extra]).astype("<u4").tobytes()


def _helper_words(terms: ReportTerms, report: bytes, seed: bytes) -> tuple[Words, Words, Words]:
    """Whole numbers, last wire and proofs of the helper."""
    circuit = terms.circuit
    numbers = field_numbers(
        kdf16(b"helper words", seed, terms.round, report), terms.whole + circuit.extra
    )
    proofs = field_numbers(
        kdf16(b"helper proofs", seed, terms.round, report), PROOFS * circuit.proof_words
    )
    return numbers[: terms.whole], numbers[terms.whole :], proofs
