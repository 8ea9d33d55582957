"""Who is asked what: each user's newest item is the test, the one before it the validation.

Equal times are put in an order drawn by the seed: most ratings of MovieLens share their second
with another, and the order of a file must not decide. Without time the held-out items are drawn
at random. In the validation task methods learn from what came before the validation item; in the
test task that item belongs to the history, as it would on the day of the question.

A split as files, so that other programs can be asked the same questions.

train.csv is what may be learnt from before the validation question, validation.csv and test.csv
have one held-out item a user, negatives.csv what it is ranked among. Before the test question
train and validation together may be learnt from. Where purchases repeat that is not all: the
basket of the validation item counts as well, so train_for_test.csv is written too. `timestamp` is
the place in the user's history, and there only if the order means anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedrap_simulation.data.content import read_content
from fedrap_simulation.data.errors import BadData, MissingData
from fedrap_simulation.data.interactions import (
    Histories,
    Interactions,
    Rows,
    make_histories,
)
from fedrap_simulation.data.named import NAMED, default_data_dir, items_by_user
from fedrap_simulation.data.times import are_real
from fedrap_simulation.data.write import quote, refuse_to_overwrite, write_text, write_whole
from fedrap_simulation.evaluation.task import ProtocolName, Task

SplitKind = Literal["last", "random", "ncf", "repeat", "time"]
NEGATIVES = 99


@dataclass(frozen=True, eq=False)
class Split:
    """The same people, asked twice: once to choose settings, once to report."""

    validation: Task
    test: Task
    users: tuple[str, ...]  # (U,) ids of those who are known to the test
    kind: SplitKind


@dataclass(frozen=True, eq=False)
class Published:
    """Held-out items and negatives that others have used before, by user id."""

    tests: dict[str, str]
    negatives: dict[str, list[str]]


def make_split(
    data: Interactions,
    seed: int,
    *,
    protocol: ProtocolName = "clean",
    kind: SplitKind | None = None,
    least: int = 10,
    published: Published | None = None,
) -> Split:
    """Split by `kind`: `last` where there is time and `random` where there is none, unless said.

    Users with fewer than `least` interactions are left out. `time_split` has the kind `time`.

    Raises:
        BadData: nobody is left, or the split needs what the data does not have.
    """
    if kind is None:
        kind = "last" if data.time is not None else "random"
    if kind in ("last", "repeat") and data.time is None:
        raise BadData(f"{data.name} has no time, so there is no newest item; use --split random")
    rng = np.random.default_rng([seed, 0x5D1])
    if kind == "repeat":
        return _repeat(data, rng, protocol, least)
    time = data.time if kind != "random" and data.time is not None else np.zeros(len(data))
    order = np.lexsort((rng.random(len(data)), time))
    order = order[first_of_each(data.user[order], data.item[order], len(data.items))]
    kept, order = _long_enough(data.user, order, len(data.users), max(least, 3))
    user, item = np.searchsorted(kept, data.user[order]), data.item[order]
    names = tuple(data.users[one] for one in kept)
    if not names:
        raise BadData(f"nobody in {data.name} has {least} items; lower --min-interactions")
    whole = make_histories(user, item, len(names))
    negatives = None
    if kind == "ncf":
        whole, negatives = _as_published(whole, names, data, published)
    if negatives is None:
        negatives = draw_negatives(whole, len(data.items), rng)
    ordered = kind != "random" and data.time is not None
    last = whole.starts[1:] - 1
    test, validation = whole.items[last], whole.items[last - 1]
    before = _without_last(whole, 2)
    times = None
    if kind == "last" and are_real(data):
        times = time[order][np.argsort(user, kind="stable")]  # (n,) of each entry of `whole`

    def task(stage: Literal["validation", "test"]) -> Task:
        train = before if stage == "validation" else before.append(validation)
        back = 2 if stage == "validation" else 1
        return Task(
            data.name,
            protocol,
            stage,
            len(data.items),
            train,
            ordered,
            validation if stage == "validation" else test,
            negatives,
            train if protocol == "clean" else whole,
            times=None if times is None else times[_early(whole, back)],
        )

    return Split(task("validation"), task("test"), names, kind)


def draw_negatives(
    whole: Histories, items: int, rng: np.random.Generator, count: int = NEGATIVES
) -> Rows:
    """`count` distinct items for each user that the user never touched: (U, count).

    Raises:
        BadData: somebody touched almost everything.
    """
    longest = int(np.max(whole.lengths, initial=0))
    if longest + count > items:
        raise BadData(f"{items} items are too few for {count} negatives beside {longest} own items")
    out = np.empty((len(whole), count), dtype=np.int64)
    taken = np.zeros(items, dtype=np.bool_)
    for user in range(len(whole)):
        mine = whole.of(user)
        taken[mine] = True
        drawn: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        while len(drawn) < count:
            more = rng.integers(0, items, 2 * count)
            fresh = np.concatenate([drawn, more[~taken[more]]])
            _, first = np.unique(fresh, return_index=True)
            drawn = fresh[np.sort(first)]
        out[user] = drawn[:count]
        taken[mine] = False
    return out


def first_of_each(user: Rows, item: Rows, items: int) -> Rows:
    """Where each pair comes for the first time, ascending."""
    _, first = np.unique(user * items + item, return_index=True)
    return np.sort(first)


def _long_enough(user: Rows, order: Rows, users: int, least: int) -> tuple[Rows, Rows]:
    """Users with `least` of the interactions in `order`, ascending, and theirs of these."""
    enough = np.bincount(user[order], minlength=users) >= least
    return np.flatnonzero(enough), order[enough[user[order]]]


def _without_last(whole: Histories, count: int) -> Histories:
    lengths = whole.lengths - count
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return Histories(starts, whole.items[_early(whole, count)])


def _early(whole: Histories, count: int) -> npt.NDArray[np.bool_]:
    """Which entries are not among the newest `count` of their user."""
    keep = np.ones(len(whole.items), dtype=np.bool_)
    for back in range(1, count + 1):
        keep[whole.starts[1:] - back] = False
    return keep


def _as_published(
    whole: Histories, names: tuple[str, ...], data: Interactions, published: Published | None
) -> tuple[Histories, Rows]:
    """Histories whose last item is the published test item, and the published negatives."""
    if published is None:
        raise BadData(f"{data.name} has no published test items and negatives; use --split last")
    row = {item: place for place, item in enumerate(data.items)}
    items = whole.items.copy()
    negatives = np.empty((len(names), NEGATIVES), dtype=np.int64)
    for user, name in enumerate(names):
        if name not in published.tests:
            raise BadData(f"the published split has no user {name}")
        mine = whole.of(user)
        target = row[published.tests[name]]
        rest = mine[mine != target]
        if len(rest) != len(mine) - 1:
            raise BadData(f"the published test item of user {name} is not in the ratings")
        items[whole.starts[user] : whole.starts[user + 1]] = np.append(rest, target)
        negatives[user] = [row[one] for one in published.negatives[name]]
    return Histories(whole.starts, items), negatives


def _repeat(
    data: Interactions, rng: np.random.Generator, protocol: ProtocolName, least: int
) -> Split:
    """What will be bought again: one item of the newest basket, known items included.

    A basket is all that a user did at one time. The newest basket is the test, the one before
    the validation; one item of each, drawn by the seed, is asked for. Purchases count each time.
    """
    assert data.time is not None
    order = np.lexsort((rng.random(len(data)), data.time, data.user))
    user, item, time = data.user[order], data.item[order], data.time[order]
    new = np.ones(len(user), dtype=np.bool_)
    new[1:] = (user[1:] != user[:-1]) | (time[1:] != time[:-1])
    basket = np.cumsum(new) - 1  # (n,) number of the basket, over all users
    last = np.zeros(len(data.users), dtype=np.int64)
    np.maximum.at(last, user, basket)
    baskets = np.bincount(user[new], minlength=len(data.users))
    back = last[user] - basket  # (n,) 0 is the newest basket
    early = np.bincount(user[back >= 2], minlength=len(data.users))
    kept = np.flatnonzero((baskets >= 3) & (early >= max(1, least - 2)))
    if len(kept) == 0:
        raise BadData(f"nobody in {data.name} has three baskets and {least} purchases")
    place = np.full(len(data.users), -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    mine = place[user] >= 0
    who, item, back = place[user[mine]], item[mine], back[mine]
    drawn = np.empty((2, len(kept)), dtype=np.int64)
    for age in (0, 1):  # within a basket the order is random, so its first item is a draw
        first = np.flatnonzero(back == age)
        owners, where = np.unique(who[first], return_index=True)
        drawn[age, owners] = item[first[where]]
    if len(np.unique(who * len(data.items) + item)) == len(item):
        raise BadData(
            f"nobody in {data.name} buys anything twice; use --split last, or a file with every "
            "purchase in it"
        )
    whole = make_histories(who, item, len(kept))
    negatives = draw_negatives(whole, len(data.items), rng)

    def task(stage: Literal["validation", "test"], age: int) -> Task:
        seen = back > age
        train = make_histories(who[seen], item[seen], len(kept))
        barred = train if protocol == "clean" else whole
        return Task(
            data.name,
            protocol,
            stage,
            len(data.items),
            train,
            True,
            drawn[age],
            negatives,
            barred,
            repeats=True,
        )

    names = tuple(data.users[one] for one in kept)
    return Split(task("validation", 1), task("test", 0), names, "repeat")


def write_split(
    split: Split,
    data: Interactions,
    out: Path,
    *,
    seed: int,
    min_interactions: int,
    force: bool = False,
) -> dict[str, object]:
    """Write the files of a split into a folder and return what split.json says.

    split.json comes last: a folder that has it has the rest.

    Raises:
        BadData: there is a split already.
    """
    note = out / "split.json"
    refuse_to_overwrite(note, force)
    note.unlink(missing_ok=True)
    files = _Files(split, data, out)
    files.histories("train.csv", split.validation)
    if split.test.repeats:
        files.histories("train_for_test.csv", split.test)
    files.targets("validation.csv", split.validation)
    files.targets("test.csv", split.test)
    files.negatives("negatives.csv", split.test.negatives)
    said: dict[str, object] = {
        "dataset": data.name,
        "kind": split.kind,
        "seed": seed,
        "min_interactions": min_interactions,
        "protocol": split.test.protocol,
        "ordered": split.test.ordered,
        "repeats": split.test.repeats,
        "users": len(split.users),
        "items": len(data.items),
        "train": len(split.validation.train.items),
        "train_for_test": len(split.test.train.items),
        "validation": len(split.validation.targets),
        "test": len(split.test.targets),
        "negatives_per_user": int(split.test.negatives.shape[1]),
    }
    write_whole(note, (json.dumps(said, indent=2) + "\n").encode("utf-8"))
    return said


class _Files:
    """Writes the parts of one split with the ids of its data."""

    def __init__(self, split: Split, data: Interactions, out: Path) -> None:
        self._users = [quote(one) for one in split.users]
        self._items = [quote(one) for one in data.items]
        self._out = out

    def histories(self, name: str, task: Task) -> None:
        """Every history, oldest first."""
        self._write(name, task, task.train.owners, task.train.items, _places(task.train))

    def targets(self, name: str, task: Task) -> None:
        """The held-out item of each user; its place is behind the whole history."""
        self._write(name, task, np.arange(task.users), task.targets, task.train.lengths)

    def negatives(self, name: str, negatives: Rows) -> None:
        """A user and his negatives in each line."""
        header = ["user_id", *(f"n{place}" for place in range(negatives.shape[1]))]
        rows = (
            [user, *(self._items[one] for one in mine)]
            for user, mine in zip(self._users, negatives.tolist(), strict=True)
        )
        write_text(self._out / name, header, rows)

    def _write(self, name: str, task: Task, users: Rows, items: Rows, places: Rows) -> None:
        header = ["user_id", "item_id", "timestamp"] if task.ordered else ["user_id", "item_id"]

        def rows() -> Iterator[list[str]]:
            for user, item, place in zip(
                users.tolist(), items.tolist(), places.tolist(), strict=True
            ):
                row = [self._users[user], self._items[item], str(place)]
                yield row[: len(header)]

        write_text(self._out / name, header, rows())


def _places(histories: Histories) -> Rows:
    """0, 1, 2 … within each history: (n,)."""
    return np.arange(len(histories.items)) - histories.starts[histories.owners]


def load_published(name: str, data_dir: Path | None = None) -> Published | None:
    """Test items and negatives that others have used; None where nobody published any.

    They lie beside the ratings, as ncf_test.csv.gz (user, item) and ncf_negatives.csv.gz (user,
    then 99 items), with the ids of the ratings.

    Raises:
        BadData: a file is broken.
        MissingData: one of the two is there and the other is not.
    """
    if name not in NAMED:
        return None
    folder = (data_dir or default_data_dir()) / (NAMED[name].folder or name)
    paths = folder / "ncf_test.csv.gz", folder / "ncf_negatives.csv.gz"
    if not any(path.is_file() for path in paths):
        return None
    for path in paths:
        if not path.is_file():
            raise MissingData(f"{path} is missing; test items and negatives belong together")
    tests = {user: items[0] for user, items in items_by_user(read_content(paths[0]), 1).items()}
    negatives = items_by_user(read_content(paths[1]), NEGATIVES)
    lacking = next((user for user in tests if user not in negatives), None)
    if lacking is not None:
        raise MissingData(f"{paths[1]} has no negatives of user {lacking}")
    return Published(tests, negatives)
