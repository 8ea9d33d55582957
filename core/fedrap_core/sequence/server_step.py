"""The coordinator's step on the sequence part, from a round's sum of g_in, g_out and g_a.

    G_Delta = sum g_in        G_C = sum g_in + sum g_out        G_b = last column of sum g_out
    M <- .8·M + .2·G          V <- .95·V + .05·G^2              rows that this round touched
    theta <- theta - rate·sched·(M'/(sqrt V' + eps) + wd·theta) the same rows
    eps = 2·mean(sqrt V')     over all rows that any round touched
M' and V' are M and V without the bias of their start. Such an eps, as large as the usual
gradient, lets rows with little evidence move little, where Adam would move all alike.
sched rises over the first tenth of the rounds and then falls as a cosine to a twentieth. Rows of
items that came later are at their own place in it: they move fast while old ones have settled.

The state follows from the sums alone: it costs a device nothing, and no epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap_core.ages import Born, ages, by_age
from fedrap_core.errors import BrokenModel
from fedrap_core.model import Rows
from fedrap_core.plan import Count, NotNegative, Positive, SequenceMethod
from fedrap_core.sequence.model import SequenceItems
from fedrap_core.sparse import RowPart

Floats = npt.NDArray[np.float64]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Memory = Annotated[float, msgspec.Meta(ge=0, lt=1)]


class SequenceLearning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The coordinator's side of the sequence part."""

    rate: Positive = 0.08  # of C, Delta and b
    kernel_rate: Positive = 0.02  # of the time kernels, which do not decay
    decay: NotNegative = 0.2  # wd
    first: Memory = 0.8  # of M
    second: Memory = 0.95  # of V
    caution: NotNegative = 2.0  # eps in means of sqrt V
    warm_up: Share = 0.1  # share of the rounds over which the rate rises
    lowest: Share = 0.05  # share of the rate that is left at the end
    rounds: Count = 100  # the round at which it is; later ones keep it
    spread: Positive = 0.05  # standard deviation that rows of C start with
    kernel: Positive = 0.7  # what each entry of a starts with


@dataclass(frozen=True, eq=False)
class SequenceSum:
    """What a round brought: the sums of all devices' parts."""

    inputs: RowPart  # (t, k)
    outputs: RowPart  # (t, k + 1)
    kernels: Floats  # (S, k)
    devices: int


@dataclass(frozen=True, eq=False)
class Moments:
    """M and V of one part of the model, in its shape."""

    mean: Floats
    square: Floats

    @staticmethod
    def none(like: Floats) -> Moments:
        """Before the first round."""
        return Moments(np.zeros_like(like), np.zeros_like(like))


@dataclass(frozen=True, eq=False)
class SequenceLearner:
    """What the coordinator remembers between releases.

    `items` are exact: steps at the end of the schedule are smaller than those of int8, and
    would be rounded away if they started from what was published.
    """

    items: SequenceItems
    outputs: Moments
    offsets: Moments
    bias: Moments
    kernels: Moments
    steps: int = 0  # that were made; says where in the schedule the next one is
    since: int = 0  # at which of them the moments began
    born: Born = None  # in these steps


def start_learner(
    size: int, method: SequenceMethod, learning: SequenceLearning, rng: np.random.Generator
) -> SequenceLearner:
    """C drawn, Delta and b zero, and all kernels alike."""
    outputs = rng.normal(0.0, learning.spread, (size, method.dim))  # (m, k)
    kernels = np.full((method.kernels, method.dim), learning.kernel)  # (S, k)
    return begin_learner(SequenceItems(outputs, np.zeros_like(outputs), np.zeros(size), kernels))


def begin_learner(items: SequenceItems, steps: int = 0) -> SequenceLearner:
    """From these items on, after so many steps, with moments that begin anew."""
    return SequenceLearner(
        items,
        Moments.none(items.outputs),
        Moments.none(items.offsets),
        Moments.none(items.bias),
        Moments.none(items.kernels),
        steps,
        steps,
    )


def rate_share(learning: SequenceLearning, step: int) -> float:
    """sched of a step, which counts from 0: up over the warm-up, then down as a cosine."""
    done = min(1.0, (step + 1) / learning.rounds)
    if done < learning.warm_up:
        return done / learning.warm_up
    left = (1.0 - done) / (1.0 - learning.warm_up) if learning.warm_up < 1.0 else 0.0
    falling = 0.5 * (1.0 - math.cos(math.pi * left))
    return learning.lowest + (1.0 - learning.lowest) * falling


