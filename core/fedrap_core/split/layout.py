"""Where an item may lie in a report, and which of its rows lies where.

A report has three tables of B = ceil(1.28·H/3) slots. Each table has its own permutation of the
items [0, m), keyed by the round: item j may lie in slot π_t(j) mod B of table t, at position
π_t(j) div B. A device puts each of its rows into one of its three slots (cuckoo hashing, as
Angel, Chen, Laine and Setty 2018 for batches), and fills what is left with rows of zeros at random
positions, so that every report has as many slots as every other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.model import Rows
from fedrap_core.split.xof import Blocks, kdf16

TABLES = 3
ROUNDS = 4  # of the Feistel network (Luby and Rackoff 1988)
Places = npt.NDArray[np.int64]  # (3, n)


@dataclass(frozen=True)
class Layout:
    """Slots and positions for H rows of m items in one round; for no rows there are none."""

    round: bytes
    items: int  # m
    rows: int  # H

    @property
    def table_slots(self) -> int:
        """B, slots of one table: 1.28·H in all, above which cuckoo hashing loses no row."""
        return -(-128 * self.rows // 300)

    @property
    def slots(self) -> int:
        """Of all three tables."""
        return TABLES * self.table_slots

    @property
    def size(self) -> int:
        """Positions in a slot."""
        return max(1, -(-self.items // self.table_slots)) if self.table_slots else 1

    @property
    def depth(self) -> int:
        """Levels of the tree over a slot's positions."""
        return (self.size - 1).bit_length()

    def places(self, items: Rows) -> tuple[Places, Places]:
        """Slot and position of each item in each table: twice (3, n)."""
        blocks = Blocks(kdf16(b"places", self.round))
        images = np.stack([_permute(blocks, table, items, self.items) for table in range(TABLES)])
        first = np.arange(TABLES)[:, None] * self.table_slots
        return first + images % self.table_slots, images // self.table_slots


def _permute(blocks: Blocks, table: int, items: Rows, size: int) -> npt.NDArray[np.int64]:
    """π_t of each item: a Feistel network over an even number of bits, walked to below `size`."""
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    values = np.asarray(items, dtype=np.uint64)
    left = np.arange(len(values))
    values = values.copy()
    while len(left):
        values[left] = _feistel(blocks, table, values[left], half)
        left = left[values[left] >= size]
    return values.astype(np.int64)


def _feistel(
    blocks: Blocks, table: int, values: npt.NDArray[np.uint64], half: int
) -> npt.NDArray[np.uint64]:
    """(l, r) -> (r, l ⊕ AES(r, table, round)), four times; each half has `half` bits."""
    mask = np.uint64((1 << half) - 1)
    left, right = values >> np.uint64(half), values & mask
    plain = np.zeros((len(values), 2), dtype=np.uint64)
    for number in range(ROUNDS):
        plain[:, 0], plain[:, 1] = right, np.uint64(table << 8 | number)
        left, right = right, left ^ (blocks.encrypt(plain)[:, 0] & mask)
    return np.asarray(left << np.uint64(half) | right)


def assign_slots(slots: Sequence[Sequence[int]], count: int) -> list[int]:
    """The slot of each row among its three, no two in one; -1 where there is none: (n,).

    Rows that come first are never given up for later ones: a shortest augmenting path moves the
    others about, so what is lost can't be had by any arrangement that keeps them.
    """
    owner = [-1] * count
    placed = [-1] * len(slots)
    for row in range(len(slots)):
        came_from: dict[int, int] = {}  # slot -> the row that would take it
        waiting, free = deque([row]), -1
        while waiting and free < 0:
            mover = waiting.popleft()
            for slot in slots[mover]:
                if slot in came_from:
                    continue
                came_from[slot] = mover
                if owner[slot] < 0:
                    free = slot
                    break
                waiting.append(owner[slot])
        while free >= 0:  # along the path, back to the row
            mover = came_from[free]
            owner[free], placed[mover], free = mover, free, placed[mover]
    return placed
