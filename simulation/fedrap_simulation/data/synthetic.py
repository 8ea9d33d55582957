"""A population with planted tastes, so that the right answer is known.

Every item belongs to one taste and is a little liked by all. A user has a few tastes, stays with
one for a while and then moves to another, as people do who browse: what comes next depends most
on what came last.

`synthetic`: a population with planted tastes, as if it had come from a file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions


@dataclass(frozen=True)
class Shape:
    """How large a population is, and how its users move."""

    users: int = 200
    items: int = 400
    tastes: int = 8
    shortest: int = 15
    longest: int = 40
    tastes_per_user: int = 3
    stay: float = 0.8  # chance that the next item is of the same taste as the last
    blur: float = 0.1  # share of a taste's choices that fall on any item at all


@dataclass(frozen=True, eq=False)
class PlantedPopulation:
    """Histories, one held-out item each, and the chances that both were drawn from."""

    items: list[str]
    histories: list[npt.NDArray[np.int64]]  # oldest first, without the held-out item
    held_out: npt.NDArray[np.int64]  # (users,) what the user does next
    planted: npt.NDArray[np.float64]  # (users, items) true chance of each item to come next

    def popularity(self) -> npt.NDArray[np.int64]:
        """How many histories have each item: (items,)."""
        counts = np.zeros(len(self.items), dtype=np.int64)
        for history in self.histories:
            counts[history] += 1
        return counts


def make_population(shape: Shape, seed: int) -> PlantedPopulation:
    """Draw a population; the same seed gives the same one."""
    rng = np.random.default_rng(seed)
    chances = _taste_chances(shape, rng)  # (tastes, items)
    histories, held_out, planted = [], [], []
    for _ in range(shape.users):
        drawn, chance = _browse(shape, chances, rng)
        histories.append(drawn[:-1])
        held_out.append(drawn[-1])
        planted.append(chance)
    names = [f"item-{row:04d}" for row in range(shape.items)]
    return PlantedPopulation(names, histories, np.array(held_out), np.array(planted))


def _taste_chances(shape: Shape, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Chance of each item within each taste; inside a taste some items are loved more."""
    owner = np.arange(shape.items) % shape.tastes  # (items,)
    appeal = rng.permutation(1.0 / (1.0 + np.arange(shape.items)) ** 0.6)  # (items,) Zipf-like
    chances = np.where(owner[None, :] == np.arange(shape.tastes)[:, None], appeal[None, :], 0.0)
    chances /= chances.sum(axis=1, keepdims=True)
    mixed: npt.NDArray[np.float64] = (1 - shape.blur) * chances + shape.blur * appeal / appeal.sum()
    return mixed


def _browse(
    shape: Shape, chances: npt.NDArray[np.float64], rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """One user's items in order, and the true chances that the last one was drawn with."""
    mine = rng.choice(shape.tastes, shape.tastes_per_user, replace=False)
    share = rng.dirichlet(np.full(shape.tastes_per_user, 2.0))  # (tastes_per_user,)
    length = int(rng.integers(shape.shortest, shape.longest + 1)) + 1
    taste = int(rng.choice(mine, p=share))
    unseen = np.ones(shape.items)
    drawn = np.empty(length, dtype=np.int64)
    chance = np.zeros(shape.items)
    for place in range(length):
        move = shape.stay * (mine == taste) + (1 - shape.stay) * share  # (tastes_per_user,)
        chance = unseen * (move @ chances[mine])  # (items,)
        chance /= chance.sum()
        taste = int(rng.choice(mine, p=move / move.sum()))
        of_taste = unseen * chances[taste]
        drawn[place] = rng.choice(shape.items, p=of_taste / of_taste.sum())
        unseen[drawn[place]] = 0.0
    return drawn, chance


_USUAL = {"users": 200, "items": 400, "days": 365, "seed": 0}  # for an example of what to write


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
    asked = read_numbers(name, ("users", "items", "seed"))
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


def read_numbers(name: str, known: tuple[str, ...]) -> dict[str, int]:
    """The whole numbers that a name gives behind its colon, as far as they are given.

    Raises:
        BadData: something there is none of `known`, or no number.
    """
    kind, colon, rest = name.partition(":")
    out: dict[str, int] = {}
    for part in rest.split(",") if colon else []:
        key, equals, value = part.partition("=")
        if key not in known or not equals or not value.isdecimal():
            usage = f"{kind}:{','.join(f'{one}={_USUAL[one]}' for one in known)}"
            raise BadData(f'"{part}" in {name} is not understood; write {usage}')
        out[key] = int(value)
    return out