def sequence_step(
    state: SequenceLearner, total: SequenceSum, learning: SequenceLearning
) -> SequenceLearner:
    """One step on the touched rows and the kernels. Deterministic, float64 inside.

    Raises:
        BrokenModel: the round's sum would give a model that is not finite.
    """
    if not len(total.outputs.rows):  # every target has an output row: nobody had one
        return state
    for part in (total.inputs.values, total.outputs.values, total.kernels):
        if not np.all(np.isfinite(part)):
            raise BrokenModel("the sum of the round is not finite")
    items, dim = state.items, state.items.outputs.shape[1]
    steps = state.steps + 1
    old = ages(state.born, state.steps, items.size)  # (m,)
    rate = by_age(lambda age: learning.rate * rate_share(learning, age), old)  # (m,)
    counted = 1 + np.minimum(state.steps - state.since, old)  # (m,)

    def move(theta: Floats, moments: Moments, part: RowPart) -> tuple[Floats, Moments]:
        return _adam(theta, moments, part, counted, rate, learning.decay, learning)

    # An item as input is C + Delta: what moves the sum moves both.
    rows = np.union1d(total.inputs.rows, total.outputs.rows)  # (t,)
    both = np.zeros((len(rows), dim))
    both[np.searchsorted(rows, total.inputs.rows)] += total.inputs.values
    both[np.searchsorted(rows, total.outputs.rows)] += total.outputs.values[:, :dim]
    outputs, of_outputs = move(items.outputs, state.outputs, RowPart(rows, both))
    offsets, of_offsets = move(items.offsets, state.offsets, total.inputs)
    popularity = RowPart(total.outputs.rows, total.outputs.values[:, dim])
    bias, of_bias = move(items.bias, state.bias, popularity)
    every = RowPart(np.arange(len(items.kernels)), total.kernels)
    kernel_rate = learning.kernel_rate * rate_share(learning, state.steps)
    kernels, of_kernels = _adam(
        items.kernels,
        state.kernels,
        every,
        np.full(len(items.kernels), steps - state.since),
        np.full(len(items.kernels), kernel_rate),
        0.0,
        learning,
    )
    moved = SequenceItems(outputs, offsets, bias, kernels)
    return replace(
        state, items=moved, outputs=of_outputs, offsets=of_offsets, bias=of_bias,
        kernels=of_kernels, steps=steps,
    )  # fmt: skip


def _adam(
    theta: Floats,
    moments: Moments,
    gradient: RowPart,
    steps: Rows,
    rate: Floats,
    decay: float,
    learning: SequenceLearning,
) -> tuple[Floats, Moments]:
    """theta, M and V after a step on the rows of `gradient`; the others as they were.

    `steps` and `rate` are those of each row: how many its moments were followed for, how far now.
    """
    rows, here = gradient.rows, gradient.values

    def share(memory: float) -> Floats:
        """What moments that began at zero have of what they would be: (m, 1) or (m,)."""
        found = by_age(lambda count: 1.0 - memory**count, steps)
        return found.reshape((-1, *(1,) * (theta.ndim - 1)))

    mean, square = moments.mean.copy(), moments.square.copy()
    mean[rows] = learning.first * mean[rows] + (1.0 - learning.first) * here
    square[rows] = learning.second * square[rows] + (1.0 - learning.second) * here**2
    usual = np.sqrt(square / share(learning.second))  # sqrt V'
    away = mean[rows] / share(learning.first)[rows]  # (t, …) M'
    eps = learning.caution * _mean_of_touched(usual)
    moved = theta.copy()
    # The tiny number is for a gradient of exact zeros.
    far = rate[rows].reshape((-1, *(1,) * (theta.ndim - 1)))
    moved[rows] -= far * (away / (usual[rows] + eps + 1e-30) + decay * theta[rows])
    return moved, Moments(mean, square)


def _mean_of_touched(usual: Floats) -> float:
    """Mean over rows that ever had a gradient: items that nobody has change no step."""
    touched = usual[_any(usual)]
    return float(touched.mean()) if touched.size else 0.0


def _any(values: Floats) -> Rows:
    return np.flatnonzero(values.reshape(len(values), -1).any(axis=1))
