"""The one door to data: a file of any format, a name or a made-up population in, Interactions out.

A new format is another reader beside `text` and `parquet`, chosen in `load_file`.
"""

from __future__ import annotations

from pathlib import Path

from fedrap_simulation.data.columns import make_interactions
from fedrap_simulation.data.content import read_content
from fedrap_simulation.data.drifting import is_drifting, make_drifting
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.data.named import NAMED, default_data_dir, load_named
from fedrap_simulation.data.parquet import read_parquet_table
from fedrap_simulation.data.selection import drop_rare_users
from fedrap_simulation.data.synthetic import is_made_up, make_interactions_up
from fedrap_simulation.data.text import read_text_table

_SUFFIXES = (".gz", ".csv", ".tsv", ".txt", ".dat", ".data", ".inter", ".parquet")


def load(
    name_or_path: str, data_dir: Path | None = None, min_interactions: int = 0
) -> Interactions:
    """Interactions of a file, of a named set, or of a made-up population.

    `synthetic[:users=..,items=..,seed=..]` stands still, `drifting[:users=..,items=..,days=..]`
    does not.

    A file of that name is taken before a named set. Named sets are looked for in `data_dir`,
    else where FEDRAP_DATA points, else in ./data. Users with fewer than `min_interactions`
    are left out, and with them items that nobody else has.

    Raises:
        BadData: the file is broken; the text has its name, the line and what to do.
        MissingData: the named set is not there; the text says where its owners offer it.
        MissingExtra: pyarrow is not installed.
    """
    path = Path(name_or_path)
    if path.is_file():
        data = load_file(path)
    elif is_made_up(name_or_path):
        data = make_interactions_up(name_or_path)
    elif is_drifting(name_or_path):
        data = make_drifting(name_or_path)
    elif name_or_path in NAMED:
        data = load_named(name_or_path, data_dir or default_data_dir(), load_file)
    elif path.is_dir():
        raise BadData(f"{path} is a folder; give the file of interactions within it")
    else:
        names = ", ".join([*NAMED, "synthetic", "drifting"])
        raise BadData(f"there is no file {path}, and no set of that name; the names are {names}")
    return drop_rare_users(data, min_interactions)


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
