"""What the coordinator remembers of C beside what it published, as bytes.

R, the numbers that zeros hide, and the step that each row came with. Both follow from what was
released and summed, so they cost no epsilon. Without them learning goes on: zeros hide nothing yet,
and all rows are as old as the first.

    "FSO1" · u32 m, k, b, count · u32 step of each of b rows · m·k bits, where R is ·
    float32 of those
"""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.ages import Born, with_born
from fedrap_core.solve.server_step import Learner

log = logging.getLogger(__name__)

_MAGIC = b"FSO1"
_HEAD = struct.Struct("<4sIIII")


@dataclass(frozen=True, eq=False)
class SolveState:
    """R and ages; (0, k) where nothing is hidden."""

    hidden: npt.NDArray[np.float64]  # (m, k)
    born: Born = None

    def of(self, common: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64] | None, Born]:
        """R and ages for these rows of C; None where they are those of others."""
        hidden = born = None
        if self.hidden.shape == common.shape:
            hidden = np.where(common == 0.0, self.hidden, 0.0)
        if self.born is not None and len(self.born) == len(common):
            born = self.born
        return hidden, born

    def grown(self, before: int, size: int, step: int) -> SolveState:
        """With rows up to `size`, which came with `step`."""
        hidden = self.hidden
        if len(hidden) and len(hidden) < size:
            hidden = np.pad(hidden, ((0, size - len(hidden)), (0, 0)))
        return SolveState(hidden, with_born(self.born, before, size, step))


def state_of(learnt: Learner) -> SolveState:
    """What is to be kept of a learner."""
    hidden = learnt.hidden
    return SolveState(learnt.common[:0] if hidden is None else hidden, learnt.born)


def pack_solve(state: SolveState | None) -> bytes:
    """The state as bytes; none where there is nothing to keep."""
    if state is None or (state.born is None and not len(state.hidden)):
        return b""
    there = state.hidden != 0.0
    values = state.hidden[there].astype("<f4")
    born = np.zeros(0) if state.born is None else state.born
    head = _HEAD.pack(_MAGIC, *state.hidden.shape, len(born), len(values))
    parts = (born.astype("<u4"), np.packbits(there), values)
    return head + b"".join(part.tobytes() for part in parts)


def read_solve(raw: bytes) -> tuple[SolveState | None, bytes]:
    """The state at the beginning of these bytes, if any, and what comes after it.

    Where it is damaged there is none, nor what came after it.
    """
    if raw[:4] != _MAGIC:
        return None, raw
    found = _parse(raw)
    if found is None:
        log.warning("the state of the shared matrix is damaged; zeros hide nothing for now")
        return None, b""
    return found


def _parse(raw: bytes) -> tuple[SolveState, bytes] | None:
    if len(raw) < _HEAD.size:
        return None
    _, size, dim, ages, count = _HEAD.unpack_from(raw)
    cells = size * dim
    bits = _HEAD.size + 4 * ages
    numbers = bits + (cells + 7) // 8
    end = numbers + 4 * count
    if len(raw) < end:
        return None
    born = np.frombuffer(raw, "<u4", ages, _HEAD.size).astype(np.int64) if ages else None
    packed = np.frombuffer(raw, np.uint8, numbers - bits, bits)
    there = np.unpackbits(packed, count=cells).astype(np.bool_)
    values = np.frombuffer(raw, "<f4", count, numbers)
    if int(there.sum()) != count or not np.all(np.isfinite(values)):
        return None
    hidden = np.zeros(cells)
    hidden[there] = values
    return SolveState(hidden.reshape(size, dim), born), raw[end:]
