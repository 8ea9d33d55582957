"""The parts of an update, by plan: the one list that codec, sum, noise and step go by.

    part      rows  numbers in a row
    fits         1  1                  the clipping bit
    gram         1  k(k+1)/2           x x', packed
    rows         m  k                  g_j of C
    inputs       m  k_s                g_in, of the sequence part
    outputs      m  k_s + 1            g_out, the last number for the bias
    kernels      S  k_s                g_a
    lately       m  1                  v_j of the trend, from 0 to its scale

In this order they are one vector: of the noise of a release, and of whatever else sums shares.
`inputs` to `kernels` are there where the plan has a sequence part, `lately` where it has a trend.
"""

from __future__ import annotations

import numpy as np

from fedrap_core.plan import Method, sequence_of, trend_of
from fedrap_core.sparse import Part, RowPart, packed_size


def update_parts(method: Method, size: int) -> tuple[Part, ...]:
    """All parts, for a catalogue of `size` items."""
    base = (
        Part("fits", 1, 1, whole=True),
        Part("gram", 1, packed_size(method.dim), whole=True),
        Part("rows", size, method.dim),
    )
    return base + more_parts(method, size)


def more_parts(method: Method, size: int) -> tuple[Part, ...]:
    """The parts beside the rows and the Gram matrix of C: what `RowUpdate.parts` has."""
    parts: tuple[Part, ...] = ()
    if (sequence := sequence_of(method)) is not None:
        dim = sequence.dim
        parts += (
            Part("inputs", size, dim),
            Part("outputs", size, dim + 1),
            Part("kernels", sequence.kernels, dim, whole=True),
        )
    if (trend := trend_of(method)) is not None:
        parts += (Part("lately", size, 1, most=trend.scale),)
    return parts


def empty_parts(method: Method) -> tuple[RowPart, ...]:
    """What `RowUpdate.parts` of a device has that has nothing to say in them."""
    return tuple(
        RowPart(np.arange(count), np.zeros((count, part.width)))
        for part in more_parts(method, 0)
        for count in [part.rows if part.whole else 0]
    )
