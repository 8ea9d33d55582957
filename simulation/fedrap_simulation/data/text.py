"""Text files into a table: pyarrow reads, and only when it can't is the faulty line looked for.

How a text file is built: its separator, its header or the lack of one, its columns.

Decided by the first line alone, never by the file's name: downloads get renamed.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrap_simulation.data.columns import (
    Places,
    RawTable,
    Role,
    Words,
    find_places,
    is_typed,
    looks_like_number,
    missing_words,
    plain,
)
from fedrap_simulation.data.content import Content, read_text
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.parquet import arrow

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


_FIRST_LINE = re.compile(rb"[\r\n]*([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_BLOCK = 1 << 24  # bytes; no line may be longer


def read_text_table(content: Content) -> RawTable:
    """The columns of a text file that matter, every cell still a word.

    Raises:
        BadData: with the line of what is wrong.
    """
    data = read_text(content)
    first = _FIRST_LINE.match(data)
    assert first is not None  # the expression matches anything
    line = first[1].decode("utf-8")
    try:
        layout = recognise(line)
    except NoLayout as error:
        raise content.bad(str(error), _line_at(data, first.start(1))) from None
    body = data[first.end() :] if layout.header else data
    if not body.strip():
        raise content.bad("there is a header, but no interaction below it")
    table = _read_with_arrow(content, data, body, layout)
    columns: dict[Any, Any] = {
        role: _words(table.column(str(place))) for role, place in layout.places.items()
    }
    return RawTable(
        content,
        columns,
        layout.form,
        lambda row: _line_of_row(data, layout, row),
        layout.month_first,
    )


def _read_with_arrow(content: Content, data: bytes, body: bytes, layout: Layout) -> Any:
    """All columns that play a part, as strings; "" stays "", and no word becomes a null."""
    csv = arrow("pyarrow.csv")
    lib = arrow()
    quotes = data.count(b'"') if layout.quoted else 0
    if quotes % 2:  # pyarrow would take all that follows for one cell
        _raise_broken_line(content, data, layout)
    if layout.separator == "::":
        body = body.replace(b"::", layout.delimiter.encode())
    wanted = [str(place) for place in layout.places.values()]
    try:
        return csv.read_csv(
            lib.BufferReader(body),
            read_options=csv.ReadOptions(
                column_names=[str(place) for place in range(len(layout.names))],
                block_size=_BLOCK,
            ),
            parse_options=csv.ParseOptions(
                delimiter=layout.delimiter,
                quote_char='"' if layout.quoted else False,
                newlines_in_values=quotes > 0,
            ),
            convert_options=csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, lib.large_string()),
                null_values=[],
                strings_can_be_null=False,
                check_utf8=False,  # known already, and with the line
            ),
        )
    except lib.ArrowInvalid as error:
        _raise_broken_line(content, data, layout)
        raise content.bad(str(error)) from None


def _words(column: Any) -> Words:
    encoded = column.combine_chunks().dictionary_encode()
    if hasattr(encoded, "chunks"):  # one column may come back in pieces
        encoded = encoded.unify_dictionaries().combine_chunks()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return Words(encoded.dictionary.to_pylist(), codes)


def _raise_broken_line(content: Content, data: bytes, layout: Layout) -> None:
    """Raise about the first row with too few or too many columns; return if there is none."""
    expected = len(layout.names)
    try:
        for line, fields in records(data.decode("utf-8"), layout):
            if len(fields) != expected:
                raise content.bad(_wrong_width(fields, layout), line)
    except Unclosed as error:
        reason = f"a quote is opened and not closed well ({error}). Close it, or double it"
        raise content.bad(reason, error.line) from None


def _wrong_width(fields: list[str], layout: Layout) -> str:
    expected = len(layout.names)
    line = layout.separator.join(fields)
    for other in SEPARATORS:
        if other != layout.separator and len(split(line, other)) == expected:
            return (
                f"separated by {_shown(other)}, the lines before by {_shown(layout.separator)}. "
                "Use one separator throughout"
            )
    above = "header has" if layout.header else "first line has"
    start = line if len(line) <= 60 else line[:59] + "…"
    return (
        f"{len(fields)} columns where the {above} {expected}: {start!r}. "
        "Correct the line or delete it"
    )


def _shown(separator: str) -> str:
    return "a tab" if separator == "\t" else f'"{separator}"'


def _line_of_row(data: bytes, layout: Layout, row: int) -> str:
    for count, (line, _) in enumerate(records(data.decode("utf-8"), layout)):
        if count == row:
            return f"line {line}"
    raise BadData(f"row {row} is not there")  # pragma: no cover - rows come from the same bytes


def _line_at(data: bytes, offset: int) -> int:
    return len(re.findall(rb"\r\n|\r|\n", data[:offset])) + 1
