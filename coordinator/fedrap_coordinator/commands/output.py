"""What every command of `fedrap-coordinator` needs: settings, store, actions, and how to print."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.documents import Answer
from fedrap_coordinator.admin.table import Action, Arguments
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.keyring import Keyring, open_keyring
from fedrap_coordinator.settings import PREFIX, Settings, load
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.sql import SqlStore

CONFIG = "fedrap.toml"
A = TypeVar("A", bound=Arguments)
D = TypeVar("D", bound=Answer)


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings in force for this call.

    Raises:
        ConfigError: there are none. A call from a wrong folder must not make a second database.
    """
    path: Path | None = arguments.config
    if path is None and Path(CONFIG).exists():
        path = Path(CONFIG)
    if path is None and f"{PREFIX}DATABASE" not in os.environ:
        raise ConfigError(
            f"no {CONFIG} in this folder: name one with --config FILE, write one with"
            f" `fedrap-coordinator init`, or set {PREFIX}DATABASE"
        )
    return load(path, os.environ)


@asynccontextmanager
async def open_store(arguments: argparse.Namespace) -> AsyncIterator[SqlStore]:
    """The database of the settings; a coordinator may be running beside."""
    settings = settings_of(arguments)
    store = SqlStore(settings.database, task=settings.task)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_admin(
    arguments: argparse.Namespace, keyring: Keyring | None = None
) -> AsyncIterator[AdminActions]:
    """The acts of an operator at the command line, who may do everything; the audit has a name."""
    async with open_store(arguments) as store:
        who = f"command line: {_user()}"[:60]
        yield AdminActions(store, settings_of(arguments), SYSTEM, who, keyring=keyring)


def act(
    arguments: argparse.Namespace, action: Action[A, D], wanted: A, keyring: Keyring | None = None
) -> D:
    """The answer of an action of the table, on the database of the settings."""

    async def run() -> D:
        async with open_admin(arguments, keyring) as admin:
            return await action.run(admin, wanted)

    return asyncio.run(run())


def keyring_of(arguments: argparse.Namespace) -> Keyring:
    """The keys of the settings."""
    return open_keyring(Path(settings_of(arguments).keys))


def limit_of(arguments: argparse.Namespace) -> int:
    """Of --limit; the API has a smaller one."""
    limit = int(arguments.limit)
    if not 1 <= limit <= 1_000_000:
        raise ConfigError("--limit must be from 1 to 1,000,000")
    return limit


def add_group(commands: Any, name: str, about: str) -> Any:
    """A command that has actions."""
    return commands.add_parser(name, help=about).add_subparsers(required=True, metavar="ACTION")


def add_action(
    group: Any, name: str, about: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """A command, or an action of one, that can answer in JSON."""
    parser: argparse.ArgumentParser = group.add_parser(name, help=about)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.set_defaults(run=run)
    return parser


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no name for this user on this machine
        return "?"


def print_json(value: object) -> None:
    """For machines, and readable."""
    show(json.dumps(msgspec.to_builtins(value), indent=2))


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for people: each column as wide as its widest cell."""
    lines = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def in_bytes(count: int | None) -> str:
    """As people read it."""
    if count is None:
        return "-"
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.1f} {unit}" if unit != "B" else f"{count} B"


def ago(at: float, now: float) -> str:
    """How long ago; a dash where it was not noted."""
    if at <= 0:
        return "-"
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if now - at >= 2 * size:
            return f"{(now - at) / size:.0f} {unit} ago"
    return f"{max(0.0, now - at):.0f} s ago"


def show(text: str) -> None:
    """The answer."""
    sys.stdout.write(text + "\n")


def say(text: str) -> None:
    """A word beside the answer."""
    sys.stderr.write(text + "\n")
