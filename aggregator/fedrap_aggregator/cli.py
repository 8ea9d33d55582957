"""`fedrap-aggregator`: init, serve, status, check-config."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from fedrap_aggregator.app import serve, server_context
from fedrap_aggregator.errors import ConfigError
from fedrap_aggregator.keys import KeyFolder
from fedrap_aggregator.logs import configure_logs
from fedrap_aggregator.rounds import HelperRounds
from fedrap_aggregator.settings import Settings, load, template
from fedrap_aggregator.store import Store
from fedrap_core.split.compiled import usual_expansion
from fedrap_core.wire.keys import new_private_key
from fedrap_core.wire.tls import private_pem, self_signed

CERTIFICATE_YEARS = 10


def main(argv: Sequence[str] | None = None) -> int:
    """0 done, 2 the operator must fix something."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except ConfigError as error:
        sys.stderr.write(f"fedrap-aggregator: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fedrap-aggregator",
        description="The helper of private aggregation: run it for somebody else's coordinator.",
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    init = commands.add_parser("init", help="write settings, keys and a certificate")
    init.add_argument("--name", required=True, help="who runs this helper, as users will read it")
    init.add_argument("--host", action="append", help="name the leader calls it by (repeatable)")
    init.add_argument("--listen", default="0.0.0.0", help="address to listen on")
    init.add_argument("--port", type=int, default=8471)
    init.set_defaults(run=_init)
    for name, run, text in (
        ("serve", _serve, "answer the leader until stopped"),
        ("status", _status, "rounds, reports, and what apps pin"),
        ("check-config", _check_config, "read settings, keys and certificates, and print them"),
    ):
        command = commands.add_parser(name, help=text)
        command.set_defaults(run=run)
    for command in commands.choices.values():
        command.add_argument("--config", type=Path, default=Path("helper.toml"))
    commands.choices["status"].add_argument("--json", action="store_true")
    return parser


def _init(arguments: argparse.Namespace) -> int:
    path: Path = arguments.config
    if path.exists():
        raise ConfigError(f"{path} is there already; remove it to begin anew")
    path.parent.mkdir(parents=True, exist_ok=True)
    settings = Settings(name=arguments.name).placed(path.parent)
    keys = KeyFolder(Path(settings.keys), make=True)
    private, now = new_private_key(), datetime.now(UTC)
    until = now + timedelta(days=365 * CERTIFICATE_YEARS)
    hosts = arguments.host or ["localhost", "127.0.0.1"]
    pem = self_signed(private, "fedrap helper", hosts, now - timedelta(days=1), until)
    _write_private(Path(settings.private_key), private_pem(private))
    Path(settings.certificate).write_bytes(pem)
    path.write_text(template(arguments.name, arguments.listen, arguments.port), encoding="utf-8")
    _say(
        f"wrote {path}, {settings.keys}/ and {settings.certificate}\n"
        f"1. give {settings.certificate} to the coordinator's operator\n"
        f"2. put the coordinator's certificate at {settings.leader}\n"
        "3. apps pin this helper as\n"
        f"   {keys.pin}\n"
        "4. fedrap-aggregator serve"
    )
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    settings = load(arguments.config)
    server_context(settings)
    keys = KeyFolder(Path(settings.keys))
    store = Store(settings.database)
    configure_logs()
    rounds = HelperRounds(settings, store, keys, time.time, os.urandom)

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await serve(settings, rounds, store)

    try:
        asyncio.run(run())
    except asyncio.CancelledError:
        pass
    finally:
        store.close()
    return 0


def _status(arguments: argparse.Namespace) -> int:
    settings = load(arguments.config)
    keys = KeyFolder(Path(settings.keys))
    counts: dict[str, object] = {}
    if Path(settings.database).exists():
        try:
            store = Store(settings.database)
            counts = dict(store.counts())
            store.close()
        except sqlite3.Error as error:
            raise ConfigError(f"database {settings.database}: {error}") from error
    found = {
        "name": settings.name, "pin": keys.pin, "expansion": usual_expansion(settings.expansion),
        **counts,
    }  # fmt: skip
    if arguments.json:
        _say(json.dumps(found))
    else:
        _say("\n".join(f"{name.replace('_', ' ')}: {value}" for name, value in found.items()))
    return 0


def _check_config(arguments: argparse.Namespace) -> int:
    settings = load(arguments.config)
    server_context(settings)
    keys = KeyFolder(Path(settings.keys))
    _say(json.dumps({**msgspec.to_builtins(settings), "pin": keys.pin}, indent=1))
    return 0


def _write_private(path: Path, raw: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(raw)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
