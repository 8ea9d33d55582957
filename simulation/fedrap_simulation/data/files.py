"""One file into Interactions, whatever its format."""

from __future__ import annotations

from pathlib import Path

from fedrap_simulation.data.columns import make_interactions
from fedrap_simulation.data.content import read_content
from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.data.parquet import read_parquet_table
from fedrap_simulation.data.text import read_text_table

_SUFFIXES = (".gz", ".csv", ".tsv", ".txt", ".dat", ".data", ".inter", ".parquet")


def load_file(path: Path, name: str | None = None) -> Interactions:
    """Interactions of one file, whatever its format.

    Raises:
        BadData: it is broken.
    """
    content = read_content(path)
    reader = read_parquet_table if content.is_parquet else read_text_table
    return make_interactions(reader(content), name or short_name(path))


def short_name(path: Path) -> str:
    """A file's name without what only tells its format."""
    while path.suffix.lower() in _SUFFIXES:
        path = path.with_suffix("")
    return path.name
