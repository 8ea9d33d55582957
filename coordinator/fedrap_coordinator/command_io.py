"""What every command of `fedrap-coordinator` needs: its settings, its store, its voice."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fedrap_coordinator.admin import Admin
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
async def open_admin(arguments: argparse.Namespace) -> AsyncIterator[Admin]:
    """The acts of an operator at the command line, who has all rights; the audit names them."""
    async with open_store(arguments) as store:
        yield Admin(store, settings_of(arguments), time.time, f"command line: {_user()}"[:60])


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no name for this user on this machine
        return "?"


def print_json(value: object) -> None:
    """For machines, and readable."""
    show(json.dumps(value, indent=2))


def show(text: str) -> None:
    """The answer."""
    sys.stdout.write(text + "\n")


def say(text: str) -> None:
    """A word beside the answer."""
    sys.stderr.write(text + "\n")
