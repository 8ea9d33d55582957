"""The arithmetic of `solve` for many devices at once, compiled. float64 inside.

Devices run in parallel and write to places of their own; rows are then added item by item. So the
result does not depend on the number of threads, and memory on nothing but the block of devices.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from fedrap_simulation.engine.compiled import Floats, Ints, Matrix, Singles, compiled


@compiled()
def factor_and_solve(system: Matrix, right: Floats) -> None:
    """Cholesky of the lower triangle in place, and the solution in place of `right` (k,)."""
    dim = len(right)
    for j in range(dim):
        left = system[j, j]
        for p in range(j):
            left -= system[j, p] * system[j, p]
        pivot = np.sqrt(left)
        system[j, j] = pivot
        for i in range(j + 1, dim):
            left = system[i, j]
            for p in range(j):
                left -= system[i, p] * system[j, p]
            system[i, j] = left / pivot
    for i in range(dim):
        left = right[i]
        for p in range(i):
            left -= system[i, p] * right[p]
        right[i] = left / system[i, i]
    for i in range(dim - 1, -1, -1):
        left = right[i] / system[i, i]
        right[i] = left
        for p in range(i):  # row by row, as memory lies
            right[p] -= system[i, p] * left


@compiled()
def add_square(square: Matrix, total: Floats, row: Floats, keep: float) -> None:
    """square <- keep·square + row row' (lower triangle), total <- keep·total + row."""
    for q in range(len(total)):
        total[q] = keep * total[q] + row[q]
        for r in range(q + 1):
            square[q, r] = keep * square[q, r] + row[q] * row[r]


@compiled(parallel=True)
def solve_users(starts: Ints, items: Ints, weights: Floats, common: Matrix, base: Matrix) -> Matrix:
    """u of every history with weights a_l: M^-1·sum_l a_l C_l: (U, k)."""
    count, dim = len(starts) - 1, common.shape[1]
    users = np.zeros((count, dim))
    for i in prange(count):
        system, right = base.copy(), np.zeros(dim)
        for p in range(starts[i], starts[i + 1]):
            row = common[items[p]]
            for q in range(dim):
                scaled = weights[p] * row[q]
                right[q] += scaled
                for r in range(q + 1):
                    system[q, r] += scaled * row[r]
        factor_and_solve(system, right)
        users[i] = right
    return users


@compiled()
def weights_of_rows(gram: Matrix, weights: Floats, system: Matrix) -> Floats:
    """y with (base + R'AR)^-1 R'a = base^-1 R'y, R the first rows that `gram` is of: (n,).

    y = S(I + S·R base^-1 R'·S)^-1 S·1 with S = sqrt(A): n x n instead of k x k.
    """
    count = len(weights)
    found = np.sqrt(weights)
    for p in range(count):
        for q in range(p + 1):
            system[p, q] = gram[p, q] * found[p] * found[q]
        system[p, p] += 1.0
    factor_and_solve(system[:count, :count], found)
    for p in range(count):
        found[p] *= np.sqrt(weights[p])
    return found


@compiled()
def short_share(
    own: Matrix,
    behind: Matrix,
    alpha: float,
    share: float,
    asked: int,
    beta: float,
    gamma: float,
    fade: float,
    rows: Singles,
    triangle: Singles,
) -> None:
    """`make_shares` of a device with k items or fewer: all lies in the span of its rows.

    `own` R and `behind` R base^-1 are (n, k), oldest first; every x is behind'y with y (n,).
    """
    count, dim = own.shape
    gram, system = np.zeros((count, count)), np.zeros((count, count))
    for p in range(count):
        for q in range(p + 1):
            total = 0.0
            for r in range(dim):
                total += own[p, r] * behind[q, r]
            gram[p, q] = total
            gram[q, p] = total
    parts, outer = np.zeros((count, count)), np.zeros((count, count))  # of g_j, of x x'
    for p in range(count - asked, count):
        weights = np.empty(p)
        for q in range(p):
            weights[q] = alpha * (gamma + beta * fade ** (p - 1 - q))
        mixed = weights_of_rows(gram, weights, system)  # x_t
        missed = (np.sum(mixed * gram[p, :p]) - 1.0) * share * alpha * count / asked
        for q in range(p):
            parts[p, q] += missed * mixed[q]
            for r in range(p):
                outer[q, r] += share / asked * mixed[q] * mixed[r]
    mixed = weights_of_rows(gram, np.full(count, alpha), system)  # x
    for p in range(count):
        missed = (np.sum(mixed * gram[p]) - 1.0) * (1.0 - share) * alpha
        for q in range(count):
            parts[p, q] += missed * mixed[q]
            outer[p, q] += (1.0 - share) * mixed[p] * mixed[q]
    half = np.zeros((count, dim))  # outer · behind
    for p in range(count):
        row = np.zeros(dim)
        for q in range(count):
            for r in range(dim):
                row[r] += parts[p, q] * behind[q, r]
                half[p, r] += outer[p, q] * behind[q, r]
        for r in range(dim):
            rows[p, r] = row[r]
    place = 0
    for q in range(dim):
        line = np.zeros(dim - q)
        for p in range(count):
            for r in range(q, dim):
                line[r - q] += behind[p, q] * half[p, r]
        for r in range(dim - q):
            triangle[place + r] = line[r]
        place += dim - q


