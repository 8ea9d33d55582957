"""A split as files, so that other programs can be asked the same questions.

train.csv is what may be learnt from before the validation question, validation.csv and test.csv
have one held-out item a user, negatives.csv what it is ranked among. Before the test question
train and validation together may be learnt from. Where purchases repeat that is not all: the
basket of the validation item counts as well, so train_for_test.csv is written too. `timestamp` is
the place in the user's history, and there only if the order means anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedrap_simulation.data.interactions import Histories, Interactions, Rows
from fedrap_simulation.data.write import quote, refuse_to_overwrite, write_text, write_whole
from fedrap_simulation.protocols.splits import Split
from fedrap_simulation.protocols.task import Task


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
