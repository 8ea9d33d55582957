"""`solve` on the device: u from the history, D from what u can't explain, exact reasons.

    M = w0·C'C + sum_l |a_l| C_l C_l' + lambda·I           (k x k)
    u = M^-1 · sum_l |a_l| t_l C_l     argmin of sum_l |a_l|(t_l - <u,C_l>)^2 + w0·sum_j <u,C_j>^2
                                                 + lambda·|u|^2
    d = (kappa_HH + sigma·diag(max |a| / |a_l|))^-1 · (t - C_H u),   kappa = max(0, cos)^p
    z_j = <u, C_j> + d_j                          for an item with a row in D
    z_j = <u, C_j> + rho·sum_l kappa(j,l)·d_l     for any other

t_l is 1 for what speaks for an item, a_l > 0, and 0 for what speaks against it, a_l < 0: an item
that the user disliked, and what is like it, come to score like what nobody chose.

u is derived, never stored, so a new user is served from the first interaction on. float64 NumPy
here is the truth that every other engine is measured against.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import BrokenModel
from fedrap_core.model import CommonItems, Floats, History, PersonalItems, Rows
from fedrap_core.plan import Scoring

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
# What a dislike of weight -1 weighs, in alphas; it does not fade. The most that costs no NDCG on
# liked items (docs/results.md); an app that wants more says so with its kinds.
AGAINST = 0.3


@dataclass(frozen=True, eq=False)
class Moments:
    """sum_l a_l C_l C_l' and sum_l a_l C_l of a history, what fades apart from what lasts.

    One more interaction makes every other one older by one place, which multiplies all that
    fades by exp(-1/tau): so u follows a growing history at the cost of one k x k solve.
    """

    lasting: Matrix  # (k, k) over alpha·gamma
    lasting_sum: Vector  # (k,)
    fading: Matrix  # (k, k) over alpha·beta
    fading_sum: Vector  # (k,)
    against: Matrix  # (k, k) over alpha·AGAINST, of what the user disliked; its target is 0

    def after(self, row: Vector, weight: float, scoring: Scoring) -> Moments:
        """With one more, newest interaction, with an item whose row of C is `row` (k,)."""
        if weight < 0:
            return replace(self, against=self.against + np.outer(row, -weight * row))
        left = float(np.exp(-1.0 / scoring.tau))
        square = np.outer(row, weight * row)  # (k, k)
        return Moments(
            self.lasting + square,
            self.lasting_sum + weight * row,
            left * self.fading + square,
            left * self.fading_sum + weight * row,
            self.against,
        )

    def system(self, base: Matrix, scoring: Scoring) -> tuple[Matrix, Vector]:
        """M (k, k) and the right-hand side (k,) of u."""
        lasts, fades = scoring.alpha * scoring.gamma, scoring.alpha * scoring.beta
        matrix = base + lasts * self.lasting + fades * self.fading
        matrix = matrix + scoring.alpha * AGAINST * self.against
        return matrix, lasts * self.lasting_sum + fades * self.fading_sum


@dataclass(frozen=True, eq=False)
class UserRepresentation:
    """One user under one release: all that recommending and explaining need."""

    items: Rows  # (n,) distinct items of the history, newest first
    weights: Vector  # (n,) a_l, repeats added up; below 0 what speaks against the item
    user: Vector  # (k,) u
    matrix: Matrix  # (k, k) M
    personal: PersonalItems  # D, of the newest `recent` of the items
    near: Matrix  # (p, k) the rows of C of those
    moments: Moments


def recency_weights(weights: Floats, scoring: Scoring) -> Vector:
    """a_l = alpha·w_l·(gamma + beta·exp(-l/tau)), l = 0 the newest with w_l > 0: (n,).

    What speaks against an item, w_l < 0, neither fades nor makes anything else older:
    a_l = alpha·AGAINST·w_l.
    """
    plain = np.asarray(weights, dtype=np.float64)  # (n,)
    age = _ages(plain)  # (n,)
    fade = scoring.gamma + scoring.beta * np.exp(-age / scoring.tau)
    return scoring.alpha * plain * np.where(plain > 0, fade, AGAINST)


def _ages(weights: Vector) -> Vector:
    """How many newer interactions speak for an item, newest first: (n,)."""
    return np.asarray(np.cumsum(weights > 0) - (weights > 0), dtype=np.float64)


def merge_repeats(rows: Rows, weights: Vector) -> tuple[Rows, Vector]:
    """Distinct rows in order of their newest interaction, with their weights added up."""
    distinct, first, where = np.unique(rows, return_index=True, return_inverse=True)
    total = np.zeros(len(distinct))
    np.add.at(total, where, weights)
    order = np.argsort(first, kind="stable")
    return distinct[order], total[order]


def base_system(gram: Floats, w0: float, ridge: float) -> Matrix:
    """w0·C'C + lambda·I: the part of M that is the same for every user of a release."""
    return w0 * np.asarray(gram, dtype=np.float64) + ridge * np.eye(len(gram))