@compiled(parallel=True)
def make_shares(
    starts: Ints,
    items: Ints,
    common: Matrix,
    base: Matrix,
    behind: Matrix,
    alpha: float,
    order: float,
    prefixes: int,
    beta: float,
    gamma: float,
    tau: float,
) -> tuple[Singles, Singles]:
    """Rows g_j of every entry (n, k) and the triangle of every device (U, k(k+1)/2).

    `behind` is C base^-1, (m, k).
    Formulas: core/solve/device_share.py. Histories are oldest first, each item once, weights 1.
    """
    count, dim = len(starts) - 1, common.shape[1]
    rows = np.zeros((len(items), dim), dtype=np.float32)
    triangles = np.zeros((count, dim * (dim + 1) // 2), dtype=np.float32)
    fade = np.exp(-1.0 / tau)
    for i in prange(count):
        first, end = starts[i], starts[i + 1]
        length = end - first
        asked = min(prefixes, length - 1) if order > 0.0 else 0  # T
        share = order if asked > 0 else 0.0  # phi
        if length <= dim:  # n x n systems are smaller than k x k
            own, theirs = common[items[first:end]], behind[items[first:end]]
            short_share(
                own, theirs, alpha, share, asked, beta, gamma, fade, rows[first:end], triangles[i]
            )
            continue
        lasting, fading = np.zeros((dim, dim)), np.zeros((dim, dim))
        lasting_sum, fading_sum = np.zeros(dim), np.zeros(dim)
        system, user = np.zeros((dim, dim)), np.zeros(dim)
        outer = np.zeros((dim, dim))
        for p in range(first, end):
            row = common[items[p]]
            if end - p <= asked:  # one of the newest T: what came before must predict it
                for q in range(dim):
                    user[q] = alpha * (gamma * lasting_sum[q] + beta * fading_sum[q])
                    for r in range(q + 1):
                        system[q, r] = base[q, r] + alpha * (
                            gamma * lasting[q, r] + beta * fading[q, r]
                        )
                factor_and_solve(system, user)  # x_t
                missed = -1.0
                for q in range(dim):
                    missed += user[q] * row[q]
                missed *= share * alpha * length / asked
                for q in range(dim):
                    rows[p, q] = missed * user[q]
                    for r in range(q + 1):
                        outer[q, r] += share / asked * user[q] * user[r]
            add_square(lasting, lasting_sum, row, 1.0)
            add_square(fading, fading_sum, row, fade)
        for q in range(dim):
            user[q] = alpha * lasting_sum[q]
            for r in range(q + 1):
                system[q, r] = base[q, r] + alpha * lasting[q, r]
        factor_and_solve(system, user)  # x
        for p in range(first, end):
            row = common[items[p]]
            missed = -1.0
            for q in range(dim):
                missed += user[q] * row[q]
            missed *= (1.0 - share) * alpha
            for q in range(dim):
                rows[p, q] += missed * user[q]
        place = 0
        for q in range(dim):
            for r in range(q, dim):
                triangles[i, place] = outer[r, q] + (1.0 - share) * user[q] * user[r]
                place += 1
    return rows, triangles


@compiled(parallel=True)
def clip_rows(rows: Singles, limit: float) -> None:
    """Scale each row to norm `limit` at most, in place."""
    for p in prange(rows.shape[0]):
        square = 0.0
        for q in range(rows.shape[1]):
            square += rows[p, q] * rows[p, q]
        if square > limit * limit:
            factor = np.float32(limit / np.sqrt(square))
            for q in range(rows.shape[1]):
                rows[p, q] *= factor


@compiled(parallel=True)
def clip_shares(
    starts: Ints, rows: Singles, triangles: Singles, limit: float, touch: float
) -> None:
    """Scale each device's rows and triangle together to norm `limit` at most, in place.

    A touch of a row is one more number of the norm, of this size.
    """
    for i in prange(len(starts) - 1):
        square = touch * touch * (starts[i + 1] - starts[i])
        for p in range(starts[i], starts[i + 1]):
            for q in range(rows.shape[1]):
                square += rows[p, q] * rows[p, q]
        for q in range(triangles.shape[1]):
            square += triangles[i, q] * triangles[i, q]
        if square > limit * limit:
            factor = np.float32(limit / np.sqrt(square))
            for p in range(starts[i], starts[i + 1]):
                for q in range(rows.shape[1]):
                    rows[p, q] *= factor
            for q in range(triangles.shape[1]):
                triangles[i, q] *= factor


@compiled()
def uniform_at(seed: np.uint64, place: int) -> np.float32:
    """A number in [0, 1) that seed and place alone decide (splitmix64)."""
    word = seed + np.uint64(place + 1) * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word = word ^ (word >> np.uint64(31))
    return np.float32((word >> np.uint64(40)) * np.float32(2.0**-24))


@compiled(parallel=True)
def round_rows(rows: Singles, width: int, seed: np.uint64) -> None:
    """Round to int8 steps of max/127 and back, in place: at random, so that sums stay unbiased.

    Every `width` numbers of a row share one scale, as on the wire.
    """
    for p in prange(rows.shape[0]):
        for start in range(0, rows.shape[1], width):
            end = min(start + width, rows.shape[1])
            peak = np.float32(0.0)
            for q in range(start, end):
                peak = max(peak, abs(rows[p, q]))
            scale = peak / np.float32(127.0)
            if scale < np.float32(1.2e-38):
                rows[p, start:end] = 0.0
                continue
            for q in range(start, end):
                uniform = uniform_at(seed, p * rows.shape[1] + q)
                rows[p, q] = np.floor(rows[p, q] / scale + uniform) * scale


@compiled(parallel=True)
def round_reports(
    starts: Ints,
    rows: Singles,
    triangles: Singles,
    clip: float,
    peak: float,
    most: int,
    largest: int,
    seed: np.uint64,
) -> None:
    """Clip and round each device's share to whole steps of peak·S/R, as `split` does, in place.

    Of more than `most` rows the longest stay. See `fedrap_core.split.numbers`; the chance of number
    n of device i is `uniform_at(seed + i, n)`, rows that stay first, then the triangle.
    """
    step = clip * peak / largest
    limit = np.floor((largest / peak) ** 2)
    width = rows.shape[1]
    for i in prange(len(starts) - 1):
        first, end = starts[i], starts[i + 1]
        lengths = np.empty(end - first)
        for p in range(first, end):
            square = 0.0
            for q in range(width):
                square += float(rows[p, q]) ** 2
            lengths[p - first] = square
        if end - first > most:
            order = np.argsort(-lengths, kind="mergesort")
            for place in order[most:]:
                rows[first + place] = 0.0
                lengths[place] = -1.0
        norm = 0.0
        for square in lengths:
            norm += max(0.0, square)
        for q in range(triangles.shape[1]):
            norm += float(triangles[i, q]) ** 2
        norm = np.sqrt(norm)
        factor = 1.0 / step if norm <= clip else clip / norm / step
        mine = seed + np.uint64(i)
        squares = limit + 1.0
        while squares > limit:
            squares, place = 0.0, 0
            for p in range(first, end):
                if lengths[p - first] < 0.0:
                    continue
                for q in range(width):
                    scaled = min(max(float(rows[p, q]) * factor, -largest), largest)
                    squares += _stepped(scaled, uniform_at(mine, place), largest) ** 2
                    place += 1
            for q in range(triangles.shape[1]):
                scaled = min(max(float(triangles[i, q]) * factor, -largest), largest)
                squares += _stepped(scaled, uniform_at(mine, place), largest) ** 2
                place += 1
            if squares > limit:
                factor *= 0.99
        place = 0
        for p in range(first, end):
            if lengths[p - first] < 0.0:
                continue
            for q in range(width):
                scaled = min(max(float(rows[p, q]) * factor, -largest), largest)
                rows[p, q] = step * _stepped(scaled, uniform_at(mine, place), largest)
                place += 1
        for q in range(triangles.shape[1]):
            scaled = min(max(float(triangles[i, q]) * factor, -largest), largest)
            triangles[i, q] = step * _stepped(scaled, uniform_at(mine, place), largest)
            place += 1


@compiled()
def _stepped(value: float, uniform: np.float32, largest: int) -> float:
    return float(min(max(np.floor(value + uniform), -float(largest)), float(largest)))


@compiled(parallel=True)
def add_by_item(order: Ints, bounds: Ints, found: Ints, rows: Singles, total: Matrix) -> None:
    """total[found[s]] += sum of rows[order[bounds[s]:bounds[s+1]]], one item after the other."""
    for s in prange(len(found)):
        item = found[s]
        for place in range(bounds[s], bounds[s + 1]):
            for q in range(rows.shape[1]):
                total[item, q] += rows[order[place], q]
