"""How a text file is built: its separator, its header or the lack of one, its columns.

Decided by the first line alone, never by the file's name: downloads get renamed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

from fedrap_simulation.data.columns import (
    Places,
    Role,
    find_places,
    is_typed,
    missing_words,
    plain,
)
from fedrap_simulation.data.values import looks_like_number

SEPARATORS = ("\t", "::", ",", ";", "|")
_NAMES = {"\t": "TSV", "::": "text separated by ::", ",": "CSV", ";": "CSV separated by ;"}
_ONE_BYTE = "\x1f"  # stands for `::`, because readers of CSV take one byte only
_POSITIONS: tuple[Role, ...] = ("user", "item", "rating", "time")
_EARLIEST_UNIX = 1e8  # no rating is so large, and every time since 1973 is


@dataclass(frozen=True)
class Layout:
    """What the first line tells about all others."""

    separator: str
    quoted: bool  # whether "…" protects separators and line breaks
    header: bool
    names: tuple[str, ...]
    places: Places
    form: str  # in words, for people

    @property
    def delimiter(self) -> str:
        """The separator as one character."""
        return _ONE_BYTE if self.separator == "::" else self.separator

    @property
    def month_first(self) -> bool:
        """Whether 11/1/2000 is the first of November: known for Ta Feng only."""
        return self.header and plain(self.names[self.places.get("time", 0)]) == "transactiondt"


class NoLayout(Exception):
    """The first line can't be made sense of; the text says why."""


def recognise(line: str) -> Layout:
    """The layout of a file that starts with this line.

    Raises:
        NoLayout: there is neither a header with a user and an item nor a row of data.
    """
    splits = {separator: split(line, separator) for separator in SEPARATORS}
    for separator, names in splits.items():
        places = find_places(names)
        if "user" in places and "item" in places:
            return _with_header(separator, names, places)
    for separator, fields in splits.items():
        positions = _by_position(fields)
        if positions:
            return _without_header(separator, fields, positions)
    names = max(splits.values(), key=lambda one: (len(find_places(one)), len(one)))
    raise NoLayout(
        f"{missing_words(names, find_places(names))}; or, without a header, give user, item, "
        "rating, time in this order, the last two as numbers"
    )


def split(line: str, separator: str) -> list[str]:
    """The fields of one line."""
    if separator == "::":
        return line.split("::")
    rows = list(csv.reader([line], delimiter=separator))
    return rows[0] if rows else []


def records(text: str, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of every row behind the header; slow, and only used to find faults.

    Raises:
        Unclosed: a quote is opened and never closed.
    """
    if layout.separator == "::":
        text = text.replace("::", _ONE_BYTE)
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=layout.delimiter,
        quoting=csv.QUOTE_MINIMAL if layout.quoted else csv.QUOTE_NONE,
        strict=True,
    )
    header = layout.header
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise Unclosed(line, str(error)) from None
        if not fields:
            continue
        if header:
            header = False
            continue
        yield line, fields


class Unclosed(Exception):
    """A quoted field goes wrong in the row that starts at `line`."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def _with_header(separator: str, names: list[str], places: Places) -> Layout:
    typed = any(is_typed(name) for name in names)
    known = {plain(name) for name in names}
    if typed:
        form = "RecBole .inter"
    elif "click" in places:
        form = "Tenrec rows (clicks only)"
    elif {"transactiondt", "customerid", "productid"} <= known:
        form = "Ta Feng transactions"
    elif separator == "\t" and {"userid", "artistid", "weight"} == known:
        form = "Last.fm user_artists.dat"
    else:
        form = _NAMES.get(separator, f"text separated by {separator}")
    return Layout(separator, not typed and separator != "::", True, tuple(names), places, form)


def _by_position(fields: list[str]) -> Places | None:
    """User, item, rating, time, if a line looks like that."""
    if not 2 <= len(fields) <= 4 or not all(field.strip() for field in fields[:2]):
        return None
    must_be_numbers = fields[2:] if len(fields) > 2 else fields
    if not all(looks_like_number(field) for field in must_be_numbers):
        return None
    return {role: place for place, role in enumerate(_POSITIONS[: len(fields)])}


def _without_header(separator: str, fields: list[str], places: Places) -> Layout:
    if len(fields) == 3 and float(fields[2]) >= _EARLIEST_UNIX:
        raise NoLayout(
            f'the third column ("{fields[2]}") looks like a time where the rating is expected. '
            "Put a header above: user_id, item_id, timestamp"
        )
    if separator == "::":
        form = "MovieLens ratings.dat"
    else:
        form = f"{_NAMES.get(separator, f'text separated by {separator}')} without header"
    names = tuple(_POSITIONS[: len(fields)])
    return Layout(separator, separator in ",;", False, names, places, form)
