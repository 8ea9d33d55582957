"""A population that does not stand still: tastes drift, items come and go, seasons turn.

`drifting:users=5000,items=800,days=365` has times in seconds. Every item belongs to one taste, is
there from its first day to its last, and is wanted most while it is new. A season lifts each taste
for a part of the year. People arrive and leave; who is there opens the app every few days, stays
with one of a few tastes for a while, and now and then exchanges one of them for another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions, Rows
from fedrap_simulation.data.synthetic import read_numbers

DAY = 86_400.0
Floats = npt.NDArray[np.float64]
PREFIX = "drifting"


@dataclass(frozen=True)
class Drift:
    """How large the population is, and how fast it changes."""

    users: int = 1000
    items: int = 400
    days: int = 365
    tastes: int = 12
    tastes_per_user: int = 3
    sessions: float = 0.2  # a day and person
    longest: int = 4  # items of a session, at the most
    stay: float = 0.8  # chance that the next item is of the same taste as the last
    blur: float = 0.1  # share of choices that fall on any item at all
    moves: float = 1 / 120  # a day and person: one taste is exchanged for another
    season: float = 0.6  # how far a taste rises and falls in a year
    novelty: float = 3.0  # how much more a new item is wanted
    novelty_days: float = 14.0
    at_start: float = 0.6  # share of the items that is there on the first day
    life_days: float = 500.0  # of an item, on average; at least a tenth of that
    early: float = 0.7  # share of the people who arrive within the first two weeks
    member_days: float = 700.0  # of a person, on average


def is_drifting(name: str) -> bool:
    """Whether a name asks for such a population."""
    return name == PREFIX or name.startswith(PREFIX + ":")


def make_drifting(name: str) -> Interactions:
    """The population that `drifting[:users=..,items=..,days=..,seed=..]` describes.

    Raises:
        BadData: the description is none, or asks for too few.
    """
    asked = read_numbers(name, ("users", "items", "days", "seed"))
    seed = asked.pop("seed", 0)
    drift = replace(Drift(), **asked)
    if drift.users < 1 or drift.days < 1 or drift.items < 2 * drift.tastes:
        raise BadData(f"{name}: there must be a user, a day and {2 * drift.tastes} items")
    user, item, time = _live(drift, np.random.default_rng([seed, 0xD21F]))
    used, place = np.unique(item, return_inverse=True)
    people, who = np.unique(user, return_inverse=True)
    return Interactions(
        name=PREFIX,
        users=tuple(f"user-{one:05d}" for one in people),
        items=tuple(f"item-{one:05d}" for one in used),
        user=who,
        item=place,
        time=time,
        form=f"made up: users={drift.users},items={drift.items},days={drift.days},seed={seed}",
    )


@dataclass(frozen=True, eq=False)
class _Items:
    """What is there, and since when."""

    taste: Rows  # (m,)
    appeal: Floats  # (m,)
    born: Floats  # (m,) days
    gone: Floats  # (m,)

    @staticmethod
    def draw(drift: Drift, rng: np.random.Generator) -> _Items:
        count = drift.items
        born = rng.uniform(1.0, drift.days, count)
        born[rng.random(count) < drift.at_start] = 0.0
        life = np.maximum(0.1 * drift.life_days, rng.exponential(drift.life_days, count))
        appeal = rng.permutation(1.0 / (1.0 + np.arange(count)) ** 0.6)  # Zipf-like
        return _Items(rng.permutation(np.arange(count) % drift.tastes), appeal, born, born + life)

    def chances(self, drift: Drift, phase: Floats, day: float) -> tuple[Floats, Floats]:
        """Of each item within each taste (T, m), and how each taste is in season (T,)."""
        there = (self.born <= day) & (day < self.gone)
        age = np.maximum(0.0, day - self.born)
        # What was there on the first day is not new, only its record is.
        fresh = drift.novelty * np.exp(-age / drift.novelty_days) * (self.born > 0)
        wanted = np.where(there, self.appeal * (1.0 + fresh), 0.0)  # (m,)
        mine = self.taste == np.arange(drift.tastes)[:, None]  # (T, m)
        within = np.where(mine, wanted, 0.0)
        total = within.sum(axis=1, keepdims=True)
        within = np.divide(within, total, out=np.zeros_like(within), where=total > 0)
        anything = wanted / max(wanted.sum(), 1e-300)
        mixed = (1 - drift.blur) * within + drift.blur * anything
        season = 1.0 + drift.season * np.cos(2 * np.pi * (day / 365.0 - phase))  # (T,)
        return mixed / mixed.sum(axis=1, keepdims=True), season


def _live(drift: Drift, rng: np.random.Generator) -> tuple[Rows, Rows, Floats]:
    """Everything that everybody does: users, items, seconds, in the order of time."""
    items = _Items.draw(drift, rng)
    phase = rng.random(drift.tastes)
    count = drift.users
    arrive = np.where(
        rng.random(count) < drift.early,
        rng.uniform(0.0, min(14.0, drift.days), count),
        rng.uniform(0.0, drift.days, count),
    )
    leave = arrive + rng.exponential(drift.member_days, count)
    mine = rng.random((count, drift.tastes)).argsort(axis=1)[:, : drift.tastes_per_user]  # (U, 3)
    share = rng.dirichlet(np.full(drift.tastes_per_user, 2.0), count)  # (U, 3)
    unseen = np.ones((count, drift.items), dtype=np.bool_)
    parts: list[tuple[Rows, Rows, Floats]] = []
    for day in range(drift.days):
        moving = np.flatnonzero(rng.random(count) < drift.moves)
        mine[moving, rng.integers(drift.tastes_per_user, size=len(moving))] = rng.integers(
            drift.tastes, size=len(moving)
        )
        chance, season = items.chances(drift, phase, float(day))
        ends = np.cumsum(chance, axis=1)  # (T, m)
        here = (arrive <= day) & (day < leave) & (rng.random(count) < drift.sessions)
        users = np.flatnonzero(here)
        wish = share[users] * season[mine[users]]  # (A, 3)
        wish = np.cumsum(wish / wish.sum(axis=1, keepdims=True), axis=1)
        taste = _pick(wish, rng)  # (A,) which of the own tastes
        at = day * DAY + rng.uniform(0.0, 0.9 * DAY, len(users))
        left = rng.integers(1, drift.longest + 1, len(users))
        for turn in range(drift.longest):
            on = np.flatnonzero(left > turn)
            again = on[rng.random(len(on)) >= drift.stay]
            taste[again] = _pick(wish[again], rng)
            found = _pick(ends[mine[users[on], taste[on]]], rng)  # (A',) items
            new = unseen[users[on], found]
            who, what = users[on][new], found[new]
            unseen[who, what] = False
            parts.append((who, what, at[on][new] + 60.0 * turn))
    user, item, time = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(user):
        raise BadData("nobody did anything in these days; ask for more users or days")
    order = np.argsort(time, kind="stable")
    return user[order], item[order], time[order]


def _pick(ends: Floats, rng: np.random.Generator) -> Rows:
    """One column of each row, by chances that are added up along it: (A,)."""
    goal = rng.random(len(ends)) * ends[:, -1]
    passed = (ends <= goal[:, None]).sum(axis=1)
    return np.asarray(np.minimum(passed, ends.shape[1] - 1), dtype=np.int64)
