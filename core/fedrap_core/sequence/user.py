"""The sequence part on the device: a query from the history, scores, and their exact reasons.

    q = sum_l v_l * P_{i_l},  v_l = sum_s w_s(l) a_s            (k,) model.py has w
    z_j = <q, C_j> + kappa·b_j = sum_l <v_l * P_{i_l}, C_j> + kappa·b_j

Each item of the history adds a piece to q, also where the query is adapted (adaptation.py), so a
score splits exactly into one number for each of them and one for popularity. Like u of `solve` it
is derived, never stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrap_core.model import History, Rows, SequenceRows
from fedrap_core.sequence.adaptation import ages_weight, depth, step_size, surprises
from fedrap_core.sequence.model import (
    Kernels,
    Matrix,
    SequenceItems,
    Vector,
    kernel_weights,
    newest,
)


@dataclass(frozen=True, eq=False)
class SequenceUser:
    """One user under one release."""

    items: Rows  # (n,) distinct items of the window, newest first
    pieces: Matrix  # (n, k) what each of them adds to q, repeats added up
    read: Rows  # what q was made of, newest first, repeats and all
    unexpected: Matrix  # (T, k) s_t of the newest of them; none where q is not adapted

    @property
    def query(self) -> Vector:
        """q: (k,); zeros for an empty history."""
        return np.asarray(self.pieces.sum(axis=0))


@dataclass(frozen=True, eq=False)
class SequenceReasons:
    """Scores of some items in pieces that add up to them."""

    history: Matrix  # (len(rows), n) one number for each of `SequenceUser.items`
    popularity: Vector  # (len(rows),) kappa·b_j


def derive_query(
    items: SequenceItems | SequenceRows,
    history: History,
    method: Kernels,
    before: SequenceUser | None = None,
) -> SequenceUser:
    """q of a user whose history, newest first, is given.

    `before` is the same user of an earlier moment under the same release and scoring: what it knows
    is not worked out again.
    """
    step = step_size(method)
    read = newest(history, method, method.longest + (depth(method) if step > 0 else 0))
    rows = read[: method.longest]  # (n,)
    scales = kernel_weights(method, len(rows)).T @ items.kernels  # (n, k) v_l
    added = scales * items.inputs(rows)  # (n, k)
    unexpected = np.zeros((0, items.kernels.shape[1]))
    if step > 0:
        known = unexpected if before is None else _still_known(before, read, method)
        unexpected = np.concatenate([surprises(items, read, method, len(known)), known])
        here = len(unexpected)
        added[:here] += step * ages_weight(here)[:, None] * unexpected[:here]
    found, first, where = np.unique(rows, return_index=True, return_inverse=True)
    pieces = np.zeros((len(found), items.kernels.shape[1]))
    np.add.at(pieces, where, added)
    order = np.argsort(first, kind="stable")
    return SequenceUser(found[order], pieces[order], read, unexpected)


def _still_known(before: SequenceUser, read: Rows, method: Kernels) -> Matrix:
    """s_t that were worked out when the history had one interaction less: (T', k)."""
    most = method.longest + depth(method)
    grown = len(before.read) == len(read) - 1 or len(before.read) == len(read) == most
    if grown and np.array_equal(read[1:], before.read[: len(read) - 1]):
        return before.unexpected[: depth(method) - 1]
    return before.unexpected[:0]


def sequence_scores(user: SequenceUser, items: SequenceItems, kappa: float) -> Vector:
    """z_j of every item: (m,)."""
    return items.scores(user.query, kappa)


def sequence_reasons(
    user: SequenceUser, items: SequenceItems | SequenceRows, rows: Rows, kappa: float
) -> SequenceReasons:
    """Why items `rows` have the scores they have."""
    bias = np.asarray(items.bias[rows], dtype=np.float64)
    return SequenceReasons(items.take(rows) @ user.pieces.T, kappa * bias)
