"""Item ids of a catalogue in a few bytes each: one blob, offsets, and a hash index.

A million Python strings in a dictionary take 200 MB; this takes their bytes and 8 more each. An id
has 1 to 200 characters and no line break.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import MalformedMessage

MAX_CHARACTERS = 200
_NEWLINE = 10
_CHUNK = 8192  # names hashed at once
_SAMPLE = 8  # every so many keys one is kept
_FACTOR = 0x9E3779B97F4A7C15  # odd, so that powers of it have inverses modulo 2^64
_INVERSE = pow(_FACTOR, -1, 2**64)
_MASK = 2**64 - 1


def is_item_id(text: str) -> bool:
    """1 to 200 characters, none of them a line break."""
    return 0 < len(text) <= MAX_CHARACTERS and re.search(r"[\r\n]", text) is None


def join_ids(ids: list[str]) -> bytes:
    """The ids as one blob, a newline behind each."""
    return "".join(f"{one}\n" for one in ids).encode("utf-8")


class ItemIds:
    """Row -> id and id -> row of a catalogue; immutable.

    Raises:
        MalformedMessage: the blob is not a list of ids.
    """

    def __init__(self, blob: bytes = b"") -> None:
        if blob and blob[-1] != _NEWLINE:
            raise MalformedMessage("the last item id has no end")
        self.blob = blob
        self._ends = _ends_of(blob)  # (m,) where the newline behind each id is
        first = int(self._ends[0]) if len(self) else 1
        steps = np.diff(self._ends)  # (m - 1,) bytes of each but the first, and its newline
        least, most = int(steps.min(initial=2)), int(steps.max(initial=2))
        longest = 4 * MAX_CHARACTERS
        if not (1 <= first <= longest and least >= 2 and most <= longest + 1):
            raise MalformedMessage("an item id is empty or too long")
        self._index: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]] | None = None

    def __len__(self) -> int:
        return len(self._ends)

    def name(self, row: int) -> str:
        """The id of a row."""
        start = int(self._ends[row - 1]) + 1 if row else 0
        return self.blob[start : int(self._ends[row])].decode("utf-8", "replace")

    def row(self, name: str) -> int | None:
        """The row of an id; None for one that is not here."""
        if self._index is None:
            self._index = self._hash_all()
        sample, order = self._index
        raw = name.encode("utf-8", "surrogatepass")
        key = np.uint32(_hash_one(raw))
        start = max(0, int(np.searchsorted(sample, key, "left")) - 1) * _SAMPLE
        stop = int(np.searchsorted(sample, key, "right")) * _SAMPLE
        for row in order[start:stop].tolist():
            first = int(self._ends[row - 1]) + 1 if row else 0
            if self.blob[first : int(self._ends[row])] == raw:
                return int(row)
        return None

    def extended(self, blob: bytes) -> ItemIds:
        """These ids and more behind them."""
        return ItemIds(self.blob + blob)

    def _hash_all(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Every eighth key in order, and all rows in order of their keys."""
        keys = np.empty(len(self), dtype=np.uint32)
        for start in range(0, len(self), _CHUNK):
            stop = min(start + _CHUNK, len(self))
            keys[start:stop] = self._hash_chunk(start, stop)
        order, filled = np.empty(len(self), dtype=np.uint32), 0
        for top in range(256):  # by the first byte of the key: a sort of all would take 8 MB more
            rows = np.flatnonzero(keys >> np.uint32(24) == top)
            rows = rows[np.argsort(keys[rows], kind="stable")]
            order[filled : filled + len(rows)] = rows
            filled += len(rows)
        return keys[order[::_SAMPLE]], order

    def _hash_chunk(self, start: int, stop: int) -> npt.NDArray[np.uint32]:
        base = int(self._ends[start - 1]) + 1 if start else 0
        ends = self._ends[start:stop].astype(np.int64) - base  # (c,) where each newline is
        begins = np.concatenate([[0], ends[:-1] + 1])  # (c,)
        raw = np.frombuffer(self.blob, dtype=np.uint8)[base : base + int(ends[-1]) + 1]
        powers = np.full(len(raw), _FACTOR, dtype=np.uint64)
        powers[0] = 1
        powers = np.cumprod(powers)  # (L,) F^i modulo 2^64
        terms = np.cumsum((raw.astype(np.uint64) + np.uint64(1)) * powers)  # (L,)
        before = np.where(begins > 0, terms[begins - 1], np.uint64(0))  # (c,)
        # A name's sum starts at F^begin; dividing by it makes equal names hash alike anywhere.
        inverse = np.full(len(raw), _INVERSE, dtype=np.uint64)
        inverse[0] = 1
        inverse = np.cumprod(inverse)[begins]  # (c,) F^-begin
        whole = (terms[ends - 1] - before) * inverse  # (c,)
        return np.asarray(whole >> np.uint64(32), dtype=np.uint32)


def _ends_of(blob: bytes) -> npt.NDArray[np.uint32]:
    """Where the newlines are: (m,). In pieces, so that nothing large is made on the way."""
    raw = np.frombuffer(blob, dtype=np.uint8)
    ends = np.empty(blob.count(b"\n"), dtype=np.uint32)
    filled, piece = 0, 1 << 18
    for start in range(0, len(raw), piece):
        found = np.flatnonzero(raw[start : start + piece] == _NEWLINE) + start
        ends[filled : filled + len(found)] = found
        filled += len(found)
    return ends


def _hash_one(raw: bytes) -> int:
    total, power = 0, 1
    for byte in raw:
        total = (total + (byte + 1) * power) & _MASK
        power = (power * _FACTOR) & _MASK
    return total >> 32
