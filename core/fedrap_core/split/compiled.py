"""`dpf.add_words` in one pass over the leaves, where numba is installed; the same numbers.

numba is no dependency of a server: without it NumPy does the same in several passes, which serves
catalogues of up to some 100,000 items.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrap_core.split import dpf
from fedrap_core.split.dpf import CHUNK, Core, Expansion, ReportBlocks, Shape
from fedrap_core.split.field import P, Words32, fold
from fedrap_core.split.xof import Seeds, shuffle

WORTH = 1 << 18  # numbers of one report
Leaves = tuple[Seeds, npt.NDArray[np.uint64]]


def is_available() -> bool:
    """Is numba installed?"""
    return importlib.util.find_spec("numba") is not None


def add_words(
    shape: Shape, blocks: ReportBlocks, leaves: Leaves, core: Core, into: Words32 | None
) -> Expansion:
    """See `dpf.add_words`; compiled where it can be and is worth to load numba for."""
    numbers = shape.layout.slots * shape.layout.size * shape.width
    if into is None or numbers < WORTH or not is_available():
        return dpf.add_words(shape, blocks, leaves, core, into)
    seeds, control = leaves
    made = Expansion(shape)
    size, pass_over = shape.layout.size, _pass_over()
    some = max(1, CHUNK // size)
    words, tags = np.ascontiguousarray(core.words), np.ascontiguousarray(core.tags)
    for first in range(0, shape.layout.slots, some):
        shuffled = shuffle(seeds[first : first + some].reshape(-1, 2), shape.leaf_blocks)
        hashed = blocks.convert.encrypt(shuffled)
        pass_over(
            first, size, shape.width, shuffled, hashed, control, words, tags,
            into, made.columns, made.tags,
        )  # fmt: skip
    made.columns = fold(made.columns)
    return made


@lru_cache(maxsize=1)
def _pass_over() -> Callable[..., None]:
    """Compiled at the first use, kept on the disk."""
    from numba import njit

    compiled: Any = njit(cache=True, nogil=True)(_pass)
    return compiled  # type: ignore[no-any-return]


def _pass(
    first: int,
    size: int,
    width: int,
    shuffled: Seeds,  # (n, blocks, 2)
    hashed: Seeds,
    control: npt.NDArray[np.uint64],  # (slots, size)
    words: Words32,  # (slots, width)
    tags: Seeds,  # (slots, 2, 2)
    into: Words32,  # (slots, size, width)
    columns: npt.NDArray[np.uint64],  # (slots, width)
    corrected: npt.NDArray[np.uint64],  # (slots·size, 2, 2)
) -> None:
    """The leaves of some slots from `first` on: words into sums and column sums, and tags."""
    prime = np.uint64(P)
    half = np.uint64(32)
    for leaf in range(shuffled.shape[0]):
        slot, position = first + leaf // size, leaf % size
        t = control[slot, position]
        mask = np.uint64(0) - t
        at = first * size + leaf
        last = shuffled.shape[1] - 2
        for block in range(2):
            for part in range(2):
                made = shuffled[leaf, last + block, part] ^ hashed[leaf, last + block, part]
                corrected[at, block, part] = made ^ (mask & tags[slot, block, part])
        for word in range(width):
            block, part, high = word // 4, (word // 2) % 2, word % 2
            both = shuffled[leaf, block, part] ^ hashed[leaf, block, part]
            value = (both >> (half * np.uint64(high))) & prime
            if value == prime:
                value = np.uint64(0)
            value += t * np.uint64(words[slot, word])
            columns[slot, word] += value  # below 2^32 each: folded at the end
            value += np.uint64(into[slot, position, word])  # below 3p
            if value >= prime:
                value -= prime
            if value >= prime:
                value -= prime
            into[slot, position, word] = np.uint32(value)
