"""A history as a CSV file: item[,weight][,timestamp][,kind], one interaction a line.

Read whole and checked before anything is kept, so that a broken line costs nothing but a sentence
with its number. Columns that are not known are left alone.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from fedrap.results import Interaction
from fedrap_core.errors import FedRapError
from fedrap_core.items import is_item_id

ALIASES = {
    "item": ("item", "item_id", "itemId", "itemID"),
    "weight": ("weight", "rating"),
    "at": ("timestamp", "at", "time", "datetime"),
    "kind": ("kind", "event", "type"),
    "user": ("user", "user_id", "userId", "userID"),
}
LATEST = 4_102_444_800.0  # the year 2100; above it a number is not of seconds


class BrokenHistory(FedRapError):
    """A line of a history file cannot be used; nothing of the file was kept."""

    def __init__(self, line: int, wrong: str) -> None:
        super().__init__(f"line {line}: {wrong}; nothing was imported")
        self.line = line


def read_history(path: Path, now: float) -> list[Interaction]:
    """The interactions of a file, oldest first; a line without a time happened `now`.

    Raises:
        BrokenHistory: a line is broken, or the file is of several users.
        OSError: the file cannot be read.
    """
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BrokenHistory(line, "the text is not UTF-8") from error
    found = list(_parse(text, now))
    # Only the order tells the SDK what is recent; lines of one time stay in the file's order.
    return sorted(found, key=lambda one: one.at)


def _parse(text: str, now: float) -> Iterator[Interaction]:
    head, _, _ = text.partition("\n")
    delimiter = max(",;\t", key=head.count)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    columns: dict[str, int] | None = None
    users: set[str] = set()
    try:
        for cells in table:
            if not any(cell.strip() for cell in cells):
                continue
            if columns is None:
                columns = _columns(cells, table.line_num)
                width = len(cells)
                continue
            if len(cells) != width:
                wrong = f"{len(cells)} columns where the header has {width}"
                raise BrokenHistory(table.line_num, wrong)
            given = {name: cells[place].strip() for name, place in columns.items()}
            users.add(given.get("user", ""))
            if len(users) > 1:
                wrong = "another user; a store holds the history of one"
                raise BrokenHistory(table.line_num, wrong)
            yield _interaction(given, now, table.line_num)
    except csv.Error as error:
        raise BrokenHistory(table.line_num, str(error)) from error
    if columns is None:
        raise BrokenHistory(1, "the file is empty; the first line names the columns")


def _columns(header: list[str], line: int) -> dict[str, int]:
    """Which column holds what, by the header's names."""
    names = [name.strip().lower() for name in header]
    found: dict[str, int] = {}
    for meaning, aliases in ALIASES.items():
        places = [place for place, name in enumerate(names) if name in map(str.lower, aliases)]
        if len(places) > 1:
            raise BrokenHistory(line, f"two columns for {meaning}")
        if places:
            found[meaning] = places[0]
    if "item" not in found:
        expected = ", ".join(ALIASES["item"][:3])
        raise BrokenHistory(line, f"the header has no column {expected}")
    return found


def _interaction(given: dict[str, str], now: float, line: int) -> Interaction:
    item = given["item"]
    if not is_item_id(item):
        raise BrokenHistory(line, "an item id has 1 to 200 characters and no line break")
    weight = _weight(given.get("weight", ""), line)
    when = given.get("at", "")
    return Interaction(
        item, given.get("kind") or "view", weight, _time(when, line) if when else now
    )


def _weight(text: str, line: int) -> float:
    try:
        weight = float(text) if text else 1.0
    except ValueError as error:
        raise BrokenHistory(line, f"the weight {text!r} is not a number") from error
    if not 0 < weight <= 1000:
        raise BrokenHistory(line, f"a weight lies above 0 and at most at 1000, not at {text}")
    return weight


def _time(text: str, line: int) -> float:
    """Seconds since 1970, or a date as in ISO 8601; without a zone it is UTC."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            wrong = f"the time {text!r} is neither seconds since 1970 nor an ISO 8601 date"
            raise BrokenHistory(line, wrong) from error
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(seconds) or not 0 <= seconds <= LATEST:
        wrong = f"the time {text} is not between 1970 and 2100; are these milliseconds?"
        raise BrokenHistory(line, wrong)
    return seconds
