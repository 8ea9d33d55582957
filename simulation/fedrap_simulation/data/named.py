"""Data sets by name: where their files lie, and who offers them under which terms.

None of them may be shipped with this project. Each is fetched by whoever uses it, from its owners.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fedrap_simulation.data.content import Content, read_text
from fedrap_simulation.data.errors import MissingData
from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.data.text import Layout, records

_MOVIELENS = "GroupLens' usage licence: research, no redistribution, no commercial use"
_TAFENG = "released to researchers, no licence text; treat it as research only"


@dataclass(frozen=True)
class Source:
    """One named set."""

    title: str
    owners: str  # where they offer it
    licence: str
    original: str  # the file to take from there
    options: str = ""  # of `data convert`
    folder: str = ""  # if it is not the name
    file: str = "ratings.csv.gz"
    timeless: bool = False  # the file's timestamp is no time


NAMED: dict[str, Source] = {
    "ml-100k": Source(
        "MovieLens 100K", "https://grouplens.org/datasets/movielens/100k/", _MOVIELENS,
        "u.data of ml-100k.zip",
    ),
    "ml-1m": Source(
        "MovieLens 1M", "https://grouplens.org/datasets/movielens/1m/", _MOVIELENS,
        "ratings.dat of ml-1m.zip",
    ),
    "amazon-video": Source(
        "Amazon Instant Video, ratings of 2014", "https://jmcauley.ucsd.edu/data/amazon/",
        "no licence text; research use, do not redistribute",
        "ratings_Amazon_Instant_Video.csv", "--min-interactions 10",
    ),
    "amazon-sports": Source(
        "Amazon Sports and Outdoors, 5-core, as S3-Rec prepared it",
        "https://github.com/RUCAIBox/CIKM2020-S3Rec",
        "no licence text; research use, do not redistribute",
        "sports.csv made of Sports_and_Outdoors.txt: a line user,item,place for each item",
    ),
    "citeulike-a": Source(
        "CiteULike-a, which papers people keep", "https://github.com/js05212/citeulike-a",
        "no licence text; research use, do not redistribute",
        "citeulike.csv made of users.dat: a line user,item for each item", timeless=True,
    ),
    "lastfm-2k": Source(
        "Last.fm of HetRec 2011", "https://grouplens.org/datasets/hetrec-2011/",
        "non-commercial use; for anything else ask Last.fm",
        "user_artists.dat of hetrec2011-lastfm-2k.zip", "--min-interactions 10", timeless=True,
    ),
    "tafeng": Source(
        "Ta Feng grocery, each product once a customer",
        'the ACM RecSys wiki, or "ta-feng-grocery-dataset" at https://www.kaggle.com', _TAFENG,
        "ta_feng_all_months_merged.csv", "--once --min-interactions 10",
    ),
    "tafeng-transactions": Source(
        "Ta Feng grocery, every purchase",
        'the ACM RecSys wiki, or "ta-feng-grocery-dataset" at https://www.kaggle.com', _TAFENG,
        "ta_feng_all_months_merged.csv", folder="tafeng", file="transactions.csv.gz",
    ),
    "qb-article": Source(
        "QB-article of Tenrec", "https://github.com/yuangh-x/2022-NIPS-Tenrec",
        "CC BY-NC 4.0 and an agreement that its owners ask you to accept",
        "QB-article.csv", "--min-interactions 10",
    ),
}  # fmt: skip


def default_data_dir() -> Path:
    """Where named sets are looked for unless said: FEDRAP_DATA, else ./data."""
    return Path(os.environ.get("FEDRAP_DATA") or "data")


def load_named(
    name: str, data_dir: Path, read: Callable[[Path, str], Interactions]
) -> Interactions:
    """A named set, its file read by `read`.

    `lastfm-2k` comes without time, whatever its file has: the owners publish listening counts
    and no times, and the timestamp found in circulating copies is the place of the artist in
    the file. Sorted by that, two in three held-out artists have no listener left to learn from.

    Raises:
        MissingData: its file is not there.
    """
    source = NAMED[name]
    path = data_dir / (source.folder or name) / source.file
    if not path.is_file():
        raise MissingData(how_to_get(name, path))
    data = read(path, name)
    return replace(data, time=None) if source.timeless else data


def how_to_get(name: str, path: Path) -> str:
    """Where a set is offered, under which terms, and how its file gets to `path`."""
    source = NAMED[name]
    original = source.original.split()[0]
    options = f" {source.options}" if source.options else ""
    return (
        f"{name} is not there: no file {path}\n"
        f"  what     {source.title}\n"
        f"  owners   {source.owners}\n"
        f"  licence  {source.licence}\n"
        f"  take     {source.original}, then run\n"
        f"           fedrap-sim data convert {original} --out {path}{options}\n"
        f"  or point --data-dir or FEDRAP_DATA to the folder that has {path.parent.name}/"
    )


def items_by_user(content: Content, count: int) -> dict[str, list[str]]:
    """The `count` items behind each user; more columns are let be."""
    text = read_text(content).decode("utf-8")
    layout = Layout(",", True, True, (), {}, "CSV")
    out: dict[str, list[str]] = {}
    for line, fields in records(text, layout):
        if len(fields) <= count or not all(fields[: count + 1]):
            raise content.bad(f"a user and {count} items are needed in each line", line)
        if fields[0] in out:
            raise content.bad(f"user {fields[0]} comes twice", line)
        out[fields[0]] = fields[1 : count + 1]
    return out
