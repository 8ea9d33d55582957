"""DPALS (Chien et al. 2021): alternating least squares that is private at the level of a user.

Somebody trusted holds all data and publishes item factors V alone. In each of a few steps

    u        = argmin_u alpha·sum_(own j) (1 - <u, V_j>)^2 + w0·sum_j <u, V_j>^2 + ridge·|u|^2
    A_j, b_j = sum of u u', u over at most `most` items that each user draws anew
    V_j      = (alpha·A_j + w0·share·G + ridge_j·I)^-1 · alpha·b_j,       G = sum of all u u'

where each u is scaled to length one, and A, b and G get Gaussian noise. One user is |(u u', u)|^2
<= 2 for each of `most` items and |u u'|^2 <= 1 in G, so the sums move by sqrt(2·most + 1) at the
most: that is the unit of the noise multiplier. Noise makes eigenvalues of A_j negative; those are
set to zero. What users see is folded in on their own, with recent items counting more: that
publishes nothing. `share` is the part of all interactions that was drawn, so that A and G keep
their proportion.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import sqrt
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from fedrap_core.privacy.accounting import charged_epsilon, noise_for
from fedrap_simulation.data.interactions import Histories
from fedrap_simulation.engine.compiled import Floats, Matrix
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.baselines.recency import Fading, FoldedIn, weigh
from fedrap_simulation.methods.protocol import Cost, OnProgress, touched
from fedrap_simulation.methods.tuning import choose


@dataclass(frozen=True)
class DpAls:
    """Private item factors from noisy sums."""

    dim: int = 16
    steps: int = 2
    most: int = 20  # items that a user adds to in a step
    alpha: float = 2.0
    w0: float = 1.0
    ridge: float = 10.0  # of users, and of items in the units of their noise
    noise: float = 0.0  # z: standard deviation in units of what a user can change
    delta: float = 1e-5
    tau: float = 2.0  # items that the extra weight of recent ones lasts
    floor: float = 0.1
    scale: float = 1.0
    name: str = "dpals"

    @property
    def settings(self) -> dict[str, Any]:
        """Every field but the name."""
        return {key: value for key, value in asdict(self).items() if key != "name"}

    @property
    def epsilon(self) -> float | None:
        """What every user is charged; None without noise."""
        return charged_epsilon(self.steps, self.noise, self.delta) if self.noise else None

    def private(self, epsilon: float, delta: float, banded: bool) -> Self:
        """With the noise of that guarantee. Everybody is in each step, so no band would help."""
        return replace(self, noise=noise_for(epsilon, delta, self.steps), delta=delta)

    def tune(self, task: Task, seed: int, on_progress: OnProgress) -> Self:
        """The ridge, then what the history is worth."""
        first = choose(
            [replace(self, ridge=one) for one in (10.0, 3.0, 30.0, 100.0)], task, seed,
            lambda done, words: on_progress(done / 2, words),
        )  # fmt: skip
        return choose(
            [replace(first, scale=one) for one in (1.0, 0.3, 3.0, 10.0)], task, seed,
            lambda done, words: on_progress((1 + done) / 2, words),
        )  # fmt: skip

    def fit(self, task: Task, seed: int, on_progress: OnProgress) -> FoldedIn:
        """A few steps; then everybody on their own."""
        rng = np.random.default_rng([seed, 0xDA15])
        items = rng.normal(0.0, self.dim**-0.5, (task.items, self.dim))  # (m, k) V
        histories = touched(task)
        flat = Histories(histories.indptr.astype(np.int64), histories.indices.astype(np.int64))
        for step in range(self.steps):
            users = solve_units(flat, items, self.alpha, self.w0, self.ridge)
            items = self._item_step(flat, users, task.items, rng)
            on_progress((step + 1) / (self.steps + 1), f"{self.name} step {step + 1}")
        weights = weigh(task, Fading(self.tau, self.floor, self.scale))
        on_progress(1.0, self.name)
        cost = Cost(rounds=0, epsilon=self.epsilon)
        # Factors in float32, scaled so that a usual row has length one: the ridge is then alike.
        usual = np.sqrt(np.mean(items**2) * self.dim) or 1.0
        scaled = (items / usual).astype(np.float32)
        return FoldedIn(weights, scaled, self.alpha, self.ridge, cost)

    def _item_step(
        self, histories: Histories, users: Matrix, size: int, rng: np.random.Generator
    ) -> Matrix:
        """V from noisy sums: (m, k)."""
        drawn = draw_some(histories, self.most, rng)
        deviation = self.noise * sensitivity(self.most)
        grams, sums, whole = (
            part + rng.normal(0.0, deviation, part.shape) for part in add_up(drawn, users, size)
        )
        # How much was drawn is a number about everybody; the mean length is a scalar of the plan.
        share = len(drawn.items) / max(1, len(histories.items))
        spread = self.w0 * share * _positive(_full(whole[None], self.dim))[0]
        ridge = self.ridge * max(1.0, deviation)
        out = np.empty((size, self.dim))
        for start in range(0, size, 4096):
            part = slice(start, start + 4096)
            system = self.alpha * _positive(_full(grams[part], self.dim)) + spread
            system += ridge * np.eye(self.dim)
            out[part] = np.linalg.solve(system, self.alpha * sums[part][:, :, None])[:, :, 0]
        return out


def sensitivity(most: int) -> float:
    """How far one user can move all sums together."""
    return sqrt(2.0 * most + 1.0)


def add_up(drawn: Histories, users: Matrix, size: int) -> tuple[Floats, Floats, Floats]:
    """A (m, k(k+1)/2) and b (m, k) over the drawn items, and G (k(k+1)/2,) over all users.

    Of a symmetric matrix the upper triangle is enough, and shorter.
    """
    upper = np.triu_indices(users.shape[1])
    squares = users[:, upper[0]] * users[:, upper[1]]  # (U, k(k+1)/2)
    ones = np.ones(len(drawn.items))
    holders = sp.csr_matrix((ones, (drawn.items, drawn.owners)), shape=(size, len(users)))
    return holders @ squares, holders @ users, squares.sum(axis=0)


def solve_units(
    histories: Histories, items: Matrix, alpha: float, w0: float, ridge: float
) -> Matrix:
    """u of every user, of length one; zero for an empty history: (U, k)."""
    base = w0 * items.T @ items + ridge * np.eye(items.shape[1])
    out = np.zeros((len(histories), items.shape[1]))
    for user in range(len(histories)):
        rows = items[histories.of(user)]  # (n, k)
        found = np.linalg.solve(base + alpha * rows.T @ rows, alpha * rows.sum(axis=0))
        out[user] = found / max(float(np.linalg.norm(found)), 1e-12)
    return out


def draw_some(histories: Histories, most: int, rng: np.random.Generator) -> Histories:
    """At most so many items of each history, drawn without replacement."""
    order = np.lexsort((rng.random(len(histories.items)), histories.owners))
    rank = np.arange(len(order)) - histories.starts[histories.owners]  # owners stay in their order
    kept = np.sort(order[rank < most])
    lengths = np.minimum(histories.lengths, most)
    return Histories(np.concatenate([[0], np.cumsum(lengths)]), histories.items[kept])


def _full(packed: Floats, dim: int) -> Floats:
    """Symmetric matrices from their upper triangles: (n, k, k)."""
    upper = np.triu_indices(dim)
    out = np.zeros((len(packed), dim, dim))
    out[:, upper[0], upper[1]] = packed
    out[:, upper[1], upper[0]] = packed
    return out


def _positive(matrices: Floats) -> Floats:
    """Without what lies below zero."""
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray((vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1))
