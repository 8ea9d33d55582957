"""How devices with `solve` see all items: u and D of many users at once, as core/solve.py has them.

As on a device, the shared view picks a shortlist and D re-ranks it: further down D adds nothing,
except for the user's own items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import prange

from fedrap_core.plan import Scoring
from fedrap_core.ranking import SHORTLIST
from fedrap_simulation.data.interactions import Histories, Rows
from fedrap_simulation.engine.compiled import Floats, Ints, Matrix, Singles, compiled
from fedrap_simulation.engine.solve_kernels import solve_users


def ages(histories: Histories) -> Floats:
    """How many interactions of the same user are newer: (n,)."""
    ends = np.repeat(histories.starts[1:], histories.lengths)
    return (ends - 1 - np.arange(len(histories.items))).astype(np.float64)


def once(histories: Histories, items: int) -> tuple[Histories, Rows]:
    """Each item of a history once, at its newest place; and which entries those were."""
    pair = histories.owners * items + histories.items
    _, last = np.unique(pair[::-1], return_index=True)
    keep = np.sort(len(pair) - 1 - last)
    lengths = np.bincount(histories.owners[keep], minlength=len(histories))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return Histories(starts, histories.items[keep]), keep


@dataclass(frozen=True, eq=False)
class UserRepresentations:
    """u of every user, and what D is made of."""

    common: Matrix  # (m, k)
    users: Matrix  # (U, k)
    owned: Rows  # (U,) how many entries each history has
    near: Histories  # the newest distinct items of each user, oldest first
    offsets: Floats  # (n,) d of each entry of `near`
    scoring: Scoring

    def shared(self, users: Rows) -> Singles:
        """<u, C_j>: (len(users), m)."""
        return self.users[users].astype(np.float32) @ self.common.astype(np.float32).T

    def personal(self, users: Rows, shared: Singles, shortlist: int = SHORTLIST) -> Singles:
        """<u, D_j>, borrowed where an item has no row of its own: (len(users), m).

        Only for the `shortlist` best items by `shared`, (len(users), m), that the user has not
        got, and for those the user has.
        """
        near = self.near.some(users)
        entries = _entries(self.near, users)
        norms = np.linalg.norm(self.common, axis=1, keepdims=True)
        unit = np.divide(self.common, norms, out=np.zeros_like(self.common), where=norms > 0)
        return borrow(
            near.starts,
            near.items,
            self.offsets[entries],
            unit.astype(np.float32),
            shared,
            np.minimum(shortlist + self.owned[users], len(unit)),
            self.scoring.rho,
            self.scoring.power,
        )


def derive_users(
    common: Matrix, histories: Histories, scoring: Scoring, retired: Rows | None = None
) -> UserRepresentations:
    """u and d of every user, as `derive_user` of the core has them, C'C without `retired` rows."""
    dim = common.shape[1]
    present = common if retired is None else np.delete(common, retired, axis=0)
    base = scoring.w0 * present.T @ present + scoring.ridge * np.eye(dim)
    fade = scoring.gamma + scoring.beta * np.exp(-ages(histories) / scoring.tau)
    weights = scoring.alpha * fade  # (n,) a_l
    users = solve_users(histories.starts, histories.items, weights, common, base)
    near, summed = _newest(histories, weights, len(common), scoring.recent)
    offsets = personal_offsets(
        near.starts, near.items, summed, common, users, scoring.sigma, scoring.power
    )
    return UserRepresentations(common, users, histories.lengths, near, offsets, scoring)


def _newest(
    histories: Histories, weights: Floats, items: int, recent: int
) -> tuple[Histories, Floats]:
    """The `recent` newest distinct items of each user, with the weights of repeats added up."""
    distinct, _ = once(histories, items)
    pair = histories.owners * items + histories.items
    key = distinct.owners * items + distinct.items
    order = np.argsort(key)
    summed = np.zeros(len(key))
    np.add.at(summed, order[np.searchsorted(key[order], pair)], weights)
    keep = ages(distinct) < recent
    lengths = np.minimum(distinct.lengths, recent)
    near = Histories(np.concatenate([[0], np.cumsum(lengths)]), distinct.items[keep])
    return near, summed[keep]


def _entries(histories: Histories, users: Rows) -> Rows:
    lengths = histories.lengths[users]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    return np.asarray(np.repeat(histories.starts[users], lengths) + within)


@compiled(parallel=True)
def personal_offsets(
    starts: Ints,
    items: Ints,
    weights: Floats,
    common: Matrix,
    users: Matrix,
    sigma: float,
    power: float,
) -> Floats:
    """d of every entry: (t·kappa + sigma·I)^-1 t·(1 - C u), t = a/max a: (n,)."""
    offsets = np.zeros(len(items))
    for i in prange(len(starts) - 1):
        first, count = starts[i], starts[i + 1] - starts[i]
        if count == 0:
            continue
        own = np.empty((count, common.shape[1]))
        norms, residual = np.empty(count), np.empty(count)
        peak = 0.0
        for p in range(count):
            own[p] = common[items[first + p]]
            norms[p] = np.sqrt(np.sum(own[p] * own[p]))
            residual[p] = 1.0 - np.sum(own[p] * users[i])
            peak = max(peak, weights[first + p])
        system = np.empty((count, count))
        for p in range(count):
            trust = weights[first + p] / max(peak, 1e-300)
            residual[p] *= trust
            for q in range(count):
                scale = norms[p] * norms[q]
                cosine = np.sum(own[p] * own[q]) / scale if scale > 0.0 else 0.0
                system[p, q] = trust * min(1.0, max(0.0, cosine)) ** power
            system[p, p] += sigma
        offsets[first : first + count] = np.linalg.solve(system, residual)
    return offsets


@compiled(parallel=True)
def borrow(
    starts: Ints,
    items: Ints,
    offsets: Floats,
    unit: Singles,
    shared: Singles,
    wanted: Ints,
    rho: float,
    power: float,
) -> Singles:
    """rho·sum_l kappa(j,l)·d_l for the `wanted` best j, d_j itself for the user's own: (U, m)."""
    count, size = len(starts) - 1, len(unit)
    out = np.zeros((count, size), dtype=np.float32)
    fourth = power == 4.0  # the default, without a power function
    for i in prange(count):
        first, own = starts[i], starts[i + 1] - starts[i]
        near = np.empty((own, unit.shape[1]), dtype=np.float32)
        scaled = np.empty(own, dtype=np.float32)
        for p in range(own):
            near[p] = unit[items[first + p]]
            scaled[p] = rho * offsets[first + p]
        limit = np.partition(shared[i], size - wanted[i])[size - wanted[i]]
        for j in range(size):
            if shared[i, j] < limit:
                continue
            total = np.float32(0.0)
            for p in range(own):
                cosine = np.float32(0.0)
                for q in range(unit.shape[1]):
                    cosine += unit[j, q] * near[p, q]
                if cosine > 0.0:
                    if fourth:
                        cosine *= cosine
                        total += scaled[p] * cosine * cosine
                    else:
                        total += scaled[p] * np.float32(cosine**power)
            out[i, j] = total
        for p in range(own):
            out[i, items[first + p]] = offsets[first + p]
    return out
