"""One row at one secret position of a slot, as two keys: a distributed point function.

Boyle, Gilboa and Ishai, "Function Secret Sharing: Improvements and Extensions" (2016), the tree of
section 3.2.1 with an early end for groups: a key is a root seed and one correction for each level,
public here and the same for both servers. Server b walks from its root to every position:

    children of a seed s with control bit t:  s_L = block(s, 0), s_R = block(s, 1)
        control bits: the lowest bit of each; both seeds without it
        where t = 1: s_L and s_R ⊕ seed correction, control bits ⊕ bit corrections
    at a leaf: words = convert(s) + t·payload correction, (-1)^b of which is b's share
               tag   = convert'(s) ⊕ t·tag correction

Off the secret position both servers have the same seed and bit, so words cancel out and tags are
equal; at it they differ, and the corrections make words sum up to the row and tags equal again. A
report whose tags are equal at all positions has at most one row in each slot (de Castro and
Polychroniadou, "Lightweight, Maliciously Secure Verifiable Function Secret Sharing", 2022).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import MalformedMessage
from fedrap_core.split.field import PRIME, P, Words, Words32, fold, negate, sub
from fedrap_core.split.layout import Layout
from fedrap_core.split.xof import SEED_BYTES, Blocks, Seeds, kdf16, stream

TAG_BYTES = 32
_TAG_BLOCKS = TAG_BYTES // 16
_ONE = np.uint64(1)
_NO_BIT = np.uint64(0xFFFF_FFFF_FFFF_FFFE)
CHUNK = 4096  # leaves at a time: what they become stays in the cache
Tags = npt.NDArray[np.uint64]  # (n, 2, 2)
See = Callable[[Tags], None]


@dataclass(frozen=True)
class Shape:
    """What all reports of a round have in common."""

    layout: Layout
    width: int  # numbers in a row

    @property
    def leaf_blocks(self) -> int:
        """Blocks that a leaf becomes: its words, then its tag."""
        return -(-self.width // 4) + _TAG_BLOCKS

    @property
    def core_bytes(self) -> int:
        """Of all corrections."""
        nodes = self.layout.slots * self.layout.depth
        return 16 * nodes + -(-2 * nodes // 8) + self.layout.slots * (4 * self.width + TAG_BYTES)


@dataclass(frozen=True, eq=False)
class Core:
    """The public corrections of a report: all of it that both servers have."""

    seeds: Seeds  # (slots, depth, 2)
    bits: npt.NDArray[np.uint64]  # (slots, depth, 2): of the left and the right child
    words: Words32  # (slots, width)
    tags: Seeds  # (slots, 2, 2)


def encode_core(core: Core) -> bytes:
    """Seed corrections, bits (lowest first), words, tags: level by level of each slot."""
    bits = np.packbits(core.bits.astype(np.uint8).ravel(), bitorder="little")
    return b"".join(
        part.tobytes()
        for part in (
            core.seeds.astype("<u8"), bits, core.words.astype("<u4"), core.tags.astype("<u8"),
        )
    )  # fmt: skip


def decode_core(raw: bytes, shape: Shape) -> Core:
    """The corrections in these bytes.

    Raises:
        MalformedMessage: another length, a word that is p or more, a set lowest bit in a seed
            correction, a bit after the last, or a tag correction of zeros.
    """
    if len(raw) != shape.core_bytes:
        raise MalformedMessage(f"corrections have {shape.core_bytes} bytes")
    slots, depth = shape.layout.slots, shape.layout.depth
    nodes = slots * depth
    if not slots:
        none = np.zeros((0, 0, 2), np.uint64)
        words = np.zeros((0, shape.width), np.uint32)
        return Core(none, none, words, np.zeros((0, _TAG_BLOCKS, 2), np.uint64))
    seeds = np.frombuffer(raw, "<u8", 2 * nodes).reshape(slots, depth, 2)
    at = 16 * nodes
    packed = np.frombuffer(raw, np.uint8, -(-2 * nodes // 8), at)
    bits = np.unpackbits(packed, bitorder="little")
    at += len(packed)
    words = np.frombuffer(raw, "<u4", slots * shape.width, at).reshape(slots, shape.width)
    tags = np.frombuffer(raw, "<u8", slots * 4, at + words.nbytes).reshape(slots, 2, 2)
    if (seeds[:, :, 0] & _ONE).any() or bits[2 * nodes :].any():
        raise MalformedMessage("a correction with a bit that is never set")
    if (words >= P).any():
        raise MalformedMessage("a correction that is no number of the field")
    if not tags.any(axis=(1, 2)).all():
        raise MalformedMessage("a slot without a tag")
    shaped = bits[: 2 * nodes].astype(np.uint64).reshape(slots, depth, 2)
    return Core(seeds, shaped, words, tags)


def root_seeds(seed: bytes, slots: int) -> Seeds:
    """The roots of all slots, from one server's seed, without their lowest bits: (slots, 2)."""
    raw = stream(kdf16(b"roots", seed), SEED_BYTES * slots)
    roots = np.frombuffer(raw, dtype="<u8").reshape(slots, 2).copy()
    roots[:, 0] &= _NO_BIT
    return roots


