"""The people of a scenario: who comes when, and what each of them does when.

Kept as three flat arrays, so that a person costs a few bytes per interaction and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Histories, Interactions, Rows
from fedrap_simulation.data.load import load
from fedrap_simulation.scenarios.scenario import DAY, PopulationSettings, Scenario

Times = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Population:
    """U people. Times are seconds since the scenario began; what lies before it is negative."""

    dataset: str
    items: tuple[str, ...]  # (m,) ids
    starts: Rows  # (U + 1,) person i did item[starts[i]:starts[i + 1]]
    item: Rows  # (n,) places in `items`, oldest first
    time: Times  # (n,)
    arrive: Times  # (U,) when the device is there

    def __len__(self) -> int:
        return len(self.arrive)

    def done(self, person: int, now: float) -> int:
        """How many interactions a person has had by `now`."""
        start, end = self.starts[person], self.starts[person + 1]
        return int(np.searchsorted(self.time[start:end], now, side="right"))

    def of(self, person: int, now: float) -> Rows:
        """A person's items by `now`, oldest first."""
        start = self.starts[person]
        return self.item[start : start + self.done(person, now)]

    def times(self, person: int, now: float) -> Times:
        """When a person touched the items of `of`."""
        start = self.starts[person]
        return self.time[start : start + self.done(person, now)]

    def recent(self, now: float, half_days: float) -> Times:
        """How often each item was touched by `now`, half as much for each half-life: (m,)."""
        past = self.time <= now
        fading = 2.0 ** ((self.time[past] - now) / (half_days * DAY))
        return np.bincount(self.item[past], fading, minlength=len(self.items)).astype(np.float64)

    def lives(self) -> tuple[Times, Times]:
        """When each item is touched first and last: (m,), (m,); inf, -inf for one that never is."""
        first, last = np.full(len(self.items), np.inf), np.full(len(self.items), -np.inf)
        np.minimum.at(first, self.item, self.time)
        np.maximum.at(last, self.item, self.time)
        return first, last

    def counts(self, now: float) -> Rows:
        """How often each item was touched by `now`: (m,)."""
        return np.bincount(self.item[self.time <= now], minlength=len(self.items))

    def ask(self, people: Rows, now: float) -> tuple[Rows, Histories, Rows]:
        """Who can be asked for a next item, each history by `now`, and the items: (A,), (A,).

        The next item is the first one after `now` that the person did not touch before.
        """
        asked, targets, parts = [], [], []
        for person in people.tolist():
            start, end = int(self.starts[person]), int(self.starts[person + 1])
            seen = start + self.done(person, now)
            before, after = self.item[start:seen], self.item[seen:end]
            if self.arrive[person] > now or len(before) == 0:
                continue
            fresh = after[~np.isin(after, before)]
            if len(fresh):
                asked.append(person)
                targets.append(fresh[0])
                parts.append(before)
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        flat = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        rows = np.array(asked, dtype=np.int64)
        return rows, Histories(starts, flat), np.array(targets, dtype=np.int64)


def load_population(scenario: Scenario, data_dir: Path | None = None) -> Population:
    """The people of a scenario.

    Raises:
        BadData: the data cannot be read, or nobody in it is there in time.
    """
    people = scenario.population
    data = load(people.data, data_dir)
    rng = np.random.default_rng([scenario.seed, 0xC20])
    order = np.lexsort((rng.random(len(data)), _time_of(data), data.user))
    user, item = data.user[order], data.item[order]
    lengths = np.bincount(user, minlength=len(data.users))
    kept = np.flatnonzero(lengths >= people.least)
    if people.times == "real" and data.time is not None:
        time = _real_times(data.time[order], people)
        first = np.full(len(data.users), np.inf)
        np.minimum.at(first, user, time)
        kept = kept[first[kept] < scenario.seconds]
        arrive = np.maximum(first, 0.0)
    else:
        time, arrive = _spread_times(user, lengths, people, scenario.seconds, rng)
    if people.users is not None and people.users < len(kept):
        kept = np.sort(rng.permutation(kept)[: people.users])
    if not len(kept):
        raise BadData(f"nobody in {data.name} is there in the days of this scenario")
    place = np.full(len(data.users), -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    mine = place[user] >= 0
    sizes = lengths[kept]
    return Population(
        data.name,
        data.items,
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        item[mine].astype(np.int64),
        time[mine],
        arrive[kept],
    )


def _time_of(data: Interactions) -> Times:
    return np.zeros(len(data)) if data.time is None else data.time


def _real_times(time: Times, people: PopulationSettings) -> Times:
    """Seconds of the scenario for seconds of the data."""
    since: Times = time - time.min() - people.from_day * DAY
    return since / people.speed


def _spread_times(
    user: Rows, lengths: Rows, people: PopulationSettings, seconds: float, rng: np.random.Generator
) -> tuple[Times, Times]:
    """Each person arrives at random with a part of the history; the rest comes evenly."""
    arrive = rng.uniform(0.0, people.arrive_days * DAY, len(lengths))  # (U,)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    place = np.arange(len(user)) - starts[user]  # (n,) place within the person
    known = np.ceil(people.known * lengths)  # (U,)
    share = (place + 1 - known[user]) / np.maximum(1.0, lengths[user] - known[user])  # (n,)
    left = np.maximum(0.0, seconds - arrive)[user]
    return np.where(place < known[user], arrive[user], arrive[user] + share * left), arrive
