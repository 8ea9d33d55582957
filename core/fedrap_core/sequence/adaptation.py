"""A step of the query towards what its user did and the shared model did not expect.

    s_t = C_{y_t} - sum_j p_tj C_j              (k,) p_t: what q_t, the query before y_t, expects
    q' = q + eta·sum_t 2^(-age_t/HALF)·s_t      the newest LAST items, age 0 the newest of them

-s_t is the gradient of -log p_t(y_t) in q_t: this is one step of gradient descent on an offset of
q that is the user's own, additive as D is. It is made on the device, from its own history, under
the release that it has; nothing of it leaves. Each s_t belongs to the item y_t, so reasons stay
exact. q_t looks at the `longest` items before y_t, so s_t stays what it is while a history grows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedrap_core.model import Rows, SequenceRows
from fedrap_core.plan import SequenceScoring
from fedrap_core.sequence.model import Kernels, Matrix, SequenceItems, Vector, fading

Singles = npt.NDArray[np.float32]

LAST = 32
HALF = 10.0  # items until one counts half
_BLOCK = 8192  # items looked at at once: what this holds does not grow with m


def step_size(method: Kernels) -> float:
    """eta; 0 where q is not adapted."""
    return method.adapts if isinstance(method, SequenceScoring) else 0.0


def depth(method: Kernels) -> int:
    """How many items q is adapted by, at the most: those that it is made of."""
    return min(LAST, method.longest)


def ages_weight(count: int) -> Vector:
    """2^(-age/HALF) of the newest `count`: (count,)."""
    return np.asarray(2.0 ** (-np.arange(count) / HALF))


def surprises(
    items: SequenceItems | SequenceRows, rows: Rows, method: Kernels, known: int = 0
) -> Matrix:
    """s_t of the newest items that have one before them, but for the oldest `known`: (T, k).

    Args:
        rows: of what speaks for items, newest first, LAST more than `longest` where there are.
    """
    count = min(depth(method), max(0, len(rows) - 1)) - known
    dim = items.kernels.shape[1]
    if count <= 0:
        return np.zeros((0, dim))
    fade = fading(method, min(method.longest, len(rows)))  # (S, n)
    sums = np.cumsum(fade, axis=1)  # (S, n)
    own = items.inputs(rows)  # (n', k)
    queries = np.empty((count, dim))
    for age in range(count):
        before = own[age + 1 : age + 1 + method.longest]  # (l, k)
        scale = 1.0 / np.sqrt(np.maximum(sums[:, len(before) - 1], 1.0))  # (S,)
        seen = (fade[:, : len(before)] * scale[:, None]) @ before  # (S, k) h_ts
        queries[age] = np.einsum("sk,sk->k", seen, items.kernels)
    return np.asarray(items.take(rows[:count]) - expected_rows(items, queries))


def expected_rows(items: SequenceItems | SequenceRows, queries: Matrix) -> Matrix:
    """sum_j p_tj C_j: (T, k). In float32, as scores are."""
    asked = queries.astype(np.float32)
    top = np.full(len(queries), -np.inf)  # (T,)
    total, pulled = np.zeros(len(queries)), np.zeros(queries.shape)
    for start in range(0, items.size, _BLOCK):
        rows, bias = _block(items, slice(start, start + _BLOCK))
        scores = asked @ rows.T + bias  # (T, <=_BLOCK)
        peak = np.maximum(top, scores.max(axis=1))
        left = np.exp(top - peak)  # of what was added up before
        scores -= peak[:, None].astype(np.float32)
        chances = np.exp(scores, out=scores)
        total = left * total + chances.sum(axis=1, dtype=np.float64)
        pulled = left[:, None] * pulled + chances @ rows
        top = peak
    return np.asarray(pulled / total[:, None])


def _block(items: SequenceItems | SequenceRows, part: slice) -> tuple[Singles, Singles]:
    if isinstance(items, SequenceItems):
        return items.outputs[part].astype(np.float32), items.bias[part].astype(np.float32)
    rows = items.outputs
    return rows.values[part] * rows.scales[part, None], items.bias[part]