@dataclass(frozen=True)
class ReportBlocks:
    """Keys of a report's trees: another one for each report, so that no table helps."""

    extend: Blocks
    convert: Blocks

    @staticmethod
    def of(round_id: bytes, report: bytes) -> ReportBlocks:
        """Of one report of one round."""
        return ReportBlocks(
            Blocks(kdf16(b"extend", round_id, report)), Blocks(kdf16(b"convert", round_id, report))
        )


def make_core(
    shape: Shape,
    blocks: ReportBlocks,
    seeds: tuple[bytes, bytes],
    positions: npt.NDArray[np.int64],
    rows: Words,
) -> Core:
    """Corrections that put each slot's row (slots, width), in [0, p), at its position (slots,)."""
    slots, depth = shape.layout.slots, shape.layout.depth
    here = [root_seeds(seed, slots) for seed in seeds]
    control = [np.zeros(slots, np.uint64), np.ones(slots, np.uint64)]
    corrections = np.empty((slots, depth, 2), np.uint64)
    bits = np.empty((slots, depth, 2), np.uint64)
    every = np.arange(slots)
    for level in range(depth):
        turn = (positions >> (depth - 1 - level)) & 1  # 0: left
        grown = [
            _grow(blocks.extend, mine) for mine in here
        ]  # seeds (slots, 2, 2), bits (slots, 2)
        lost = 1 - turn
        corrections[:, level] = grown[0][0][every, lost] ^ grown[1][0][every, lost]
        bits[:, level] = grown[0][1] ^ grown[1][1]
        bits[every, level, turn] ^= _ONE  # bits of the kept child differ, the other's not
        for server in (0, 1):
            t = control[server]
            kept = grown[server][0][every, turn] ^ (t[:, None] * corrections[:, level])
            control[server] = grown[server][1][every, turn] ^ (t * bits[every, level, turn])
            here[server] = kept
    leaves = [blocks.convert.expand(mine, shape.leaf_blocks) for mine in here]
    words = [_leaf_words(leaf, shape.width) for leaf in leaves]
    difference = fold(sub(rows, words[0]) + words[1])  # β - convert(s_0) + convert(s_1)
    signed = np.where(control[1][:, None] == 1, negate(difference), difference)
    tags = leaves[0][:, -_TAG_BLOCKS:] ^ leaves[1][:, -_TAG_BLOCKS:]
    exact = np.where(signed == PRIME, np.uint64(0), signed).astype(np.uint32)
    return Core(corrections, bits, exact, tags)


def _grow(extend: Blocks, seeds: Seeds) -> tuple[Seeds, npt.NDArray[np.uint64]]:
    """Both children and their control bits, before any correction: (n, 2, 2) and (n, 2)."""
    children = extend.expand(seeds, 2)
    control = children[:, :, 0] & _ONE
    children[:, :, 0] &= _NO_BIT
    return children, control


def _leaf_words(leaf: Seeds, width: int) -> Words:
    """convert(s): the first words & p, where p counts as 0: (n, width).

    Skipping p as streams do would make positions differ; p comes once in 2^31 words.
    """
    words = leaf[:, :-_TAG_BLOCKS].copy().view(np.uint32).reshape(len(leaf), -1)[:, :width]
    masked = words.astype(np.uint64) & PRIME
    return np.where(masked == PRIME, np.uint64(0), masked)