def solve_user(own: Matrix, weights: Vector, base: Matrix) -> tuple[Vector, Matrix]:
    """u and M for the rows `own` (n, k) with weights a (n,).

    Raises:
        BrokenModel: the system has no finite solution, so C must not be used.
    """
    system = base + own.T @ (weights[:, None] * own)  # (k, k)
    return _solve(system, weights @ own), system  # (k,), (k, k)


def _solve(system: Matrix, right: Vector) -> Vector:
    try:
        found = np.asarray(np.linalg.solve(system, right), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise BrokenModel("C gives a singular system; refuse this release") from error
    if not np.all(np.isfinite(found)):
        raise BrokenModel("C gives a solution that is not finite; refuse this release")
    return found


# Products of up to so many multiplications start no threads in OpenBLAS; a list is too short a work
# for threads, which wait for each other where an app has something to do besides.
ONE_THREAD = 262_144


def similarity(left: Floats, right: Floats, power: float) -> Matrix:
    """kappa = max(0, cos)^p between rows of C; a zero row is like nothing: (len, len)."""
    ones, others = _units(left), _units(right)
    cosine = np.empty((len(left), len(right)))
    step = max(1, ONE_THREAD // max(1, others.size))
    for start in range(0, len(left), step):
        part = slice(start, start + step)
        np.matmul(ones[part], others.T, out=cosine[part])
    np.clip(cosine, 0.0, 1.0, out=cosine)
    if power != int(power):
        return np.asarray(np.power(cosine, power, out=cosine, where=cosine > 0))
    # A whole power by squaring: `pow` of a thousand rows was the dearest part of a list.
    result, left_over = None, int(power)
    while True:
        if left_over % 2:
            result = cosine.copy() if result is None else np.multiply(result, cosine, out=result)
        left_over //= 2
        if not left_over:
            return np.asarray(np.ones_like(cosine) if result is None else result)
        np.multiply(cosine, cosine, out=cosine)


def _units(rows: Floats) -> Matrix:
    """Rows of length 1; those of zeros stay: (n, k)."""
    lengths = np.sqrt(np.einsum("jk,jk->j", rows, rows))[:, None]  # (n, 1)
    return np.asarray(np.divide(rows, lengths, out=np.zeros(rows.shape), where=lengths > 0))


def personal_offsets(own: Matrix, weights: Vector, user: Vector, scoring: Scoring) -> Vector:
    """d: what the shared view leaves unexplained of the user's own items: (n,)."""
    if len(own) == 0:
        return np.zeros(0)
    residual = (weights > 0) - own @ user  # (n,) t - C_H u
    # With |a_l|/max |a| times both sides: no division where a weight faded to 0.
    size = np.abs(weights)  # (n,)
    trust = size / max(float(size.max()), np.finfo(np.float64).tiny)  # (n,)
    kernel = trust[:, None] * similarity(own, own, scoring.power)  # (n, n)
    return _solve(kernel + scoring.sigma * np.eye(len(own)), trust * residual)


def moments_of(own: Matrix, weights: Floats, scoring: Scoring) -> Moments:
    """The moments of interactions, newest first, with rows of C `own` (n, k)."""
    plain = np.asarray(weights, dtype=np.float64)  # (n,)
    liked = np.maximum(plain, 0.0)  # (n,)
    fading = liked * np.exp(-_ages(plain) / scoring.tau)  # (n,)
    disliked = np.flatnonzero(plain < 0)
    against = own[disliked].T @ (-plain[disliked, None] * own[disliked])  # (k, k)
    return Moments(
        own.T @ (liked[:, None] * own),
        liked @ own,
        own.T @ (fading[:, None] * own),
        fading @ own,
        against,
    )


def derive_user(
    common: CommonItems, gram: Floats, history: History, scoring: Scoring
) -> UserRepresentation:
    """u and D of a user whose history, newest first, is given. `gram` is C'C of `common`.

    An item's interactions all speak the same way: `History.settled` sees to it.
    """
    moments = moments_of(common.take(history.rows), history.weights, scoring)
    return _taste(common, gram, history, scoring, moments)


def follow_user(
    taste: UserRepresentation, common: CommonItems, gram: Floats, history: History, scoring: Scoring
) -> UserRepresentation:
    """`derive_user` of a history that has one more interaction, its first, than `taste` had."""
    row = common.take(history.rows[:1])[0]  # (k,)
    moments = taste.moments.after(row, float(history.weights[0]), scoring)
    return _taste(common, gram, history, scoring, moments)


def _taste(
    common: CommonItems, gram: Floats, history: History, scoring: Scoring, moments: Moments
) -> UserRepresentation:
    base = base_system(gram, scoring.w0, scoring.ridge)
    matrix, right = moments.system(base, scoring)
    user = _solve(matrix, right)  # (k,)
    items, weights = merge_repeats(history.rows, recency_weights(history.weights, scoring))
    newest = slice(0, scoring.recent)
    near = common.take(items[newest])  # (p, k)
    offsets = personal_offsets(near, weights[newest], user, scoring)
    personal = PersonalItems(items[newest], offsets)
    return UserRepresentation(items, weights, user, matrix, personal, near, moments)


def smoothed(taste: UserRepresentation, rows: Rows, theirs: Matrix, scoring: Scoring) -> Matrix:
    """<u, D_j> split over the items that own a row of D: (len(rows), n_personal).

    An item with a row of its own has all of it there; any other borrows from its likes.
    """
    part = scoring.rho * similarity(theirs, taste.near, scoring.power) * taste.personal.offsets
    if len(taste.personal.rows) == 0:
        return np.asarray(part)
    owners = np.sort(taste.personal.rows)  # (n,)
    after = np.minimum(np.searchsorted(owners, rows), len(owners) - 1)  # (len(rows),)
    known = np.flatnonzero(owners[after] == rows)  # places; none in most lists
    mine = rows[known, None] == taste.personal.rows[None, :]  # (len(known), n)
    part[known] = np.where(mine, taste.personal.offsets, 0.0)
    return np.asarray(part)


def shared_parts(taste: UserRepresentation, own: Matrix, theirs: Matrix) -> Matrix:
    """<u, C_j> split exactly over the history: |a_l| t_l·C_j'M^-1 C_l: (len(theirs), n).

    `own` are the rows of C of `taste.items`, (n, k). What speaks against an item holds u back
    through M and adds nothing to it, so its own part is 0.
    """
    added = np.maximum(taste.weights, 0.0)  # (n,)
    return np.asarray(theirs @ np.linalg.solve(taste.matrix, own.T) * added)
