"""What both servers do with reports: look at one, decide together, and keep a running sum.

The leader looks at a report and sends `Seen` with the public part and the helper's sealed share to
the helper, which looks too and decides. A report is added when it is looked at; one that is refused
is taken out again, so the common case costs one expansion.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedrap_core.errors import MalformedMessage
from fedrap_core.split.compiled import add_words
from fedrap_core.split.dpf import Core, Expansion, ReportBlocks, expand_leaves
from fedrap_core.split.field import P, Words, fold, negate, reduce, sub
from fedrap_core.split.proof import PROOFS, decide, query
from fedrap_core.split.report import (
    LEADER,
    Public,
    ReportTerms,
    ServerShare,
    check_bound,
    read_public,
    read_share,
)
from fedrap_core.split.xof import kdf16

MAC_BYTES = 16


def seen_bytes(terms: ReportTerms) -> int:
    """Of every report's `Seen`."""
    return MAC_BYTES + 4 * PROOFS * terms.circuit.verifier_words


@dataclass(frozen=True, eq=False)
class Seen:
    """What a server shows the other of a report: nothing that depends on the device's numbers."""

    tags: bytes  # GMAC over all tags of all positions, under a key of both servers
    words: Words  # its share of the query

    def encoded(self) -> bytes:
        """MAC, then words."""
        return self.tags + self.words.astype("<u4").tobytes()


def read_seen(terms: ReportTerms, raw: bytes) -> Seen:
    """Raises MalformedMessage: another length, or words that are no numbers of the field."""
    if len(raw) != seen_bytes(terms):
        raise MalformedMessage(f"what a server saw of a report has {seen_bytes(terms)} bytes")
    words = np.frombuffer(raw, dtype="<u4", offset=MAC_BYTES).astype(np.uint64)
    if (words >= P).any():
        raise MalformedMessage("a word that is no number of the field")
    return Seen(raw[:MAC_BYTES], words)


@dataclass(frozen=True, eq=False)
class Looked:
    """A report as one server sees it; enough to take it out of a sum again."""

    report: bytes
    public: Public
    share: ServerShare
    joint: bytes
    seen: Seen


class RunningSum:
    """One server's share of the sum of a round, without its sign."""

    def __init__(self, terms: ReportTerms, server: int, state: bytes | None = None) -> None:
        """Empty, or as `encoded` left it."""
        layout, width = terms.shape.layout, terms.shape.width
        shape = (layout.slots, layout.size, width)
        self._terms, self._server = terms, server
        self._tables: npt.NDArray[np.uint32]
        if state is None:
            self._tables = np.zeros(shape, dtype=np.uint32)
            self._rest = np.zeros(terms.whole + 1, dtype=np.uint64)  # and the clipping number
            return
        words = np.frombuffer(state, dtype="<u4")
        rows = layout.slots * layout.size * width
        if len(words) != rows + terms.whole + 1:
            raise MalformedMessage("a running sum of another round")
        self._tables = words[:rows].reshape(shape).astype(np.uint32)
        self._rest = words[rows:].astype(np.uint64)

    def encoded(self) -> bytes:
        """All of it, u32 little-endian."""
        return self._tables.astype("<u4").tobytes() + self._rest.astype("<u4").tobytes()

    def look(self, secret: bytes, report: bytes, raw_public: bytes, raw_share: bytes) -> Looked:
        """Look at a report and add it.

        Args:
            secret: the key that only both servers have.

        Raises:
            MalformedMessage: it cannot be counted; nothing was added.
        """
        terms, server = self._terms, self._server
        public = read_public(terms, raw_public)
        share = read_share(terms, server, report, raw_share)
        joint = check_bound(terms, server, report, public, share)
        made = _expand(terms, server, report, share.seed, public.core, self._tables)
        columns = made.columns if server == LEADER else negate(made.columns)
        numbers = np.concatenate([reduce(columns).ravel(), share.whole])
        own = kdf16(b"own query", secret, terms.round, report)
        words = query(
            terms.circuit, server == LEADER, numbers, share.extra, share.proofs, joint, own
        )
        self._add_rest(share, 1)
        tags = _mac(kdf16(b"tags", secret, terms.round, report), made.tags)
        return Looked(report, public, share, joint, Seen(tags, words))

    def take_out(self, looked: Looked) -> None:
        """A report that was refused."""
        apart = np.zeros_like(self._tables)
        terms, core = self._terms, looked.public.core
        _expand(terms, self._server, looked.report, looked.share.seed, core, apart)
        prime = np.uint32(P)
        left = self._tables + (prime - apart)  # both p at most
        self._tables[:] = (left & prime) + (left >> np.uint32(31))
        self._add_rest(looked.share, -1)

    def share(self) -> Words:
        """This server's share of the sum, in the order of its terms, in [0, p)."""
        # the whole numbers of a share have their sign already; rows get it here
        rest = self._rest if self._server == LEADER else fold(negate(fold(self._rest)))
        flat = self._terms.in_order(self._tables, rest[:-1], int(rest[-1]))
        return reduce(flat) if self._server == LEADER else reduce(negate(fold(flat)))

    def _add_rest(self, share: ServerShare, sign: int) -> None:
        mine = np.append(share.whole, share.extra[-1])
        self._rest = fold(self._rest + mine) if sign > 0 else sub(self._rest, mine)


def accepts(terms: ReportTerms, leader: Seen, helper: Seen, joint: bytes) -> bool:
    """Do both servers' views of a report fit: one row in each slot, and small numbers?"""
    if not hmac.compare_digest(leader.tags, helper.tags):
        return False
    return decide(terms.circuit, leader.words, helper.words, joint)


def _expand(
    terms: ReportTerms,
    server: int,
    report: bytes,
    seed: bytes,
    core: Core,
    into: npt.NDArray[np.uint32],
) -> Expansion:
    if not terms.shape.layout.slots:
        return Expansion(terms.shape)
    blocks = ReportBlocks.of(terms.round, report)
    leaves = expand_leaves(terms.shape, blocks, server, seed, core)
    return add_words(terms.shape, blocks, leaves, core, into)


def _mac(key: bytes, tags: npt.NDArray[np.uint64]) -> bytes:
    """GMAC: AES-GCM of nothing, over the tags. The key is of this report alone, so a nonce of 0."""
    return AESGCM(key).encrypt(bytes(12), b"", tags.astype("<u8", copy=False).tobytes())
