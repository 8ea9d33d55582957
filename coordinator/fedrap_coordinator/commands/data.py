"""Commands for what an operator looks at every day: status, rounds, items, releases, quality."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from fedrap_coordinator.admin import documents
from fedrap_coordinator.admin.catalogue_actions import CatalogueActions
from fedrap_coordinator.admin.catalogue_files import read_items
from fedrap_coordinator.admin.export import export
from fedrap_coordinator.commands.output import (
    ago,
    columns,
    in_bytes,
    open_admin_and_store,
    print_json,
    say,
    settings_of,
    show,
)
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.store.engine import copy_database

T = TypeVar("T")
Act = Callable[[Any, Any], Awaitable[T]]


def add_operator_commands(commands: Any) -> None:
    """Into the parser of `fedrap-coordinator`."""
    status = _json(commands.add_parser("status", help="what is in the database, in short"))
    status.set_defaults(run=_status)
    rounds = _json(commands.add_parser("rounds", help="the last rounds, the newest first"))
    rounds.add_argument("--limit", type=int, default=20)
    rounds.set_defaults(run=_rounds)

    items = _group(commands, "items", "add, import, retire or list items of the catalogue")
    added = _json(_action(items, "add", "new items from a file", _items_add))
    added.add_argument("file", type=Path, help=".csv, .json, .jsonl or one id a line; - is stdin")
    taken = _json(_action(items, "import", "the same as add", _items_add))
    taken.add_argument("file", type=Path, help=".csv, .json, .jsonl or one id a line; - is stdin")
    retired = _json(_action(items, "retire", "show them no more; rows stay theirs", _items_retire))
    retired.add_argument("file", type=Path, help="as for add; attributes are ignored")
    listed = _json(_action(items, "list", "items by row", _items_list))
    listed.add_argument("--start", type=int, default=0, help="row to start from")
    listed.add_argument("--limit", type=int, default=100)
    listed.add_argument("--search", default="", help="in ids and attributes")

    releases = _group(commands, "releases", "list versions of C, or publish an earlier one again")
    shown = _json(_action(releases, "list", "the newest first", _releases_list))
    shown.add_argument("--limit", type=int, default=20)
    back = _json(_action(releases, "rollback", "an earlier C as a new version", _roll_back))
    back.add_argument("version", type=int)

    went = _json(_action(releases, "recover", "after a backup came back: go on later", _recover))
    went.add_argument("version", type=int, help="the latest that devices have seen")
    went.add_argument("step", type=int, help="of that version")

    quality = _group(commands, "quality", "note or list what was measured of a release elsewhere")
    noted = _json(_action(quality, "add", "a number for the operator's page", _quality_add))
    noted.add_argument("version", type=int)
    noted.add_argument("metric", help="such as ndcg@10")
    noted.add_argument("value", type=float)
    noted.add_argument("--note", default="", help="how it was measured, in a few words")
    _json(_action(quality, "list", "the newest version first", _quality_list))

    saved = _json(commands.add_parser("backup", help="copy a SQLite database while it is in use"))
    saved.add_argument("file", type=Path, help="to write; must not be there")
    saved.set_defaults(run=_backup)

    out = _json(commands.add_parser("export", help="C, items, rounds and the promise, as files"))
    out.add_argument("folder", type=Path, help="made if it is not there; must be empty")
    out.add_argument("--version", type=int, help="of C; default: the latest")
    out.set_defaults(run=_export)


def _json(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--json", action="store_true", help="for machines")
    return parser


def _group(commands: Any, name: str, about: str) -> Any:
    return commands.add_parser(name, help=about).add_subparsers(required=True, metavar="ACTION")


def _action(
    group: Any, name: str, about: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = group.add_parser(name, help=about)
    parser.set_defaults(run=run)
    return parser


def _act(arguments: argparse.Namespace, act: Act[T]) -> T:
    """Run `act(store, admin)` on the database of the settings."""

    async def run() -> T:
        async with open_admin_and_store(arguments) as (store, admin):
            return await act(store, admin)

    return asyncio.run(run())


def _limit(arguments: argparse.Namespace) -> int:
    limit = int(arguments.limit)
    if not 1 <= limit <= 1_000_000:
        raise ConfigError("--limit must be from 1 to 1,000,000")
    return limit


def _status(arguments: argparse.Namespace) -> int:
    async def look(store: Any, admin: Any) -> dict[str, Any]:
        found: dict[str, Any] = await admin.status()
        found["latest"] = next(iter(documents.release_lines(await store.release_history(1))), None)
        return found

    found = _act(arguments, look)
    if arguments.json:
        print_json(found)
        return 0
    settings, latest, round_ = settings_of(arguments), found["latest"], found["round"]
    lines = [
        f"devices   {found['devices']} enrolled, {found['unused_tokens']} tokens unused",
        f"items     {found['items']}",
        "release   none yet: add items and serve" if latest is None else
        f"release   v{latest['version']}, step {latest['step']} of {settings.round.total}, "
        f"{latest['zeros']:.0%} zeros, {in_bytes(latest['whole_bytes'])} whole, "
        f"made {ago(latest['made_at'], time.time())}",
        "round     none is open" if round_ is None else
        f"round     step {round_['step']}, {round_['phase']}: {round_['accepted']} of "
        f"{settings.round.max_updates} updates, {round_['assigned']} places given",
    ]  # fmt: skip
    show("\n".join(lines))
    return 0


def _rounds(arguments: argparse.Namespace) -> int:
    limit = _limit(arguments)

    async def look(store: Any, admin: Any) -> list[dict[str, Any]]:
        return documents.round_lines(await store.rounds(limit), await store.refusals(limit))

    found = _act(arguments, look)
    if arguments.json:
        print_json(found)
        return 0
    now = time.time()
    rows = [
        [
            str(one["step"]), one["phase"], ago(one["opened_at"], now),
            "-" if one["closed_at"] is None else f"{one['closed_at'] - one['opened_at']:.1f} s",
            str(one["charged"]), str(one["updates"]),
            ", ".join(f"{code} {count}" for code, count in sorted(one["refused"].items())) or "-",
        ]
        for one in found
    ]  # fmt: skip
    show(columns(["step", "phase", "opened", "took", "places", "updates", "refused"], rows))
    return 0


def _read(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _items_add(arguments: argparse.Namespace) -> int:
    items = read_items(str(arguments.file), _read(arguments.file))
    done = _act(arguments, lambda store, admin: CatalogueActions(store, admin).import_items(items))
    if arguments.json:
        print_json(done)
    say(
        f"{done['added']} items added, {done['returned']} came back, "
        f"{done['changed']} with other attributes"
    )
    return 0


def _items_retire(arguments: argparse.Namespace) -> int:
    names = [item.id for item in read_items(str(arguments.file), _read(arguments.file))]
    count = _act(arguments, lambda store, admin: CatalogueActions(store, admin).retire_items(names))
    if arguments.json:
        print_json({"retired": count})
    say(f"{count} items retired" + ("" if count == len(names) else f", of {len(names)} named"))
    return 0


def _items_list(arguments: argparse.Namespace) -> int:
    limit, start, search = _limit(arguments), max(0, arguments.start), arguments.search
    found = _act(
        arguments, lambda store, admin: CatalogueActions(store, admin).items(start, limit, search)
    )
    if arguments.json:
        print_json(found)
        return 0
    rows = [
        [
            str(one["row"]), one["item"], "retired" if one["retired"] else "shown",
            ", ".join(f"{name}={value}" for name, value in one["attributes"].items()) or "-",
        ]
        for one in found
    ]  # fmt: skip
    show(columns(["row", "item", "state", "attributes"], rows))
    return 0


def _releases_list(arguments: argparse.Namespace) -> int:
    limit = _limit(arguments)
    found = _act(arguments, lambda store, admin: CatalogueActions(store, admin).releases(limit))
    if arguments.json:
        print_json(found)
        return 0
    now = time.time()
    rows = [
        [
            f"v{one['version']}", str(one["step"]), ago(one["made_at"], now), str(one["devices"]),
            str(one["items"]), f"{one['zeros']:.0%}", in_bytes(one["whole_bytes"]),
            in_bytes(one["delta_bytes"]),
            ("kept" if one["kept"] else "dropped")
            + (f", v{one['restores']} again" if one["restores"] else ""),
        ]
        for one in found
    ]  # fmt: skip
    heads = ["version", "step", "made", "updates", "items", "zeros", "whole", "delta", "body"]
    show(columns(heads, rows))
    return 0


def _roll_back(arguments: argparse.Namespace) -> int:
    version = arguments.version
    done = _act(arguments, lambda store, admin: CatalogueActions(store, admin).roll_back(version))
    if arguments.json:
        print_json(done)
    say(
        f"release {done['version']} has the C of release {version}; the open round is abandoned, "
        f"step {done['step'] + 1} is next, and what was charged stays charged"
    )
    return 0


def _recover(arguments: argparse.Namespace) -> int:
    version, step = arguments.version, arguments.step
    done = _act(
        arguments, lambda store, admin: CatalogueActions(store, admin).recover(version, step)
    )
    if arguments.json:
        print_json(done)
    say(f"release {done['version']} goes on with step {step + 1}; no step is made a second time")
    return 0


def _backup(arguments: argparse.Namespace) -> int:
    database, path = settings_of(arguments).database, arguments.file
    copy_database(database, path)
    if arguments.json:
        print_json({"written": str(path), "bytes": path.stat().st_size})
    say(f"wrote {path}; keep a copy of the keys too, elsewhere")
    return 0


def _quality_add(arguments: argparse.Namespace) -> int:
    version, metric = arguments.version, arguments.metric
    value, note = arguments.value, arguments.note
    _act(
        arguments,
        lambda store, admin: CatalogueActions(store, admin).note_quality(
            version, metric, value, note
        ),
    )
    if arguments.json:
        print_json({"noted": True})
    say(f"{metric} of release {version} is {value:g}")
    return 0


def _quality_list(arguments: argparse.Namespace) -> int:
    found = _act(arguments, lambda store, admin: CatalogueActions(store, admin).quality())
    if arguments.json:
        print_json(found)
        return 0
    rows = [[f"v{q['version']}", q["metric"], f"{q['value']:g}", q["note"] or "-"] for q in found]
    show(columns(["version", "metric", "value", "note"], rows))
    return 0


def _export(arguments: argparse.Namespace) -> int:
    folder, version, settings = arguments.folder, arguments.version, settings_of(arguments)
    written = _act(arguments, lambda store, admin: export(store, admin, settings, folder, version))
    if arguments.json:
        print_json(written)
    else:
        show("\n".join(f"{name:<14} {what}" for name, what in written.items()))
    return 0
