"""`dpf.expand` from a compiler: C where there is one, else numba; the same bits.

For servers alone, and the one place of the core that runs a program: `cc` makes a library of
expand.c in a folder of its own, which is gone once it is loaded, so no folder has to be trusted. An
image without a compiler may have `expand.so` beside expand.c. What was loaded has to have NumPy's
answers to a known report before it is used. Neither C nor numba is a dependency: NumPy serves
catalogues of up to some 100,000 items.
"""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import tempfile
from functools import cache, partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from fedrap_core.split import dpf
from fedrap_core.split.dpf import Core, Expand, Leaves, ReportBlocks, See, Shape, Tags, root_seeds
from fedrap_core.split.field import P, Words, Words32, fold
from fedrap_core.split.layout import Layout
from fedrap_core.split.xof import Seeds, shuffle

Way = Literal["c", "numba", "numpy"]  # from the quickest on
WORTH = 1 << 16  # numbers of one report
_WAYS: tuple[Way, ...] = get_args(Way)
_SOURCE = __file__.replace("compiled.py", "expand.c")
_BUILD = ("-O3", "-shared", "-fPIC")
_C_CHUNK = 1 << 15  # leaves at a time


def best_expansion(wanted: Way, shape: Shape) -> tuple[Way, Expand]:
    """Which way it is, and it: the one that is wanted, or the next that works and is worth it."""
    layout = shape.layout
    return _from(wanted if layout.slots * layout.size * shape.width >= WORTH else "numpy")


def usual_expansion(wanted: Way) -> Way:
    """What `best_expansion` comes to here, of reports that are worth it."""
    return _from(wanted)[0]


@cache
def _from(wanted: Way) -> tuple[Way, Expand]:
    if wanted == "numpy":
        return wanted, dpf.expand
    made = _from_c() if wanted == "c" else _from_numba()
    if made is not None and _is_right(made):
        return wanted, made
    return _from(_WAYS[_WAYS.index(wanted) + 1])


def _is_right(expand: Expand) -> bool:
    """Does it say what NumPy says, of a report of random corrections?"""
    rng = np.random.default_rng(1)
    shape = Shape(Layout(bytes(16), 3 * 64 * 7, 40), 9)
    slots, size, depth = shape.layout.slots, shape.layout.size, shape.layout.depth
    core = Core(
        rng.integers(0, 1 << 63, (slots, depth, 2), dtype=np.uint64) & ~np.uint64(1),
        rng.integers(0, 2, (slots, depth, 2), dtype=np.uint64),
        rng.integers(0, P, (slots, shape.width), dtype=np.uint32),
        rng.integers(0, 1 << 63, (slots, 2, 2), dtype=np.uint64),
    )
    start = rng.integers(0, P, (slots, size, shape.width), dtype=np.uint32, endpoint=True)
    found = []
    for way in (dpf.expand, expand):
        into, seen = start.copy(), list[Tags]()
        for server in (0, 1):
            blocks = ReportBlocks.of(bytes(16), bytes([server]))
            columns = way(shape, blocks, server, bytes(16), core, into, seen.append)
            seen.append(columns)
        found.append((into.tobytes(), b"".join(one.tobytes() for one in seen)))
    return found[0] == found[1]


def _from_c() -> Expand | None:
    """By expand.c, where that can be had."""
    library = _opened(_SOURCE.replace(".c", ".so")) or _built()
    if library is None or not library.fedrap_supported():
        return None
    return partial(_expand_in_c, library)


def _opened(path: str) -> Any:
    try:
        return ctypes.CDLL(path)
    except OSError:
        return None


