"""The arithmetic of the sequence part for many devices at once, compiled. float32.

Formulas: fedrap_core/sequence. Histories are windows, oldest first; a target is a place in its
owner's window, and the place after the last one asks what comes next. Targets and devices run in
parallel and write to places of their own, so threads do not change the result. All of it is
`exact`: decoys and int8 steps are drawn from what comes out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import prange

from fedrap_simulation.engine.compiled import Ints, Singles, compiled
from fedrap_simulation.engine.solve_kernels import uniform_at

Words = npt.NDArray[np.uint64]


@compiled(exact=True)
def inputs_of(place: int, count: int, ordered: bool) -> tuple[int, int]:
    """Where the inputs of a target end, and how many there are with nothing left out."""
    if ordered:
        return place, place
    return count, count - 1 if place < count else count


@compiled(parallel=True, exact=True)
def see_inputs(
    starts: Ints,
    items: Ints,
    owners: Ints,
    places: Ints,
    words: Words,
    inputs: Singles,
    fades: Singles,
    roots: Singles,
    ordered: bool,
    dropout: float,
) -> Singles:
    """h_ts of every target: (T, S, k).

    Args:
        owners: (T,) the device of each target, `places` (T,) its place there.
        words: (T,) what decides which inputs a target leaves out.
        inputs: (m, k) P.
        fades: (S, n) exp(-l/tau_s), roots: (S, n + 1) 1/sqrt of their sums.
    """
    kernels, dim = len(fades), inputs.shape[1]
    seen = np.zeros((len(places), kernels, dim), dtype=np.float32)
    for t in prange(len(places)):
        first, place = starts[owners[t]], places[t]
        end, asked = inputs_of(place, starts[owners[t] + 1] - first, ordered)
        for age in range(end):
            p = end - 1 - age
            if p == place or uniform_at(words[t], p) < dropout:
                continue
            row = inputs[items[first + p]]
            for s in range(kernels):
                scale = fades[s, age] * roots[s, asked]
                if scale > 0.0:
                    for q in range(dim):
                        seen[t, s, q] += scale * row[q]
    return seen


@compiled(parallel=True, exact=True)
def add_inputs(
    starts: Ints,
    where: Ints,
    bounds: Ints,
    places: Ints,
    words: Words,
    errors: Singles,
    seen: Singles,
    kernels: Singles,
    fades: Singles,
    roots: Singles,
    ordered: bool,
    dropout: float,
    rows: Singles,
    moves: Singles,
) -> None:
    """g_in of every device into `rows` (R, k), and its g_a into `moves` (U, S·k).

    Args:
        where: (n,) the row of each entry of the windows.
        bounds: (U + 1,) device i has targets bounds[i] … bounds[i + 1] - 1.
        errors: (T, k) e_t; seen: (T, S, k) h_ts; kernels: (S, k) a.
    """
    count, dim = kernels.shape
    for i in prange(len(starts) - 1):
        first, length = starts[i], starts[i + 1] - starts[i]
        scaled = np.empty((count, dim), dtype=np.float32)  # a_s * e_t
        for t in range(bounds[i], bounds[i + 1]):
            place = places[t]
            end, asked = inputs_of(place, length, ordered)
            for s in range(count):
                for q in range(dim):
                    scaled[s, q] = kernels[s, q] * errors[t, q] * roots[s, asked]
                    moves[i, s * dim + q] += errors[t, q] * seen[t, s, q]
            for age in range(end):
                p = end - 1 - age
                if p == place or uniform_at(words[t], p) < dropout:
                    continue
                row = rows[where[first + p]]
                for s in range(count):
                    if fades[s, age] > 0.0:
                        for q in range(dim):
                            row[q] += fades[s, age] * scaled[s, q]


@compiled(parallel=True, exact=True)
def add_outputs(bounds: Ints, queries: Singles, mine: Ints, decoys: Ints, rows: Singles) -> None:
    """g_out of every device into `rows` (R, k + 1).

    `mine` (T,) is the row of each target's item, `decoys` (T, D) those of its decoys.
    """
    dim, each = queries.shape[1], decoys.shape[1]
    share = np.float32(1.0) / np.float32(each)
    for i in prange(len(bounds) - 1):
        for t in range(bounds[i], bounds[i + 1]):
            for q in range(dim):
                rows[mine[t], q] -= queries[t, q]
            rows[mine[t], dim] -= np.float32(1.0)
            for d in range(each):
                row = rows[decoys[t, d]]
                for q in range(dim):
                    row[q] += share * queries[t, q]
                row[dim] += share
