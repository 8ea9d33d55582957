"""`fedrap-coordinator helper`: the certificate that the helper knows this coordinator by."""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fedrap_coordinator.commands.output import CONFIG, say, show
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.sources import SYSTEM
from fedrap_core.wire.keys import new_private_key
from fedrap_core.wire.tls import private_pem, self_signed

CERTIFICATE_YEARS = 10


def add_helper(commands: Any) -> None:
    """Into the parser of `fedrap-coordinator`."""
    helper = commands.add_parser("helper", help="private aggregation with a second server")
    verbs = helper.add_subparsers(required=True, metavar="VERB")
    made = verbs.add_parser(
        "certificate", help="make the certificate that the helper's operator needs, and print it"
    )
    made.add_argument("--keys", default="keys", help="the folder of keys (default: keys)")
    made.set_defaults(run=_certificate)


def _certificate(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.config or CONFIG).parent
    pem, key = folder / "leader.pem", folder / arguments.keys / "leader.key"
    there = pem.exists() and pem.stat().st_size > 0  # `> leader.pem` made an empty one before us
    if there != key.exists():
        raise ConfigError(f"{pem} and {key} belong together; remove the one that is left")
    if not there:
        private, since = new_private_key(), datetime.fromtimestamp(SYSTEM.clock(), UTC)
        until = since + timedelta(days=365 * CERTIFICATE_YEARS)
        made = self_signed(private, "fedrap leader", ["leader"], since - timedelta(days=1), until)
        key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(private_pem(private))
        fresh = pem.with_name(f"{pem.name}.new")
        fresh.write_bytes(made)
        fresh.replace(pem)
    show(pem.read_text(encoding="ascii").strip())
    say(f"{pem}: give it to the helper's operator, and take their helper.pem and identity")
    return 0
