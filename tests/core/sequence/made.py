"""A small sequence part and what its loss is, written down once more as plain loops."""

from __future__ import annotations

import numpy as np

from fedrap_core.plan import SequenceMethod
from fedrap_core.sequence.model import Kernels, Matrix, SequenceItems

SIZE, DIM = 9, 3
SURE = SequenceMethod(dim=DIM, dropout=0.0, targets=50)  # nothing left out, every target taken
FLAT = SequenceMethod(dim=DIM, dropout=0.0, targets=50, ordered=False)


def some_items(
    seed: int, method: SequenceMethod = SURE, size: int = SIZE, dim: int = DIM
) -> SequenceItems:
    rng = np.random.default_rng(seed)
    return SequenceItems(
        rng.normal(0.0, 0.7, (size, dim)),
        rng.normal(0.0, 0.4, (size, dim)),
        rng.normal(0.0, 0.5, size),
        rng.normal(0.7, 0.3, (method.kernels, dim)),
    )


def query_by_hand(items: SequenceItems, newest_first: list[int], method: Kernels) -> Matrix:
    """q as the formula has it, input by input."""
    query = np.zeros(items.outputs.shape[1])
    taus = method.taus if method.ordered else (np.inf,)
    for kernel, tau in zip(items.kernels, taus, strict=True):
        fades = [float(np.exp(-age / tau)) for age in range(len(newest_first))]
        fades = [fade if fade >= 1e-4 else 0.0 for fade in fades]
        for fade, row in zip(fades, newest_first, strict=True):
            scale = fade / np.sqrt(sum(fades))
            query += kernel * scale * (items.outputs[row] + items.offsets[row])
    return query


def loss_by_hand(items: SequenceItems, oldest_first: list[int], method: SequenceMethod) -> float:
    """sum_t -log p_t(y_t) over every place that something predicts."""
    total = 0.0
    for place in range(1 if method.ordered else 0, len(oldest_first)):
        others = oldest_first[:place] if method.ordered else list(oldest_first)
        if not method.ordered:
            del others[place]
        query = query_by_hand(items, others[::-1], method)
        scores = items.outputs @ query + items.bias
        total += float(np.log(np.exp(scores).sum()) - scores[oldest_first[place]])
    return total
