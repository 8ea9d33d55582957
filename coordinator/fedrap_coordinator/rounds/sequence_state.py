"""What the coordinator remembers of the sequence part: exact rows and Adam's moments, as bytes.

All of it follows from sums that were released, so it costs no epsilon. It is written in the
transaction of its release and read for the step after it, and a step always starts from these
bytes: a coordinator that crashed and one that did not make the same release.

    "FSL2" · u32 m, k, S, steps, since · u32 step that each row came with ·
    float32 C, Delta, b, a, then M of each, then V of each
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedrap_coordinator.domain.cold_start import start_rows
from fedrap_coordinator.domain.records import Attribute
from fedrap_core.ages import with_born
from fedrap_core.errors import BrokenModel, NotFinite
from fedrap_core.model import SequenceRows
from fedrap_core.plan import SequenceMethod
from fedrap_core.sequence.model import SequenceItems, from_rows, to_rows
from fedrap_core.sequence.server_step import (
    Moments,
    SequenceLearner,
    SequenceLearning,
    SequenceSum,
    begin_learner,
    sequence_step,
)
from fedrap_core.solve.server_step import Learner, Learning, cap_moves, reach_of_rows
from fedrap_core.sparse import RowPart

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]
_MAGIC = b"FSL2"
_HEAD = struct.Struct("<4sIIIII")


def pack_learner(learner: SequenceLearner) -> bytes:
    """A learner as bytes: 12 for each number of the model, and 4 for each row."""
    items = learner.items
    (size, dim), kernels = items.outputs.shape, len(items.kernels)
    head = _HEAD.pack(_MAGIC, size, dim, kernels, learner.steps, learner.since)
    all_moments = (learner.outputs, learner.offsets, learner.bias, learner.kernels)
    arrays = [items.outputs, items.offsets, items.bias, items.kernels]
    arrays += [moments.mean for moments in all_moments]
    arrays += [moments.square for moments in all_moments]
    born = np.zeros(size) if learner.born is None else learner.born
    numbers = b"".join(array.astype("<f4").tobytes() for array in arrays)
    return head + born.astype("<u4").tobytes() + numbers


def unpack_learner(raw: bytes) -> SequenceLearner:
    """A learner from bytes.

    Raises:
        BrokenModel: they are no learner.
    """
    if len(raw) < _HEAD.size:
        raise BrokenModel("the state of the sequence part was not kept, or is cut off")
    magic, size, dim, kernels, steps, since = _HEAD.unpack_from(raw)
    shapes = [(size, dim), (size, dim), (size,), (kernels, dim)]
    numbers = 3 * sum(int(np.prod(shape)) for shape in shapes)
    if magic != _MAGIC or len(raw) != _HEAD.size + 4 * (size + numbers) or since > steps:
        raise BrokenModel("the state of the sequence part is damaged")
    born = np.frombuffer(raw, dtype="<u4", offset=_HEAD.size, count=size).astype(np.int64)
    if np.any(born > steps):
        raise BrokenModel("the state of the sequence part has rows of steps to come")
    every = np.frombuffer(raw, dtype="<f4", offset=_HEAD.size + 4 * size)
    if not np.all(np.isfinite(every)):
        raise BrokenModel("the state of the sequence part is not finite")
    arrays, at = [], 0
    for shape in 3 * shapes:
        count = int(np.prod(shape))
        arrays.append(every[at : at + count].astype(np.float64).reshape(shape))
        at += count
    outputs, offsets, bias, kernels = (
        Moments(mean, square) for mean, square in zip(arrays[4:8], arrays[8:], strict=True)
    )
    items = SequenceItems(*arrays[:4])
    return SequenceLearner(items, outputs, offsets, bias, kernels, steps, since, born)


def learner_after(raw: bytes | None, rows: SequenceRows, step: int) -> SequenceLearner:
    """The learner of a release: as it was kept, or else from what was published.

    Without the state, which is kept for a few releases only, or where it is damaged, rows start
    from int8 and moments anew; `step` says where in the schedule.
    """
    try:
        known = unpack_learner(raw or b"")
        if known.items.outputs.shape == rows.outputs.shape:
            return known
        reason = "it is that of other rows"
    except BrokenModel as error:
        reason = str(error)
    log.warning("the sequence part learns on from published rows", extra={"said": reason})
    return begin_learner(from_rows(rows), step)


def fits(rows: SequenceRows | None, method: SequenceMethod) -> bool:
    """Are these rows those of this method, so that it can go on with them?"""
    return rows is not None and rows.kernels.shape == (method.kernels, method.dim)


def learn_sequence(
    learner: SequenceLearner,
    parts: Sequence[RowPart],
    devices: int,
    learning: SequenceLearning,
    bounds: Learning,
    behind: Learner,
) -> SequenceLearner:
    """One step; no row goes further than its reach, where `bounds` have a `row_step`.

    `parts` are the round's sums of inputs, outputs and kernels. Outputs and their bias move as one
    row. The reach is measured by outputs, because offsets and biases start at zero. `behind` is
    what `solve` made of the same round: it knows how many devices stand behind a row.
    """
    inputs, outputs, kernels = parts
    moved = sequence_step(learner, SequenceSum(inputs, outputs, kernels.values, devices), learning)
    if bounds.row_step is None:
        return moved
    before, after = learner.items, moved.items
    support = np.zeros(before.size) if behind.support is None else behind.support
    reach = reach_of_rows(before.outputs, support, bounds.row_step, bounds.min_support)  # (m,)
    joint = cap_moves(_joined(before), _joined(after), reach)  # (m, k + 1)
    offsets = cap_moves(before.offsets, after.offsets, reach)
    return replace(moved, items=SequenceItems(joint[:, :-1], offsets, joint[:, -1], after.kernels))


def _joined(items: SequenceItems) -> Floats:
    return np.column_stack([items.outputs, items.bias])


def grow_learner(
    learner: SequenceLearner, size: int, attributes: Sequence[Attribute]
) -> SequenceLearner:
    """With rows for new items, which start where their neighbours are, as rows of C do."""
    items, count = learner.items, size - learner.items.size
    if count <= 0:
        return learner
    dim = items.outputs.shape[1]
    known = np.column_stack([items.outputs, items.offsets, items.bias])  # (m, 2k + 1)
    fresh = start_rows(known, count, attributes)  # (count, 2k + 1)
    return replace(
        learner,
        items=SequenceItems(
            np.concatenate([items.outputs, fresh[:, :dim]]),
            np.concatenate([items.offsets, fresh[:, dim:-1]]),
            np.concatenate([items.bias, fresh[:, -1]]),
            items.kernels,
        ),
        outputs=_grown(learner.outputs, count),
        offsets=_grown(learner.offsets, count),
        bias=_grown(learner.bias, count),
        born=with_born(learner.born, items.size, size, learner.steps),
    )


def _grown(moments: Moments, count: int) -> Moments:
    none = np.zeros((count, *moments.mean.shape[1:]))
    return Moments(np.concatenate([moments.mean, none]), np.concatenate([moments.square, none]))


def published(learner: SequenceLearner) -> SequenceRows:
    """The rows of the release that this learner makes.

    Raises:
        BrokenModel: a number is not finite or absurdly large.
    """
    try:
        return to_rows(learner.items)
    except NotFinite as error:
        raise BrokenModel("the sequence part has numbers that are absurdly large") from error
