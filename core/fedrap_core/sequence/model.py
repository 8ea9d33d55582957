"""The sequence part: a second, linear view of the items, learnt by softmax cross-entropy.

    P_j = C_j + Delta_j                                   an item as input: additive, as C + D is
    w_s(l) = exp(-l/tau_s) / sqrt(sum_l exp(-l/tau_s))    l = 0 the newest before the question
    h_s = sum_l w_s(l) P_{i_l}                            (k,) one for each time kernel
    q = sum_s a_s * h_s                                   (k,) element by element
    p_j = softmax_j(<q, C_j> + b_j)                       what comes next

Without order there is one kernel, w = 1/sqrt(n) for each of n inputs. Weights of interactions
are `solve`'s business: here each one is a place in the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import BrokenModel
from fedrap_core.model import History, Rows, SequenceRows
from fedrap_core.plan import SequenceMethod, SequenceScoring
from fedrap_core.quantize import quantize_rows

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]

Kernels = SequenceMethod | SequenceScoring  # both say what q is made of

FADED = 1e-4  # exp(-l/tau) below this is zero: nobody would see it, and most inputs are that old


@dataclass(frozen=True, eq=False)
class SequenceItems:
    """What all devices share for the sequence part.

    Raises:
        BrokenModel: shapes that disagree, or a value that is not finite.
    """

    outputs: Matrix  # (m, k) C
    offsets: Matrix  # (m, k) Delta
    bias: Vector  # (m,) b
    kernels: Matrix  # (S, k) a

    def __post_init__(self) -> None:
        size, dim = self.outputs.shape
        if self.offsets.shape != (size, dim) or self.bias.shape != (size,):
            raise BrokenModel(f"C is {size} x {dim}, but its offsets or bias have another shape")
        if self.kernels.ndim != 2 or self.kernels.shape[1] != dim:
            raise BrokenModel(f"time kernels need {dim} columns, not {self.kernels.shape}")
        for part in (self.outputs, self.offsets, self.bias, self.kernels):
            if not np.all(np.isfinite(part)):
                raise BrokenModel("the sequence part has a value that is not finite")

    @property
    def size(self) -> int:
        """m, the number of items."""
        return len(self.outputs)

    def inputs(self, rows: Rows) -> Matrix:
        """P of some items: (len(rows), k)."""
        return np.asarray(self.outputs[rows] + self.offsets[rows])

    def take(self, rows: Rows) -> Matrix:
        """C of some items: (len(rows), k)."""
        return np.asarray(self.outputs[rows])

    def scores(self, queries: Matrix, kappa: float = 1.0) -> Matrix:
        """<q, C_j> + kappa·b_j of every item: (len(queries), m)."""
        return np.asarray(queries @ self.outputs.T + kappa * self.bias)


def to_rows(items: SequenceItems) -> SequenceRows:
    """As a release has them: int8 rows, float32 bias and kernels.

    Raises:
        NotFinite: a number is absurdly large.
        BrokenModel: it is not as large, but no device would take it.
    """
    return SequenceRows(
        quantize_rows(items.outputs),
        quantize_rows(items.offsets),
        items.bias.astype(np.float32),
        items.kernels.astype(np.float32),
    )


def from_rows(rows: SequenceRows) -> SequenceItems:
    """What devices work with, in float64."""
    return SequenceItems(
        rows.outputs.to_float().astype(np.float64),
        rows.offsets.to_float().astype(np.float64),
        rows.bias.astype(np.float64),
        rows.kernels.astype(np.float64),
    )


def newest(history: History, method: Kernels, count: int) -> Rows:
    """The newest interactions, newest first: (n,), n at most `count`.

    What speaks against an item is left out. Without order an item counts once: among all others it
    would predict itself.
    """
    rows = history.liked().rows
    if not method.ordered:
        _, first = np.unique(rows, return_index=True)
        rows = rows[np.sort(first)]
    return rows[:count].astype(np.int64)


def window(history: History, method: Kernels) -> Rows:
    """What a round looks at, oldest first: (n,), n at most `longest`."""
    return newest(history, method, method.longest)[::-1]


def fading(method: Kernels, count: int) -> Matrix:
    """exp(-l/tau_s) for l = 0 … count - 1, before it is scaled: (S, count)."""
    if not method.ordered:
        return np.ones((1, count))
    age = np.arange(count, dtype=np.float64)  # (count,)
    fade = np.exp(-age / np.array(method.taus)[:, None])  # (S, count)
    return np.where(fade < FADED, 0.0, fade)


def kernel_weights(method: Kernels, count: int) -> Matrix:
    """w_s(l) of `count` inputs, l = 0 the newest: (S, count)."""
    fade = fading(method, count)
    # The root keeps |h| about as long however many inputs there are.
    return np.asarray(fade / np.sqrt(np.maximum(fade.sum(axis=1, keepdims=True), 1.0)))
