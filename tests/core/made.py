"""Small made-up models, histories and updates for the tests of the core."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import settings
from hypothesis import strategies as st

from fedrap_core.model import CommonItems, History
from fedrap_core.quantize import QuantizedRows, quantize_rows
from fedrap_core.sparse import RowUpdate, pack_gram

Matrix = npt.NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)
quick = settings(deadline=None, max_examples=50)


def items_of(matrix: npt.ArrayLike, version: int = 1) -> CommonItems:
    """A release of C that quantises this matrix."""
    return CommonItems(version, quantize_rows(np.asarray(matrix, dtype=np.float64)))


def random_items(rng: np.random.Generator, size: int = 20, dim: int = 4) -> CommonItems:
    """A release of C with rows from N(0, 0.5^2)."""
    return items_of(rng.normal(0.0, 0.5, size=(size, dim)))


def scaled_items(values: npt.ArrayLike, scales: npt.ArrayLike) -> CommonItems:
    """A release of C from its int8 steps and its scales, as a device would receive it."""
    steps, widths = np.asarray(values, dtype=np.int8), np.asarray(scales, dtype=np.float32)
    return CommonItems(1, QuantizedRows(steps, widths))


def history_of(*rows: int, weights: npt.ArrayLike | None = None) -> History:
    """A history, newest first, of plain taps unless weights are given."""
    chosen = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
    return History(np.array(rows, dtype=np.int64), chosen)


def random_history(rng: np.random.Generator, size: int, length: int) -> History:
    """A history with repeats and with weights from 0.5 to 3."""
    return History(rng.integers(0, size, size=length), rng.uniform(0.5, 3.0, size=length))


def random_update(
    rng: np.random.Generator, size: int = 20, dim: int = 4, count: int = 5, spread: float = 1.0
) -> RowUpdate:
    """An update of `count` rows of a model of `size` rows."""
    rows = np.sort(rng.choice(size, size=count, replace=False)).astype(np.int64)
    values = rng.normal(0.0, spread, size=(count, dim))
    users = rng.normal(0.0, np.sqrt(spread), size=(2, dim))
    return RowUpdate(rows, values, pack_gram(users.T @ users))
