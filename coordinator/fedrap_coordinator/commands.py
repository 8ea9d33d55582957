"""Run rounds of a federated recommender: write a config, make tokens, add items, serve."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from fedrap_coordinator.app import create_app
from fedrap_coordinator.command_io import (
    CONFIG,
    open_admin,
    open_store,
    print_json,
    say,
    settings_of,
    show,
)
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.identity_commands import add_identity_commands, add_ledger
from fedrap_coordinator.keyring import open_keyring
from fedrap_coordinator.logs import configure_logs
from fedrap_coordinator.privacy_commands import add_privacy
from fedrap_coordinator.releases import load_model, plan_after
from fedrap_coordinator.statement import privacy_document
from fedrap_coordinator.store.sql import SqlStore
from fedrap_coordinator.template import TEMPLATE
from fedrap_core.errors import FedRapError
from fedrap_core.plan import Plan
from fedrap_core.wire.codec import decode_value


def run(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (FedRapError, OSError) as error:
        say(f"fedrap-coordinator: {error}")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fedrap-coordinator", description=__doc__)
    parser.add_argument("--config", type=Path, help=f"settings in TOML (default: {CONFIG}, if any)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    init = commands.add_parser("init", help="write a commented config here")
    init.set_defaults(run=_init)
    check = commands.add_parser("check-config", help="print the settings in force")
    check.set_defaults(run=_check_config)
    serve = commands.add_parser("serve", help="run the coordinator until SIGTERM")
    serve.set_defaults(run=_serve)
    items = commands.add_parser("items", help="add or retire items of the catalogue")
    items.add_argument("action", choices=["add", "retire"])
    items.add_argument("file", type=Path, help="one item id a line; - is standard input")
    items.set_defaults(run=_items)
    tokens = commands.add_parser("tokens", help="make one-time enrolment tokens, one a line")
    tokens.add_argument("count", type=int)
    tokens.set_defaults(run=_tokens)
    add_identity_commands(commands)
    status = commands.add_parser("status", help="what is in the database, as JSON")
    status.set_defaults(run=_status)
    add_ledger(add_privacy(commands, _stated, show))
    return parser


def _init(arguments: argparse.Namespace) -> int:

    path = arguments.config or Path(CONFIG)
    if path.exists():
        say(f"{path} exists already; it is left as it is")
        return 2
    path.write_text(TEMPLATE, encoding="utf-8")
    say(f"wrote {path}; next: fedrap-coordinator items add FILE, then serve")
    return 0


def _check_config(arguments: argparse.Namespace) -> int:

    settings = settings_of(arguments)
    print_json(msgspec.to_builtins(settings))
    return 0


def _serve(arguments: argparse.Namespace) -> int:

    settings = settings_of(arguments)
    configure_logs()
    keyring = open_keyring(Path(settings.keys))
    app = create_app(settings, SqlStore(settings.database), keyring)
    where = settings.serve
    say(f"coordinator on http://{where.host}:{where.port}")
    web.run_app(app, host=where.host, port=where.port, print=None, access_log=None)
    return 0


def _items(arguments: argparse.Namespace) -> int:

    source = sys.stdin if str(arguments.file) == "-" else None
    try:
        text = source.read() if source else arguments.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{arguments.file}: {error}") from error
    names = [line.strip() for line in text.splitlines() if line.strip()]
    too_long = next((place for place, name in enumerate(names, 1) if len(name) > 200), None)
    if too_long:
        raise ConfigError(f"{arguments.file}: item {too_long} has more than 200 characters")

    async def run() -> int:
        async with open_store(arguments) as store:
            change = store.add_items if arguments.action == "add" else store.retire_items
            return await change(names)

    count = asyncio.run(run())
    say(f"{count} items {'added' if arguments.action == 'add' else 'retired'}")
    return 0


def _tokens(arguments: argparse.Namespace) -> int:

    async def run() -> list[str]:
        async with open_admin(arguments) as admin:
            return await admin.tokens(arguments.count)

    show("\n".join(asyncio.run(run())))
    return 0


def _status(arguments: argparse.Namespace) -> int:
    async def run() -> dict[str, object]:
        async with open_admin(arguments) as admin:
            return await admin.status()

    print_json(asyncio.run(run()))
    return 0


def _stated(arguments: argparse.Namespace) -> dict[str, Any]:
    """The privacy statement as the database and the settings have it, served or not."""
    settings = settings_of(arguments)

    async def run() -> dict[str, Any]:
        async with open_store(arguments) as store:
            task, stored = await store.task_id(secrets.token_bytes(16)), await store.release(None)
            found = await store.current_round()
            if found is not None:  # a round keeps the rules that it was opened with
                plan = decode_value(Plan, found[1])
            else:
                plan = (
                    settings.plan() if stored is None else plan_after(load_model(stored), settings)
                )
            released = 0 if stored is None else stored.step
            return privacy_document(plan, settings.round, task, released)

    return asyncio.run(run())
