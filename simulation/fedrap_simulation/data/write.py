"""Interactions into files. A file appears whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions, Numbers
from fedrap_simulation.data.parquet import arrow

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".inter", ".inter.gz", ".parquet")
_WHOLE = 2.0**53  # up to here every whole number is exact


def write_interactions(data: Interactions, out: Path, *, force: bool = False) -> None:
    """Write user_id, item_id and, where known, rating and timestamp, in the form of the suffix.

    Raises:
        BadData: the suffix is unknown, the file is there already, or an id does not fit.
    """
    suffix = _suffix(out)
    refuse_to_overwrite(out, force)
    if suffix == ".parquet":
        write_whole(out, _parquet(data))
        return
    separator = "," if ".csv" in suffix else "\t"
    typed = ".inter" in suffix
    columns, header = [_cells(data.users, separator, typed, out)], ["user_id", "item_id"]
    columns.append(_cells(data.items, separator, typed, out))
    cells = [[columns[0][one] for one in data.user], [columns[1][one] for one in data.item]]
    for name, numbers in (("rating", data.rating), ("timestamp", data.time)):
        if numbers is not None:
            header.append(name)
            cells.append(_number_words(numbers))
    if typed:
        header = [f"{name}:{'token' if name.endswith('_id') else 'float'}" for name in header]
    write_text(out, header, zip(*cells, strict=True), separator)


def write_text(
    out: Path, header: Sequence[str], rows: Iterable[Sequence[str]], separator: str = ","
) -> None:
    """A header and rows of cells that are quoted already; gzip if the name ends so."""
    lines = [separator.join(header), *(separator.join(row) for row in rows), ""]
    raw = "\n".join(lines).encode("utf-8")
    # mtime=0: the same interactions give the same bytes.
    write_whole(out, gzip.compress(raw, mtime=0) if out.suffix == ".gz" else raw)


def write_whole(out: Path, raw: bytes) -> None:
    """Put bytes into a file beside the place and move it there when it is complete."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        part.write_bytes(raw)
        os.replace(part, out)
    finally:
        part.unlink(missing_ok=True)


def refuse_to_overwrite(out: Path, force: bool) -> None:
    """Raise BadData if something would be lost."""
    if out.exists() and not force:
        raise BadData(f"{out} is there already; add --force to write over it")


def quote(cell: str, separator: str = ",") -> str:
    """A cell as CSV has it: in quotes if anything in it could be misread."""
    if re.search(rf'[{separator}"\r\n]', cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def _suffix(out: Path) -> str:
    name = out.name.lower()
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix):
            return suffix
    raise BadData(f"{out}: the name must end in one of {', '.join(SUFFIXES)}")


def _cells(ids: Sequence[str], separator: str, typed: bool, out: Path) -> list[str]:
    """Each id as it is written; RecBole's files know no quotes, so some ids can't be."""
    if not typed:
        return [quote(one, separator) for one in ids]
    for one in ids:
        if re.search(r"[\t\r\n]", one):
            raise BadData(f"{out}: the id {one!r} has a tab or line break; write .csv or .parquet")
    return list(ids)


def _number_words(numbers: Numbers) -> list[str]:
    """Numbers so that reading gives the same ones; whole ones without a point."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    words = [
        str(int(one)) if one.is_integer() and abs(one) <= _WHOLE else repr(one)
        for one in distinct.tolist()
    ]
    return [words[one] for one in inverse]


def _parquet(data: Interactions) -> bytes:
    lib, parquet = arrow(), arrow("pyarrow.parquet")
    columns = {
        "user_id": _dictionary(data.users, data.user),
        "item_id": _dictionary(data.items, data.item),
    }
    for name, numbers in (("rating", data.rating), ("timestamp", data.time)):
        if numbers is not None:
            columns[name] = lib.array(numbers)
    sink = io.BytesIO()
    parquet.write_table(lib.table(columns), sink)
    return sink.getvalue()


def _dictionary(ids: Sequence[str], codes: object) -> object:
    lib = arrow()
    return lib.array(ids, lib.string()).take(lib.array(codes))
