"""`fedrap-sim data`: look at interactions, convert them, split them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rich.console import Console
from rich.table import Table

from fedrap_simulation.data.describe import RARE, Description, Spread, describe
from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.data.load import load
from fedrap_simulation.data.named import NAMED
from fedrap_simulation.data.selection import drop_rare_users, keep_first_of_each
from fedrap_simulation.data.write import (
    SUFFIXES,
    refuse_to_overwrite,
    write_interactions,
    write_whole,
)
from fedrap_simulation.evaluation.splits import SplitKind, load_published, make_split, write_split

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_MADE_UP = "`synthetic[:users=..,items=..,seed=..]`, `drifting[:users=..,items=..,days=..]`"
_INPUT = f"a file, {_MADE_UP}, or one of {', '.join(NAMED)}"


def add_data_parser(commands: Commands) -> None:
    """Add `data` and its three commands."""
    data = commands.add_parser("data", help="look at interactions, convert them, split them")
    parts = data.add_subparsers(required=True, metavar="COMMAND")
    describing = parts.add_parser("describe", help="what a set of interactions is like")
    _add_input(describing, least=0)
    describing.add_argument("--json", type=Path, help="write the numbers here as well")
    describing.set_defaults(run=_describe)

    converting = parts.add_parser("convert", help="one format into another")
    _add_input(converting, least=0)
    converting.add_argument(
        "--out", type=Path, required=True, help=f"ends in one of {' '.join(SUFFIXES)}"
    )
    converting.add_argument(
        "--once", action="store_true", help="each pair of user and item once, the earliest"
    )
    converting.add_argument("--force", action="store_true", help="write over a file")
    converting.set_defaults(run=_convert)

    splitting = parts.add_parser("split", help="train, validation and test as files")
    _add_input(splitting, least=10)
    splitting.add_argument("--out", type=Path, required=True, help="a folder")
    splitting.add_argument(
        "--kind",
        "--split",
        choices=get_args(SplitKind),
        help="last where there is time and random where there is none, unless said",
    )
    splitting.add_argument("--seed", type=int, default=0)
    splitting.add_argument("--force", action="store_true", help="write over a split")
    splitting.set_defaults(run=_split)


def _add_input(parser: argparse.ArgumentParser, least: int) -> None:
    parser.add_argument("input", metavar="NAME_OR_PATH", help=_INPUT)
    parser.add_argument(
        "--data-dir", type=Path, help="where named sets lie; else FEDRAP_DATA, else ./data"
    )
    parser.add_argument(
        "--min-interactions",
        type=int,
        default=least,
        metavar="N",
        help=f"leave out users with fewer (default {least})",
    )


def _describe(arguments: argparse.Namespace) -> int:
    with _busy(f"reading {arguments.input}"):
        found = describe(_load(arguments))
    Console(highlight=False).print(_table(found))
    if arguments.json is not None:
        write_whole(arguments.json, (json.dumps(found.as_dict(), indent=2) + "\n").encode())
    return 0


def _convert(arguments: argparse.Namespace) -> int:
    refuse_to_overwrite(arguments.out, arguments.force)  # before a long read
    with _busy(f"converting {arguments.input}"):
        if arguments.once:
            data = keep_first_of_each(load(arguments.input, arguments.data_dir))
            data = drop_rare_users(data, arguments.min_interactions)
        else:
            data = _load(arguments)
        write_interactions(data, arguments.out, force=arguments.force)
    _say(
        f"{arguments.out}: {len(data):,} interactions of {len(data.users):,} users "
        f"with {len(data.items):,} items, read as {data.form}"
    )
    return 0


def _split(arguments: argparse.Namespace) -> int:
    refuse_to_overwrite(arguments.out / "split.json", arguments.force)
    with _busy(f"splitting {arguments.input}"):
        if arguments.kind == "ncf":  # published negatives may be items of users that are left out
            data = load(arguments.input, arguments.data_dir)
            published = load_published(arguments.input, arguments.data_dir)
        else:
            data, published = _load(arguments), None
        split = make_split(
            data,
            arguments.seed,
            kind=arguments.kind,
            least=arguments.min_interactions,
            published=published,
        )
        said = write_split(
            split,
            data,
            arguments.out,
            seed=arguments.seed,
            min_interactions=arguments.min_interactions,
            force=arguments.force,
        )
    _say(
        f"{arguments.out}: {split.kind}, seed {arguments.seed}, {said['users']:,} users, "
        f"{said['train']:,} interactions to learn from"
    )
    return 0


def _load(arguments: argparse.Namespace) -> Interactions:
    return load(arguments.input, arguments.data_dir, arguments.min_interactions)


@contextmanager
def _busy(words: str) -> Iterator[None]:
    """A spinner on a terminal; nothing in a log."""
    with Console(stderr=True).status(f"{words} …"):
        yield


def _say(words: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(words, markup=False)


def _table(found: Description) -> Table:
    table = Table(title=found.name, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("read as", found.form)
    table.add_row("interactions", f"{found.interactions:,}")
    table.add_row("users", f"{found.users:,}")
    table.add_row("items", f"{found.items:,}")
    table.add_row("density", f"{found.density:.3%}")
    for name, spread in (("a user", found.per_user), ("an item", found.per_item)):
        table.add_row(f"interactions of {name}", _spread(spread))
    table.add_row("repeats of a pair", f"{found.repeat_share:.1%}")
    table.add_row("rating", "yes" if found.has_rating else "no")
    table.add_row("time", "yes" if found.has_time else "no")
    shared = found.shared_time_share
    table.add_row(
        "same time as another of the user", "no time" if shared is None else f"{shared:.1%}"
    )
    table.add_row(f"items with fewer than {RARE}", f"{found.rare_item_share:.1%}")
    return table


def _spread(spread: Spread) -> str:
    return f"{spread.min:,} … {spread.median:,g} … {spread.max:,}, mean {spread.mean:,.1f}"
