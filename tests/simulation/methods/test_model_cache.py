"""Models that are learnt once."""

from __future__ import annotations

import numpy as np

from fedrap_simulation.engine.compiled import Matrix
from fedrap_simulation.methods.model_cache import ModelCache


def counted(calls: list[float], value: float) -> Matrix:
    calls.append(value)
    return np.full((2, 2), value)


def test_the_second_asker_is_told_what_the_first_one_spent() -> None:
    shelf, calls = ModelCache[Matrix](), list[float]()
    first = shelf.get("a", lambda: counted(calls, 1.0))
    second = shelf.get("a", lambda: counted(calls, 2.0))
    assert calls == [1.0]
    assert second.model is first.model
    assert first.spared == 0.0
    assert second.spared > 0.0
    assert not first.model.flags.writeable


def test_the_one_that_was_asked_for_longest_ago_makes_room() -> None:
    shelf, calls = ModelCache[Matrix](kept=2), list[float]()
    for key in ("a", "b", "a", "c", "a", "b"):
        shelf.get(key, lambda key=key: counted(calls, ord(key)))  # type: ignore[misc]
    assert [chr(int(one)) for one in calls] == ["a", "b", "c", "b"]
