"""C that this process has learnt before: methods that differ only in what devices make of it,
such as `fedrap` and `c-only`, learn it once. What it took is told, so that nobody looks faster.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import perf_counter

from fedrap_simulation.engine.compiled import Matrix

KEPT = 8  # the validation and five seeds of one set, and some


@dataclass(frozen=True, eq=False)
class LearntModel:
    """C, and the seconds that were spent on it earlier: 0 when it was learnt just now."""

    common: Matrix  # (m, k)
    spared: float


class ModelCache:
    """The last few C by what they were learnt from; nobody changes them in place."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._models: OrderedDict[Hashable, tuple[Matrix, float]] = OrderedDict()

    def get(self, key: Hashable, learn: Callable[[], Matrix]) -> LearntModel:
        """The C of this key; `learn` is called when it is not there."""
        if key in self._models:
            self._models.move_to_end(key)
            common, seconds = self._models[key]
            return LearntModel(common, seconds)
        started = perf_counter()
        common = learn()
        common.flags.writeable = False
        self._models[key] = common, perf_counter() - started
        while len(self._models) > self._kept:
            self._models.popitem(last=False)
        return LearntModel(common, 0.0)
