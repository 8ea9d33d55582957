"""What a device adds to a round of the sequence part. Formulas of q, w and p: model.py.

For Q targets y_t out of its own newest items, each predicted from those before it (without order
from all others), some inputs left out at random:
    e_t = sum_j p_tj C_j - C_{y_t}                           (k,)
    g_in[i]    += w_s(l) a_s * e_t          for every input i of t: own items only, exact over all m
    g_out[y_t] -= (q_t, 1)
    g_out[j']  += (q_t, 1)/D,  j' ~ p_t     D decoys for each target: unbiased, and few rows
    g_a[s]     += e_t * h_ts
The exact gradient of the outputs would touch every row, and would tell p_t. With the decoys'
expectation the sums are the gradient of sum_t -log p_t(y_t): in Delta g_in, in C g_in + g_out
without its last column, in b that last column, in a g_a.

Everything sent is a linear sum, so clip, int8 and noise apply as to rows of `solve`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import WrongShape
from fedrap_core.model import History, Rows, SequenceRows
from fedrap_core.plan import SequenceMethod
from fedrap_core.sequence.model import Matrix, SequenceItems, Vector, kernel_weights, window
from fedrap_core.sparse import RowPart

Singles = npt.NDArray[np.float32]
Uniform = Callable[[int], npt.NDArray[np.float64]]  # n numbers in [0, 1)


@dataclass(frozen=True, eq=False)
class Draws:
    """All that is random in one device's round."""

    targets: Rows  # (T,) places in the window, ascending, distinct
    kept: npt.NDArray[np.bool_]  # (T, n) which places of the window a target may look at
    decoys: Vector  # (T·D,) in [0, 1): where in p_t, added up, the decoys of each target lie


@dataclass(frozen=True, eq=False)
class SequenceProblem:
    """One device's predictions of a round; every trainer computes their gradients."""

    rows: Rows  # (n,) the window, oldest first
    weights: Matrix  # (T, S, n) w_s of each place, 0 where a target does not look
    targets: Rows  # (T,) rows y_t
    decoys: Vector  # (T·D,) target after target


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

    def parts(self, scale: float) -> tuple[RowPart, ...]:
        """As an update has them, in the order of parts.py and times the plan's `scale`."""
        return (
            RowPart(self.inputs.rows, scale * self.inputs.values),
            RowPart(self.outputs.rows, scale * self.outputs.values),
            RowPart(np.arange(len(self.kernels)), scale * self.kernels),
        )


def target_places(count: int, method: SequenceMethod) -> Rows:
    """Places of a window of `count` that something predicts: (n,)."""
    if count < 2:
        return np.zeros(0, dtype=np.int64)
    return np.arange(1 if method.ordered else 0, count, dtype=np.int64)


def draw(count: int, method: SequenceMethod, uniform: Uniform) -> Draws:
    """The draws of a device whose window has `count` places: targets, inputs, decoys, in order.

    Targets are the places of the Q smallest of as many numbers as there are places.
    """
    places = target_places(count, method)
    if len(places) > method.targets:
        order = np.argsort(uniform(len(places)), kind="stable")
        places = np.sort(places[order[: method.targets]])
    kept = uniform(len(places) * count).reshape(len(places), count) >= method.dropout
    return Draws(places, kept, uniform(len(places) * method.decoys))


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


@dataclass(frozen=True, eq=False)
class Questions:
    """What is left of a problem for a trainer: Q queries over all items. Few rows went into it."""

    problem: SequenceProblem
    kernels: Matrix  # (S, k) a
    wanted: Matrix  # (T, k) C of y_t
    seen: Matrix  # (T, S, k) h
    queries: Matrix  # (T, k) q


@dataclass(frozen=True, eq=False)
class Expected:
    """A trainer's answer: all of a share that takes m·k·Q products."""

    rows: Matrix  # (T, k) sum_j p_tj C_j
    decoys: Rows  # (T·D,) j' ~ p_t, target after target
    surprise: Vector  # (T,) -log p_t(y_t)


def ask(problem: SequenceProblem, items: SequenceItems | SequenceRows) -> Questions:
    """The queries of a problem."""
    kernels = np.asarray(items.kernels, dtype=np.float64)  # (S, k)
    seen = problem.weights @ items.inputs(problem.rows)  # (T, S, n) @ (n, k)
    queries = np.einsum("tsk,sk->tk", seen, kernels)  # (T, k)
    return Questions(problem, kernels, items.take(problem.targets), seen, queries)


def answer(asked: Questions, expected: Expected) -> SequenceUpdate:
    """The gradients that follow from what a trainer found."""
    problem, queries = asked.problem, asked.queries
    errors = expected.rows - asked.wanted  # (T, k) e
    places = np.zeros((len(problem.rows), asked.kernels.shape[1]))  # (n, k)
    for scale, kernel in zip(np.moveaxis(problem.weights, 1, 0), asked.kernels, strict=True):
        places += scale.T @ (errors * kernel)  # (n, T) @ (T, k)
    pairs = np.column_stack([queries, np.ones(len(queries))])  # (T, k + 1)
    each = _each(problem)  # D
    return SequenceUpdate(
        _by_row(problem.rows, places),
        _by_row(
            np.concatenate([problem.targets, expected.decoys]),
            np.concatenate([-pairs, np.repeat(pairs, each, axis=0) / each]),
        ),
        np.einsum("tk,tsk->sk", errors, asked.seen),
        float(expected.surprise.mean()) if len(queries) else 0.0,
    )