Leaves = tuple[Seeds, npt.NDArray[np.uint64]]  # (slots, size, 2) and (slots, size)


# All but the last argument of `expand`.
Expand = Callable[[Shape, ReportBlocks, int, bytes, Core, Words32, See], Words]


class Add(Protocol):
    """Converts the leaves of some slots; adds their words to `into` (slots, size, width)."""

    def __call__(
        self, shape: Shape, blocks: ReportBlocks, leaves: Leaves, core: Core, into: Words32
    ) -> tuple[Words, Tags]:
        """Column sums (slots, width), p at most, and corrected tags (slots·size, 2, 2)."""


def expand_leaves(
    shape: Shape, blocks: ReportBlocks, server: int, roots: Seeds, core: Core
) -> Leaves:
    """Seeds and control bits of all positions of some slots, from their roots (slots, 2)."""
    layout, slots = shape.layout, len(roots)
    seeds = roots[:, None]  # (slots, 1, 2)
    control = np.full((slots, 1), server, dtype=np.uint64)
    for level in range(layout.depth):
        nodes = seeds.shape[1]
        children, bits = _grow(blocks.extend, seeds.reshape(-1, 2))
        children = children.reshape(slots, nodes, 2, 2)
        bits = bits.reshape(slots, nodes, 2)
        mask = (np.uint64(0) - control)[:, :, None]  # all ones where t = 1
        children ^= mask[:, :, :, None] & core.seeds[:, level, None, None, :]
        bits ^= mask & core.bits[:, level, None, :]
        below = 1 << (layout.depth - 1 - level)  # leaves of each child
        needed = -(-layout.size // below)  # the others have no position
        seeds = children.reshape(slots, -1, 2)[:, :needed]
        control = bits.reshape(slots, -1)[:, :needed]
    return np.ascontiguousarray(seeds), np.ascontiguousarray(control)


def add_words(
    shape: Shape, blocks: ReportBlocks, leaves: Leaves, core: Core, into: Words32
) -> tuple[Words, Tags]:
    """See `Add`."""
    seeds, control = leaves
    made = blocks.convert.expand(seeds.reshape(-1, 2), shape.leaf_blocks)  # (n, blocks, 2)
    mask = (np.uint64(0) - control)[:, :, None, None]
    tags = made[:, -_TAG_BLOCKS:].reshape(*control.shape, _TAG_BLOCKS, 2)
    tags = tags ^ (mask & core.tags[:, None])
    prime = np.uint32(P)
    words = made.view(np.uint32).reshape(*control.shape, -1)[:, :, : shape.width] & prime
    words[words == prime] = 0
    words += control.astype(np.uint32)[:, :, None] * core.words[:, None]  # below 2p
    columns = fold(np.sum(words, axis=1, dtype=np.uint64))
    for more in (0, into):
        words += more
        high = words >> np.uint32(31)
        words &= prime
        words += high
    into[:] = words
    return columns, tags.reshape(-1, _TAG_BLOCKS, 2)


def expand(
    shape: Shape,
    blocks: ReportBlocks,
    server: int,
    seed: bytes,
    core: Core,
    into: Words32,
    see: See,
    add: Add = add_words,
) -> Words:
    """What a server's report becomes, without the server's sign; some slots at a time.

    Words of all positions are added to `into` (slots, size, width), p at most; `see` gets all tags,
    piece after piece. Returned are the sums over each slot's positions, p at most: (slots, width).
    """
    roots = root_seeds(seed, shape.layout.slots)
    columns = np.empty(core.words.shape, np.uint64)
    some = max(1, CHUNK // shape.layout.size)
    for first in range(0, shape.layout.slots, some):
        here = slice(first, first + some)
        mine = Core(core.seeds[here], core.bits[here], core.words[here], core.tags[here])
        leaves = expand_leaves(shape, blocks, server, roots[here], mine)
        columns[here], tags = add(shape, blocks, leaves, mine, into[here])
        see(tags)
    return columns
