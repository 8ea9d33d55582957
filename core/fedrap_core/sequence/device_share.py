"""What a device adds to a round of the sequence part. Formulas of q, w and p: model.py.

For Q targets y_t out of its own newest items, each predicted from those before it (without order
from all others), some inputs left out at random:
    e_t = sum_j p_tj C_j - C_{y_t}                           (k,)
    g_in[i]    += w_s(l) a_s * e_t          for every input i of t: own items only, exact over all m
    g_out[y_t] -= (q_t, 1)
    g_out[j']  += (q_t, 1),  j' ~ p_t       one decoy for each target: unbiased, and few rows
    g_a[s]     += e_t * h_ts
The exact gradient of the outputs would touch every row, and would tell p_t. With the decoys'
expectation the sums are the gradient of sum_t -log p_t(y_t): in Delta g_in, in C g_in + g_out
without its last column, in b that last column, in a g_a.

Everything sent is a linear sum, so clip, int8 and noise apply as to rows of `solve`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import WrongShape
from fedrap_core.model import History, Rows
from fedrap_core.plan import SequenceMethod
from fedrap_core.sequence.model import Matrix, SequenceItems, Vector, kernel_weights, window


@dataclass(frozen=True, eq=False)
class Draws:
    """All that is random in one device's round."""

    targets: Rows  # (T,) places in the window, ascending, distinct
    kept: npt.NDArray[np.bool_]  # (T, n) which places of the window a target may look at
    decoys: Vector  # (T,) in [0, 1): where in p_t, added up item by item, the decoy lies


@dataclass(frozen=True, eq=False)
class SequenceProblem:
    """One device's predictions of a round; every trainer computes their gradients."""

    rows: Rows  # (n,) the window, oldest first
    weights: Matrix  # (T, S, n) w_s of each place, 0 where a target does not look
    targets: Rows  # (T,) rows y_t
    decoys: Vector  # (T,)


@dataclass(frozen=True, eq=False)
class RowPart:
    """Some rows of a gradient."""

    rows: Rows  # (n,) ascending, distinct
    values: Matrix  # (n, width)


@dataclass(frozen=True, eq=False)
class SequenceUpdate:
    """A device's share of one round, by the part of the model that it moves."""

    inputs: RowPart  # g_in: (n, k)
    outputs: RowPart  # g_out: (n, k + 1), the last column for the bias
    kernels: Matrix  # g_a: (S, k)
    loss: float  # mean of -log p_t(y_t); stays on the device

    def norm(self) -> float:
        """Euclidean norm of all that leaves the device."""
        parts = (self.inputs.values, self.outputs.values, self.kernels)
        return float(np.sqrt(sum(float(np.sum(part**2)) for part in parts)))


def target_places(count: int, method: SequenceMethod) -> Rows:
    """Places of a window of `count` that something predicts: (n,)."""
    if count < 2:
        return np.zeros(0, dtype=np.int64)
    return np.arange(1 if method.ordered else 0, count, dtype=np.int64)


def draw(count: int, method: SequenceMethod, rng: np.random.Generator) -> Draws:
    """The draws of a device whose window has `count` places."""
    places = target_places(count, method)
    if len(places) > method.targets:
        places = np.sort(rng.choice(places, method.targets, replace=False))
    kept = rng.random((len(places), count)) >= method.dropout
    return Draws(places, kept, rng.random(len(places)))


def pose_sequence(history: History, method: SequenceMethod, draws: Draws) -> SequenceProblem:
    """What a trainer needs for this device's share.

    Raises:
        WrongShape: the draws are those of another window.
    """
    rows = window(history, method)
    count = len(rows)
    if draws.kept.shape != (len(draws.targets), count):
        raise WrongShape(f"draws for {draws.kept.shape}, but the window has {count} places")
    weights = np.zeros((len(draws.targets), method.kernels, count))  # (T, S, n)
    for at, place in enumerate(draws.targets):
        if method.ordered:
            inputs = np.arange(place - 1, -1, -1)  # newest first
        else:
            inputs = np.delete(np.arange(count), place)
        weights[at][:, inputs] = kernel_weights(method, len(inputs))
    weights *= draws.kept[:, None, :]
    return SequenceProblem(rows, weights, rows[draws.targets], draws.decoys)


def compute_sequence(problem: SequenceProblem, items: SequenceItems) -> SequenceUpdate:
    """The reference trainer, float64."""
    own = items.inputs(problem.rows)  # (n, k) P
    seen = problem.weights @ own  # (T, S, k) h
    queries = np.einsum("tsk,sk->tk", seen, items.kernels)  # (T, k) q
    chances, loss = _softmax(items.scores(queries), problem.targets)  # (T, m) p
    errors = chances @ items.outputs - items.outputs[problem.targets]  # (T, k) e
    places = np.zeros_like(own)  # (n, k)
    for scale, kernel in zip(np.moveaxis(problem.weights, 1, 0), items.kernels, strict=True):
        places += scale.T @ (errors * kernel)  # (n, T) @ (T, k)
    pairs = np.column_stack([queries, np.ones(len(queries))])  # (T, k + 1)
    decoys = pick_decoys(chances, problem.decoys)  # (T,)
    return SequenceUpdate(
        _by_row(problem.rows, places),
        _by_row(np.concatenate([problem.targets, decoys]), np.concatenate([-pairs, pairs])),
        np.einsum("tk,tsk->sk", errors, seen),
        loss,
    )


def pick_decoys(chances: Matrix, uniform: Vector) -> Rows:
    """j' ~ p_t: the first item at which the chances, added up, pass the uniform number: (T,)."""
    passed = np.cumsum(chances, axis=1) > uniform[:, None]  # (T, m)
    passed[:, -1:] = True  # where rounding leaves the sum below one
    return np.asarray(np.argmax(passed, axis=1), dtype=np.int64)


def _softmax(scores: Matrix, targets: Rows) -> tuple[Matrix, float]:
    """p_t and the mean of -log p_t(y_t)."""
    scores = scores - scores.max(axis=1, keepdims=True)  # (T, m)
    chances = np.exp(scores)
    total = chances.sum(axis=1, keepdims=True)  # (T, 1)
    if not len(targets):
        return chances, 0.0
    losses = np.log(total[:, 0]) - scores[np.arange(len(targets)), targets]  # (T,)
    return chances / total, float(losses.mean())


def _by_row(rows: Rows, values: Matrix) -> RowPart:
    """Values of the same row added up."""
    found, where = np.unique(rows, return_inverse=True)
    total = np.zeros((len(found), values.shape[1]))
    np.add.at(total, where, values)
    return RowPart(found.astype(np.int64), total)