def _built() -> Any:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/expand.so"
        try:
            subprocess.run(
                [compiler, *_BUILD, "-o", path, _SOURCE],
                check=True,
                capture_output=True,
                timeout=60,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return _opened(path)  # it stays mapped when the file is gone


def _expand_in_c(
    library: Any,
    shape: Shape,
    blocks: ReportBlocks,
    server: int,
    seed: bytes,
    core: Core,
    into: Words32,
    see: See,
) -> Words:
    """See `dpf.expand`."""
    layout, width = shape.layout, shape.width
    roots, size = root_seeds(seed, layout.slots), layout.size
    parts = [
        np.require(part, requirements=["C", "A"])
        for part in (roots, core.seeds, core.bits, core.words, core.tags)
    ]
    some = min(max(1, _C_CHUNK // size), layout.slots)
    columns = np.empty((layout.slots, width), np.uint64)
    tags = np.empty((some * size, 2, 2), np.uint64)
    scratch = np.empty((size + 1 + shape.leaf_blocks + 8, 2), np.uint64)  # 8: MANY of expand.c
    control = np.empty(size + 1, np.uint8)
    assert into.flags.c_contiguous
    assert into.shape == (layout.slots, size, width)
    for first in range(0, layout.slots, some):
        here = slice(first, first + some)
        count = len(roots[here])
        numbers = [ctypes.c_int64(n) for n in (count, size, width, layout.depth, server)]
        arrays = [
            *(part[here] for part in parts),
            into[here],
            columns[here],
            tags,
            scratch,
            control,
        ]
        library.fedrap_expand(
            blocks.extend.key, blocks.convert.key, *numbers,
            *(ctypes.c_void_p(one.ctypes.data) for one in arrays),
        )  # fmt: skip
        see(tags[: count * size])
    return fold(columns)


def _from_numba() -> Expand | None:
    """Where numba is installed: compiled at the first use, kept on the disk."""
    if importlib.util.find_spec("numba") is None:
        return None
    from numba import njit

    compiled: Any = njit(cache=True, nogil=True)(_pass)

    def add(
        shape: Shape, blocks: ReportBlocks, leaves: Leaves, core: Core, into: Words32
    ) -> tuple[Words, Tags]:
        seeds, control = leaves
        shuffled = shuffle(seeds.reshape(-1, 2), shape.leaf_blocks)
        columns = np.zeros(core.words.shape, np.uint64)
        tags = np.empty((len(shuffled), 2, 2), np.uint64)
        hashed = blocks.convert.encrypt(shuffled)
        words, corrections = np.ascontiguousarray(core.words), np.ascontiguousarray(core.tags)
        compiled(shuffled, hashed, control, words, corrections, into, columns, tags)
        return fold(columns), tags

    return partial(dpf.expand, add=add)


def _pass(
    shuffled: Seeds,  # (n, blocks, 2)
    hashed: Seeds,
    control: npt.NDArray[np.uint64],  # (slots, size)
    words: Words32,  # (slots, width)
    tags: Seeds,  # (slots, 2, 2)
    into: Words32,  # (slots, size, width)
    columns: npt.NDArray[np.uint64],  # (slots, width)
    corrected: Tags,  # (slots·size, 2, 2)
) -> None:
    """The leaves of some slots: words into sums and column sums, and tags."""
    prime, half, bits = np.uint64(P), np.uint64(32), np.uint64(31)
    size, last = control.shape[1], shuffled.shape[1] - 2
    for leaf in range(shuffled.shape[0]):
        slot, position = leaf // size, leaf % size
        t = control[slot, position]
        mask = np.uint64(0) - t
        for block in range(2):
            for part in range(2):
                made = shuffled[leaf, last + block, part] ^ hashed[leaf, last + block, part]
                corrected[leaf, block, part] = made ^ (mask & tags[slot, block, part])
        for word in range(words.shape[1]):
            block, part, high = word // 4, (word // 2) % 2, word % 2
            both = shuffled[leaf, block, part] ^ hashed[leaf, block, part]
            value = (both >> (half * np.uint64(high))) & prime
            if value == prime:
                value = np.uint64(0)
            value += t * np.uint64(words[slot, word])
            columns[slot, word] += value  # below 2^32 each: folded at the end
            value = (value & prime) + (value >> bits) + np.uint64(into[slot, position, word])
            into[slot, position, word] = np.uint32((value & prime) + (value >> bits))
