"""What this process has learnt before: methods that differ only in what devices make of it,
such as `fedrap` and `c-only`, learn it once. What it took is told, so that nobody looks faster.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, TypeVar

import numpy as np

KEPT = 8  # the validation and five seeds of one set, and some

M = TypeVar("M")  # C of `solve`, or a value made of arrays


@dataclass(frozen=True, eq=False)
class LearntModel(Generic[M]):
    """A model, and the seconds that were spent on it earlier: 0 when it was learnt just now."""

    model: M
    spared: float


class ModelCache(Generic[M]):
    """The last few models by what they were learnt from; nobody changes them in place."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._models: OrderedDict[Hashable, tuple[M, float]] = OrderedDict()

    def get(self, key: Hashable, learn: Callable[[], M]) -> LearntModel[M]:
        """The model of this key; `learn` is called when it is not there."""
        if key in self._models:
            self._models.move_to_end(key)
            model, seconds = self._models[key]
            return LearntModel(model, seconds)
        started = perf_counter()
        model = learn()
        for part in (model,) if isinstance(model, np.ndarray) else vars(model).values():
            part.flags.writeable = False
        self._models[key] = model, perf_counter() - started
        while len(self._models) > self._kept:
            self._models.popitem(last=False)
        return LearntModel(model, 0.0)
