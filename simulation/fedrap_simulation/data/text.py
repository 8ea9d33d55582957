"""Text files into a table: pyarrow reads, and only when it can't is the faulty line looked for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from fedrap_simulation.data.arrow import arrow
from fedrap_simulation.data.content import Content, read_text
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.layout import (
    SEPARATORS,
    Layout,
    NoLayout,
    Unclosed,
    recognise,
    records,
    split,
)
from fedrap_simulation.data.table import Table
from fedrap_simulation.data.values import Words

_FIRST_LINE = re.compile(rb"[\r\n]*([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_BLOCK = 1 << 24  # bytes; no line may be longer


def read_text_table(content: Content) -> Table:
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
    return Table(
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
