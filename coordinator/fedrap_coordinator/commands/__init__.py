"""Run rounds of a federated recommender: write a config, make tokens, add items, serve."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec

from fedrap_coordinator.admin import table
from fedrap_coordinator.admin.documents import program_version
from fedrap_coordinator.admin.export import statement_of
from fedrap_coordinator.commands.data import add_operator_commands
from fedrap_coordinator.commands.helper import add_helper
from fedrap_coordinator.commands.identity import add_identity_commands, add_ledger
from fedrap_coordinator.commands.init import add_init
from fedrap_coordinator.commands.output import (
    CONFIG,
    act,
    open_store,
    print_json,
    say,
    settings_of,
    show,
)
from fedrap_coordinator.commands.privacy import add_policy, add_privacy
from fedrap_coordinator.commands.serve import add_serve
from fedrap_coordinator.http.helper_client import client_context
from fedrap_coordinator.identity.attestation import Attestation
from fedrap_coordinator.settings import server_context
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.engine import without_password
from fedrap_coordinator.tasks import tasks_of
from fedrap_core.errors import FedRapError


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
    parser.add_argument("--config", type=Path, help=f"settings in TOML (default: {CONFIG})")
    parser.add_argument("--version", action="version", version=f"%(prog)s {program_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    add_init(commands)
    check = commands.add_parser("check-config", help="check and print the settings in force")
    check.add_argument("--json", action="store_true", help="for machines (it is JSON anyway)")
    check.set_defaults(run=_check_config)
    add_serve(commands)
    tokens = commands.add_parser("tokens", help="make one-time enrolment tokens, one a line")
    tokens.add_argument("count", type=int)
    tokens.set_defaults(run=_tokens)
    tokens.add_argument("--json", action="store_true", help="for machines")
    add_identity_commands(commands)
    add_operator_commands(commands)
    add_ledger(add_privacy(commands, _stated, show))
    add_policy(commands)
    add_helper(commands)
    return parser


def _check_config(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    server_context(settings.serve)
    if settings.split is not None:
        client_context(settings.split.helper)
    Attestation(settings.enrolment)
    if settings.tasks:
        tasks_of(settings, os.environ)
    shown = msgspec.to_builtins(settings)
    shown["database"] = without_password(settings.database)
    print_json(shown)
    return 0


def _tokens(arguments: argparse.Namespace) -> int:
    made = act(arguments, table.TOKENS, table.Tokens(arguments.count))
    if arguments.json:
        print_json(made)
    else:
        show("\n".join(made.tokens))
    return 0


def _stated(arguments: argparse.Namespace) -> dict[str, Any]:
    """The privacy statement as the database and the settings have it, served or not."""

    async def run() -> dict[str, Any]:
        async with open_store(arguments) as store:
            return await statement_of(store, settings_of(arguments), SYSTEM)

    return asyncio.run(run())
