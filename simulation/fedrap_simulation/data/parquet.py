"""Parquet into a table: ids become strings, times become seconds.

pyarrow, imported when a file is read: the demo runs without it.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from fedrap_simulation.data.columns import RawTable, Role, Words, find_places, missing_words
from fedrap_simulation.data.content import Content
from fedrap_simulation.data.errors import MissingExtra
from fedrap_simulation.data.interactions import Numbers


def arrow(module: str = "pyarrow") -> Any:
    """pyarrow or one of its modules.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(
            "reading and writing data files needs pyarrow: pip install 'fedrap-simulation[science]'"
        ) from None


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def read_parquet_table(content: Content) -> RawTable:
    """The columns of a Parquet file that matter.

    Raises:
        BadData: it is broken, lacks a column, or has ids that are no ids.
    """
    lib, parquet = arrow(), arrow("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(lib.BufferReader(content.data))
        names = list(file.schema_arrow.names)
        places = find_places(names)
        if "user" not in places or "item" not in places:
            raise content.bad(missing_words(names, places))
        whole = file.read(columns=[names[place] for place in places.values()])
    except (lib.ArrowException, OSError) as error:
        raise content.bad(f"this Parquet file can't be read: {error}") from None
    if whole.num_rows == 0:
        raise content.bad("there are columns, but no interaction in them")
    columns: dict[Role, Words | Numbers] = {}
    for role, place in places.items():
        column = whole.column(names[place]).combine_chunks()
        if hasattr(column, "chunks"):
            column = lib.concat_arrays(column.chunks)
        columns[role] = (
            _ids(content, column, role, names[place])
            if role in ("user", "item")
            else _values(content, column, role)
        )
    form = "Parquet (clicks only)" if "click" in columns else "Parquet"
    return RawTable(content, columns, form, lambda row: f"row {row + 1}")


def _ids(content: Content, column: Any, role: Role, name: str) -> Words:
    types = arrow("pyarrow.types")
    inner = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not (types.is_integer(inner) or types.is_string(inner) or types.is_large_string(inner)):
        raise content.bad(
            f"the {role} ids in column {name} are of type {inner}; write them as strings"
        )
    return _words(column)


def _words(column: Any) -> Words:
    lib = arrow()
    text = column.cast(lib.large_string())
    if text.null_count:
        text = text.fill_null("")  # an empty word: refused with its row, like one in a text file
    encoded = text.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return Words(encoded.dictionary.to_pylist(), codes)


def _values(content: Content, column: Any, role: Role) -> Words | Numbers:
    lib, types = arrow(), arrow("pyarrow.types")
    kind = column.type
    try:
        if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind):
            return _words(column)
        if types.is_date(kind):
            column = column.cast(lib.timestamp("ms"))
            kind = column.type
        parts = 1
        if types.is_timestamp(kind):
            parts = _PER_SECOND[kind.unit]
            column = column.cast(lib.int64())
        # Whole numbers beyond 2**53 lose their last digits: nanoseconds do, and may.
        numbers = column.cast(lib.float64(), safe=False)
    except lib.ArrowException:
        raise content.bad(f"the {role} is of type {kind}; write it as a number") from None
    out: Numbers = numbers.to_numpy(zero_copy_only=False).astype(np.float64) / parts
    return out
