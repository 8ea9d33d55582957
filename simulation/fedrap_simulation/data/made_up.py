"""`synthetic`: a population with planted tastes, as if it had come from a file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.synthetic import Shape, make_population

_USAGE = "synthetic:users=200,items=400,seed=0"


def is_made_up(name: str) -> bool:
    """Whether a name asks for a made-up population."""
    return name == "synthetic" or name.startswith("synthetic:")


def make_interactions_up(name: str) -> Interactions:
    """The population that `synthetic[:users=..,items=..,seed=..]` describes.

    What the planted chances call the held-out item is each user's last interaction. The time is
    the place in the user's history.

    Raises:
        BadData: the description is none, or asks for too few.
    """
    asked = _numbers(name)
    seed = asked.pop("seed", 0)
    shape = replace(Shape(), **asked)
    least = shape.longest + 1
    if shape.users < 1 or shape.items < least:
        raise BadData(f"{name}: there must be a user, and {least} items, the longest history")
    population = make_population(shape, seed)
    lengths = np.array([len(one) + 1 for one in population.histories])
    pieces = [
        np.append(history, last)
        for history, last in zip(population.histories, population.held_out, strict=True)
    ]
    rows = np.concatenate(pieces)  # (n,) items by their place in the population
    used, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(used), dtype=np.int64)
    place[order] = np.arange(len(used))
    return Interactions(
        name="synthetic",
        users=tuple(f"user-{one:04d}" for one in range(shape.users)),
        items=tuple(population.items[one] for one in used[order]),
        user=np.repeat(np.arange(shape.users), lengths),
        item=place[inverse],
        time=np.concatenate([np.arange(one, dtype=np.float64) for one in lengths]),
        form=f"made up: users={shape.users},items={shape.items},seed={seed}",
    )


def _numbers(name: str) -> dict[str, int]:
    """users, items and seed, as far as they are given."""
    out: dict[str, int] = {}
    for part in name.partition(":")[2].split(","):
        key, equals, value = part.partition("=")
        if not part and ":" not in name:
            continue
        if key not in ("users", "items", "seed") or not equals or not value.isdecimal():
            raise BadData(f'"{part}" in {name} is not understood; write {_USAGE}')
        out[key] = int(value)
    return out
