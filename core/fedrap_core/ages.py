"""Rows that came at different steps: each is at its own place in a schedule.

None stands for a catalogue of which all rows were there with the first step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fedrap_core.model import Rows

Born = Rows | None  # (m,) the step that each row came with


def ages(born: Born, step: int, size: int) -> Rows:
    """Steps that each of `size` rows was there for before `step`: (size,)."""
    return step - (np.zeros(size, dtype=np.int64) if born is None else born)


def with_born(born: Born, before: int, size: int, step: int) -> Born:
    """Of `size` rows, where those beyond the first `before` came with `step`."""
    if size <= before:
        return born
    old = np.zeros(before, dtype=np.int64) if born is None else born
    return np.concatenate([old, np.full(size - before, step, dtype=np.int64)])


def by_age(function: Callable[[int], float], of: Rows) -> npt.NDArray[np.float64]:
    """`function` of each age, worked out once for all rows of one age: (len(of),)."""
    distinct, where = np.unique(of, return_inverse=True)
    return np.array([function(int(age)) for age in distinct], dtype=np.float64)[where]
