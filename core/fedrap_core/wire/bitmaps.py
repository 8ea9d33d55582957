"""int8 rows of which many entries are exact zeros: a bitmap of the others, and the others alone.

Half of C is zeros. gzip finds them, but not for less than a bit each and the harm they do to its
matches; a bitmap states them and leaves it the numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import BrokenModel

MAX_ENTRIES = 600 * 1024 * 1024  # of one message: a bitmap of zeros is an eighth of what it says

Values = npt.NDArray[np.int8]


def pack_entries(values: Values) -> tuple[bytes, bytes]:
    """The bitmap and the non-zero entries of rows, entry by entry, row after row.

    Entry i is bit i mod 8, from the lowest, of byte i // 8; bits after the last entry are 0.
    """
    entries = np.ascontiguousarray(values).reshape(-1)  # (n·k,)
    there = entries != 0
    return np.packbits(there, bitorder="little").tobytes(), entries[there].tobytes()


def unpack_entries(bitmap: bytes, values: bytes, rows: int, dim: int) -> Values:
    """What `pack_entries` was given: (rows, dim). Sizes are checked before memory is taken.

    Raises:
        BrokenModel: a bitmap of another size or of another number of values, or a value of 0.
    """
    entries = rows * dim
    if entries > MAX_ENTRIES or len(bitmap) != -(-entries // 8):
        raise BrokenModel("a bitmap of another size than its rows")
    bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), bitorder="little")
    there = bits.view(np.bool_)
    if np.any(there[entries:]) or np.count_nonzero(there) != len(values):
        raise BrokenModel("a bitmap that does not have the number of values that came with it")
    known = np.frombuffer(values, dtype=np.int8)  # (non-zeros,)
    if not np.all(known):
        raise BrokenModel("a value of zero where a bitmap says that there is another")
    out = np.zeros(entries, dtype=np.int8)
    out[there[:entries]] = known
    return out.reshape(rows, dim)
