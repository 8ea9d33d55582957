"""The sequence part on the device: a query from the history, scores, and their exact reasons.

    q = sum_l v_l * P_{i_l},  v_l = sum_s w_s(l) a_s            (k,) model.py has w
    z_j = <q, C_j> + kappa·b_j = sum_l <v_l * P_{i_l}, C_j> + kappa·b_j

q is linear in the history, so a score splits exactly into one number for each of its items and
one for popularity. Like u of `solve` it is derived, never stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrap_core.model import History, Rows, SequenceRows
from fedrap_core.sequence.model import (
    Kernels,
    Matrix,
    SequenceItems,
    Vector,
    kernel_weights,
    window,
)


@dataclass(frozen=True, eq=False)
class SequenceUser:
    """One user under one release."""

    items: Rows  # (n,) distinct items of the window, newest first
    pieces: Matrix  # (n, k) what each of them adds to q, repeats added up

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
    items: SequenceItems | SequenceRows, history: History, method: Kernels
) -> SequenceUser:
    """q of a user whose history, newest first, is given."""
    rows = window(history, method)[::-1]  # (n,) newest first
    scales = kernel_weights(method, len(rows)).T @ items.kernels  # (n, k) v_l
    found, first, where = np.unique(rows, return_index=True, return_inverse=True)
    pieces = np.zeros((len(found), items.kernels.shape[1]))
    np.add.at(pieces, where, scales * items.inputs(rows))
    order = np.argsort(first, kind="stable")
    return SequenceUser(found[order], pieces[order])


def sequence_scores(user: SequenceUser, items: SequenceItems, kappa: float) -> Vector:
    """z_j of every item: (m,)."""
    return items.scores(user.query, kappa)


def sequence_reasons(
    user: SequenceUser, items: SequenceItems | SequenceRows, rows: Rows, kappa: float
) -> SequenceReasons:
    """Why items `rows` have the scores they have."""
    bias = np.asarray(items.bias[rows], dtype=np.float64)
    return SequenceReasons(items.take(rows) @ user.pieces.T, kappa * bias)
