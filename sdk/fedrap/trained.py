"""What rounds of `paper` leave on the device, as it is kept in the store."""

from __future__ import annotations

import msgspec
import numpy as np

from fedrap_core.model import Rows
from fedrap_core.paper.problem import PaperState


class TrainedBlock(msgspec.Struct, frozen=True):
    """u, the bias and the rows of D, as little-endian bytes; sealed by the store."""

    user: bytes
    bias: float
    rows: bytes
    personal: bytes


def pack_trained(state: PaperState) -> TrainedBlock:
    """A state as bytes."""
    return TrainedBlock(
        state.user.astype("<f8").tobytes(),
        float(state.bias),
        state.rows.astype("<i8").tobytes(),
        state.personal.astype("<f8").tobytes(),
    )


def unpack_trained(block: TrainedBlock | None) -> PaperState | None:
    """A state from bytes; None when this device never trained with `paper`."""
    if block is None:
        return None
    user = np.frombuffer(block.user, dtype="<f8").astype(np.float64)  # (k,)
    rows = np.frombuffer(block.rows, dtype="<i8").astype(np.int64)  # (n,)
    personal = np.frombuffer(block.personal, dtype="<f8").astype(np.float64)
    return PaperState(user, block.bias, rows, personal.reshape(len(rows), len(user)))


def keep_rows(state: PaperState | None, rows: Rows) -> PaperState | None:
    """A state without the rows of D that are not among `rows`; the same one if there are none."""
    if state is None or not len(state.rows):
        return state
    touched = np.zeros(int(max(state.rows.max(), rows.max(initial=0))) + 1, dtype=np.bool_)
    touched[rows] = True
    kept = touched[state.rows]  # (n,)
    if kept.all():
        return state
    return PaperState(state.user, state.bias, state.rows[kept], state.personal[kept])