def compute_sequence(problem: SequenceProblem, items: SequenceItems) -> SequenceUpdate:
    """The reference trainer, float64."""
    asked = ask(problem, items)
    scores = items.scores(asked.queries)  # (T, m)
    scores = scores - scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    total = chances.sum(axis=1, keepdims=True)  # (T, 1)
    surprise = np.log(total[:, 0]) - scores[np.arange(len(scores)), problem.targets]  # (T,)
    chances = chances / total  # p
    decoys = pick_decoys(chances, problem.decoys)
    return answer(asked, Expected(chances @ items.outputs, decoys, surprise))


def _each(problem: SequenceProblem) -> int:
    """D, how many decoys a target has."""
    return len(problem.decoys) // max(1, len(problem.targets))


def pick_decoys(chances: Matrix, uniform: Vector) -> Rows:
    """j' ~ p_t: the first item at which the chances, added up, pass the uniform number: (T·D,)."""
    each = len(uniform) // max(1, len(chances))  # D
    ends = np.cumsum(chances, axis=1)  # (T, m)
    ends[:, -1:] = 2.0  # where rounding leaves the sum below one
    found = np.zeros((len(chances), each), dtype=np.int64)
    for place in range(each):
        goals = uniform[place::each]  # (T,)
        found[:, place] = np.argmax(ends > goals[:, None], axis=1)
    return found.ravel()


BLOCK = 8192  # items looked at at once: what a trainer holds of them does not grow with m
GROUP = 64  # items whose chances are added before a decoy is looked for among them
NOBODY = np.float32(-1e30)  # bias of rows that only fill up a group: e to that is 0

# queries (T, k), values int8 (B, k), scales (B,), bias (B,), B a multiple of GROUP, to
# the largest score of each query (T,), sums of e^(score - largest) by group (T, B/GROUP), and
# sum_j e^(score - largest)·C_j (T, k)
Look = Callable[[Matrix, npt.NDArray[np.int8], Singles, Singles], tuple[Matrix, Matrix, Matrix]]


def expect(asked: Questions, items: SequenceRows, look: Look, block: int = BLOCK) -> Expected:
    """p_t over all items, block by block, by whatever looks at a block.

    Which group a decoy is in follows from what was found there, which item of it from float64.
    """
    problem, queries = asked.problem, asked.queries
    if not len(queries):
        none = np.zeros(0)
        return Expected(np.zeros_like(queries), none.astype(np.int64), none)
    found = [look(queries, *some) for some in _blocks(items, block)]
    peaks = np.stack([peak for peak, _, _ in found]).astype(np.float64)  # (B, T)
    top = peaks.max(axis=0)  # (T,)
    share = np.exp(peaks - top)[:, :, None]  # (B, T, 1)
    groups = np.concatenate(
        [part * one for part, (_, one, _) in zip(share, found, strict=True)], axis=1
    )  # (T, G)
    total = groups.sum(axis=1)  # (T,)
    pulled = sum(part * one for part, (_, _, one) in zip(share, found, strict=True))
    scores = np.einsum("tk,tk->t", queries, asked.wanted) + items.bias[problem.targets]
    goals = problem.decoys * np.repeat(total, _each(problem))  # (T·D,)
    decoys = _decoys(asked, items, groups, goals, top)
    surprise = np.log(total) + top - scores  # (T,)
    return Expected(np.asarray(pulled / total[:, None]), decoys, surprise)


def look_exactly(
    queries: Matrix, values: npt.NDArray[np.int8], scales: Singles, bias: Singles
) -> tuple[Matrix, Matrix, Matrix]:
    """A block in float64: the truth that other engines are measured against."""
    rows = (values.astype(np.float32) * scales[:, None]).astype(np.float64)  # (B, k)
    scores = queries @ rows.T + bias  # (T, B)
    peak = scores.max(axis=1)  # (T,)
    chances = np.exp(scores - peak[:, None])
    groups = chances.reshape(len(queries), -1, GROUP).sum(axis=2)  # (T, B/GROUP)
    return peak, groups, chances @ rows


def _blocks(
    items: SequenceRows, block: int
) -> Iterator[tuple[npt.NDArray[np.int8], Singles, Singles]]:
    for start in range(0, items.size, block):
        part = slice(start, start + block)
        values, scales, bias = (
            items.outputs.values[part],
            items.outputs.scales[part],
            items.bias[part],
        )
        missing = -len(values) % GROUP
        if missing:
            values = np.concatenate([values, np.zeros((missing, items.dim), np.int8)])
            scales = np.concatenate([scales, np.zeros(missing, np.float32)])
            bias = np.concatenate([bias, np.full(missing, NOBODY)])
        yield values, scales, bias


def _decoys(
    asked: Questions, items: SequenceRows, groups: Matrix, goals: Vector, top: Vector
) -> Rows:
    """The item at which the chances, added up, pass the goal: (T·D,)."""
    ends = np.cumsum(groups, axis=1)  # (T, G)
    each = _each(asked.problem)
    decoys = np.zeros(len(goals), dtype=np.int64)
    for at, goal in enumerate(goals):
        target = at // each
        passed = ends[target] > goal
        passed[-1] = True  # where rounding leaves the sum below the goal
        group = int(np.argmax(passed))
        rows = np.arange(GROUP * group, min(GROUP * (group + 1), items.size))
        scores = items.take(rows) @ asked.queries[target] + items.bias[rows]
        left = goal - (ends[target, group - 1] if group else 0.0)
        here = np.cumsum(np.exp(scores - top[target])) > left
        here[-1] = True
        decoys[at] = rows[np.argmax(here)]
    return decoys


def _by_row(rows: Rows, values: Matrix) -> RowPart:
    """Values of the same row added up."""
    found, where = np.unique(rows, return_inverse=True)
    total = np.zeros((len(found), values.shape[1]))
    np.add.at(total, where, values)
    return RowPart(found.astype(np.int64), total)
