"""What every command of `fedrap-coordinator` needs: its settings, its store, its voice."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.settings import Settings, load
from fedrap_coordinator.store.sql import SqlStore

CONFIG = "fedrap.toml"


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings in force for this call."""
    path = arguments.config or (Path(CONFIG) if Path(CONFIG).exists() else None)
    return load(path, os.environ)


@asynccontextmanager
async def open_store(arguments: argparse.Namespace) -> AsyncIterator[SqlStore]:
    """The database of the settings; a coordinator may be running beside."""
    store = SqlStore(settings_of(arguments).database)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_admin(arguments: argparse.Namespace) -> AsyncIterator[AdminActions]:
    """The acts of an operator at the command line, who has all rights; the audit names them."""
    async with open_admin_and_store(arguments) as (_, admin):
        yield admin


@asynccontextmanager
async def open_admin_and_store(
    arguments: argparse.Namespace,
) -> AsyncIterator[tuple[SqlStore, AdminActions]]:
    """Both, for acts that need the store too."""
    async with open_store(arguments) as store:
        who = f"command line: {_user()}"[:60]
        yield store, AdminActions(store, settings_of(arguments), time.time, who)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no name for this user on this machine
        return "?"


def print_json(value: object) -> None:
    """For machines, and readable."""
    show(json.dumps(value, indent=2))


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for people: each column as wide as its widest cell."""
    lines = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
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
