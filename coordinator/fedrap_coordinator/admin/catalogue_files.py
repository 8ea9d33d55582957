"""Catalogue files with attributes. Pure: text in, items out.

A file is CSV with a header, JSON (a list), JSON lines, or plain text with one id a line. Whatever
is wrong is told with file and line, all of it at once, and then nothing is imported.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fedrap_coordinator.domain.records import NewItem
from fedrap_coordinator.errors import ConfigError
from fedrap_core.items import is_item_id

ID_NAMES = ("item", "id", "item_id")  # what the column of ids may be called
MOST_ATTRIBUTES = 32
LONGEST_NAME, LONGEST_VALUE = 40, 500
_SHOWN = 10  # complaints that are printed one by one
_Line = tuple[int, "dict[str, Any] | str"]  # where, and what stands there


class _Bad(Exception):
    """One line is wrong."""


def read_items(name: str, text: str) -> list[NewItem]:
    """The items of a file in its order; `name` says of what kind it is, and is told in errors.

    Raises:
        ConfigError: with `file:line: what is wrong`, for the first ten of all bad lines.
    """
    items: dict[str, NewItem] = {}
    first: dict[str, int] = {}
    wrong: list[str] = []
    try:
        for line, raw in _lines(Path(name).suffix.lower(), text):
            try:
                item = _item(raw)
                if items.setdefault(item.id, item) != item:
                    where = first[item.id]
                    raise _Bad(f"{item.id!r} has other attributes in line {where}")
                first.setdefault(item.id, line)
            except _Bad as bad:
                wrong.append(f"{name}:{line}: {bad}")
    except _WrongFile as bad:
        wrong.append(f"{name}:{bad.line}: {bad}")
    if wrong:
        more = f"\n… and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise ConfigError("\n".join(wrong[:_SHOWN]) + more + "; nothing was imported")
    if not items:
        raise ConfigError(f"{name}: there is no item in it")
    return list(items.values())


class _WrongFile(Exception):
    """From here on nothing can be read."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


def _lines(suffix: str, text: str) -> Iterator[_Line]:
    text = text.removeprefix("\ufeff")
    if suffix in (".csv", ".tsv"):
        yield from _csv_lines(text, "\t" if suffix == ".tsv" else ",")
    elif suffix == ".json":
        yield from _json_lines(text)
    elif suffix in (".jsonl", ".ndjson"):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield number, _parsed(line, number)
    else:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield number, line.strip()


def _csv_lines(text: str, delimiter: str) -> Iterator[_Line]:
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        id_column = next((header.index(name) for name in ID_NAMES if name in header), None)
        if id_column is None:
            raise _WrongFile(1, f"the first line names no column {' or '.join(ID_NAMES)}")
        if len(set(header)) < len(header):
            raise _WrongFile(1, "two columns have the same name")
        begin = reader.line_num + 1
        for cells in reader:
            line, begin = begin, reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                yield line, {"": f"has {len(cells)} cells, the header {len(header)}"}
                continue
            named = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
            item = {"item": named.pop(header[id_column])}
            yield line, item | {name: cell for name, cell in named.items() if cell}
    except csv.Error as error:
        raise _WrongFile(reader.line_num, f"not CSV: {error}") from error


def _json_lines(text: str) -> Iterator[_Line]:
    """The objects of a list with the lines they start in; json itself forgets them."""
    decoder, at = json.JSONDecoder(), text.find("[")
    if at < 0 or text[:at].strip():
        raise _WrongFile(1, "a JSON file of items is a list")
    at += 1
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        line = text.count("\n", 0, at) + 1
        if at >= len(text):
            raise _WrongFile(line, "the list has no end")
        if text[at] == "]":
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            raise _WrongFile(line, f"not JSON: {error}") from error
        yield line, value


def _parsed(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise _WrongFile(number, f"not JSON: {error}") from error


def _item(raw: Any) -> NewItem:
    if isinstance(raw, str):
        raw = {"item": raw}
    if not isinstance(raw, dict):
        raise _Bad("an item is an id or an object with one")
    if "" in raw:
        raise _Bad(str(raw[""]) or "an attribute has no name")
    key = next((name for name in ID_NAMES if name in raw), None)
    if key is None:
        raise _Bad(f"names no {' or '.join(ID_NAMES)}")
    name = str(raw[key]) if isinstance(raw[key], str | int) else ""
    if not is_item_id(name) or "\x00" in name:
        raise _Bad("an id has 1 to 200 characters and no line break")
    attributes = dict(_attributes((k, v) for k, v in raw.items() if k != key))
    if len(attributes) > MOST_ATTRIBUTES:
        raise _Bad(f"an item has at most {MOST_ATTRIBUTES} attributes")
    return NewItem(name, attributes)


def _attributes(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, value in pairs:
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _Bad(f"{name}: an attribute is a word or a number")
        text = str(value)
        if not 1 <= len(name) <= LONGEST_NAME or "\x00" in name + text:
            raise _Bad(f"the name of an attribute has 1 to {LONGEST_NAME} characters")
        if not 1 <= len(text) <= LONGEST_VALUE:
            raise _Bad(f"{name}: a value has 1 to {LONGEST_VALUE} characters")
        yield name, text
