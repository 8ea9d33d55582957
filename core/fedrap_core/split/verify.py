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
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fedrap_core.errors import MalformedMessage
from fedrap_core.split.dpf import Core, Expand, ReportBlocks, See, Tags, expand
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

    def __init__(
        self,
        terms: ReportTerms,
        server: int,
        state: bytes | None = None,
        expansion: Expand = expand,
    ) -> None:
        """Empty, or as `encoded` left it."""
        layout, width = terms.shape.layout, terms.shape.width
        shape = (layout.slots, layout.size, width)
        self._terms, self._server, self._expansion = terms, server, expansion
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
        parts = (self._tables.astype("<u4", copy=False).data, self._rest.astype("<u4").data)
        return b"".join(parts)

    @property
    def size_bytes(self) -> int:
        """Of `encoded`."""
        return 4 * (self._tables.size + len(self._rest))

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
        mac = _Mac(kdf16(b"tags", secret, terms.round, report))
        columns = self._expand(report, share.seed, public.core, mac.see)
        columns = columns if server == LEADER else negate(columns)
        numbers = np.concatenate([reduce(columns).ravel(), share.whole])
        own = kdf16(b"own query", secret, terms.round, report)
        words = query(
            terms.circuit, server == LEADER, numbers, share.extra, share.proofs, joint, own
        )
        self._add_rest(share, 1)
        return Looked(report, public, share, joint, Seen(mac.digest(), words))

    def take_out(self, looked: Looked) -> None:
        """A report that was refused."""
        prime = np.uint32(P)
        np.subtract(prime, self._tables, out=self._tables)  # T - v = -(-T + v)
        self._expand(looked.report, looked.share.seed, looked.public.core, lambda _: None)
        np.subtract(prime, self._tables, out=self._tables)
        self._add_rest(looked.share, -1)

    def share(self) -> Words:
        """This server's share of the sum, in the order of its terms, in [0, p)."""
        # the whole numbers of a share have their sign already; rows get it here
        rest = self._rest if self._server == LEADER else fold(negate(fold(self._rest)))
        flat = self._terms.in_order(self._tables, rest[:-1], int(rest[-1]))
        return reduce(flat) if self._server == LEADER else reduce(negate(fold(flat)))

    def _expand(self, report: bytes, seed: bytes, core: Core, see: See) -> Words:
        """Words of a report added to the tables; the sums of its columns."""
        shape = self._terms.shape
        if not shape.layout.slots:
            return np.zeros((0, 0), np.uint64)
        blocks = ReportBlocks.of(self._terms.round, report)
        return self._expansion(shape, blocks, self._server, seed, core, self._tables, see)

    def _add_rest(self, share: ServerShare, sign: int) -> None:
        mine = np.append(share.whole, share.extra[-1])
        self._rest = fold(self._rest + mine) if sign > 0 else sub(self._rest, mine)


def accepts(terms: ReportTerms, leader: Seen, helper: Seen, joint: bytes) -> bool:
    """Do both servers' views of a report fit: one row in each slot, and small numbers?"""
    if not hmac.compare_digest(leader.tags, helper.tags):
        return False
    return decide(terms.circuit, leader.words, helper.words, joint)


class _Mac:
    """GMAC over tags: GCM of nothing. The key is of one report alone, so a nonce of 0."""

    def __init__(self, key: bytes) -> None:
        self._gcm = Cipher(algorithms.AES128(key), modes.GCM(bytes(12))).encryptor()

    def see(self, tags: Tags) -> None:
        self._gcm.authenticate_additional_data(
            np.ascontiguousarray(tags, dtype="<u8").data.cast("B")
        )

    def digest(self) -> bytes:
        self._gcm.finalize()
        return self._gcm.tag
