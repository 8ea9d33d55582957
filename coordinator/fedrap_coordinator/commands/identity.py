"""Commands for keys, devices, issuers, people with rights, the audit and the privacy ledger."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from fedrap_coordinator.admin.actions import AdminActions, key_lines
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.commands.output import (
    ago,
    columns,
    open_admin,
    print_json,
    say,
    settings_of,
    show,
)
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.keyring import open_keyring
from fedrap_core.wire.keys import public_point


def add_identity_commands(commands: Any) -> None:
    """Into the parser of `fedrap-coordinator`."""
    keys = _group(commands, "keys", "sealing keys: list them, or rotate them now")
    _action(keys, "list", "all that ever were, with their states", _keys_list)
    _action(keys, "rotate", "the next key becomes active for new rounds", _keys_rotate)

    devices = _group(commands, "devices", "list devices, or shut one out")
    listed = _action(devices, "list", "in order of id", _devices_list)
    listed.add_argument("--after", default="", help="id to go on from")
    listed.add_argument("--limit", type=int, default=100)
    revoked = _action(devices, "revoke", "no more rounds for a device", _devices_revoke)
    revoked.add_argument("device", help="its id in hex")

    issuers = _group(commands, "issuers", "backends that sign enrolment tokens")
    _action(issuers, "list", "all of them", _issuers_list)
    added = _action(issuers, "add", "register a backend's public key", _issuers_add)
    added.add_argument("name", help="what its tokens have as `iss`")
    added.add_argument("file", type=Path, help="P-256 public key in PEM")
    removed = _action(issuers, "remove", "refuse its tokens from now on", _issuers_remove)
    removed.add_argument("name")

    admins = _group(commands, "admin", "who may use the admin API")
    _action(admins, "list", "names and roles", _admins_list)
    added = _action(admins, "add", "rights for somebody; prints the token once", _admins_add)
    added.add_argument("name")
    added.add_argument("--role", required=True, choices=[role.value for role in Role])
    removed = _action(admins, "remove", "take the rights back", _admins_remove)
    removed.add_argument("name")

    audit = commands.add_parser("audit", help="everything people with rights did, as JSON")
    audit.set_defaults(run=_audit)


def add_ledger(actions: Any) -> None:
    """Into the actions of `fedrap-coordinator privacy`."""
    books = _action(actions, "ledger", "what was charged, checked against the promise", _ledger)
    books.add_argument("--charges", action="store_true", help="every place, devices as numbers")


def _group(commands: Any, name: str, about: str) -> Any:
    return commands.add_parser(name, help=about).add_subparsers(required=True, metavar="ACTION")


def _action(
    group: Any, name: str, about: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = group.add_parser(name, help=about)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.set_defaults(run=run)
    return parser


def _act(arguments: argparse.Namespace, act: Callable[[AdminActions], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with open_admin(arguments) as admin:
            return await act(admin)

    return asyncio.run(run())


def _keys_list(arguments: argparse.Namespace) -> int:
    print_json(key_lines(open_keyring(Path(settings_of(arguments).keys))))
    return 0


def _keys_rotate(arguments: argparse.Namespace) -> int:
    keyring = open_keyring(Path(settings_of(arguments).keys))
    active = _act(arguments, lambda admin: admin.rotate_keys(keyring))
    say(f"{active} is active; the open round keeps its key, which is destroyed after it")
    return 0


def _devices_list(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.limit <= 1_000_000:
        raise ConfigError("--limit must be from 1 to 1,000,000")
    after = _hex(arguments.after)
    found = _act(arguments, lambda admin: admin.devices(after, arguments.limit))
    if arguments.json:
        print_json(found)
        return 0
    rows = [
        [
            one["device"], ago(one["enrolled_at"], time.time()), str(one["charged"]),
            str(one["last_step"] or "-"), one["level"],
            "revoked" if one["revoked"] else one["certificate"],
        ]
        for one in found
    ]  # fmt: skip
    show(columns(["device", "enrolled", "charged", "last step", "level", "state"], rows))
    return 0


def _devices_revoke(arguments: argparse.Namespace) -> int:
    device = _hex(arguments.device)
    _act(arguments, lambda admin: admin.revoke(device))
    say("revoked")
    return 0


def _issuers_list(arguments: argparse.Namespace) -> int:
    print_json(_act(arguments, lambda admin: admin.issuers()))
    return 0


def _issuers_add(arguments: argparse.Namespace) -> int:
    name = _name(arguments.name)
    try:
        key = load_pem_public_key(arguments.file.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{arguments.file}: not a public key in PEM: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigError(f"{arguments.file}: the key must be on the curve P-256")
    _act(arguments, lambda admin: admin.add_issuer(name, public_point(key)))
    say(f"{name} may sign enrolment tokens")
    return 0


def _issuers_remove(arguments: argparse.Namespace) -> int:
    _act(arguments, lambda admin: admin.remove_issuer(arguments.name))
    say("removed; devices that it enrolled stay")
    return 0


def _admins_list(arguments: argparse.Namespace) -> int:
    print_json(_act(arguments, lambda admin: admin.admins()))
    return 0


def _admins_add(arguments: argparse.Namespace) -> int:
    name, role = _name(arguments.name), Role(arguments.role)
    show(_act(arguments, lambda admin: admin.add_admin(name, role)))
    say("this bearer token is shown once; only its hash is kept")
    return 0


def _admins_remove(arguments: argparse.Namespace) -> int:
    _act(arguments, lambda admin: admin.remove_admin(arguments.name))
    say("removed")
    return 0


def _audit(arguments: argparse.Namespace) -> int:
    found = _act(arguments, lambda admin: admin.audit())
    print_json(found)
    return 0 if found["broken_at"] is None else 1


def _ledger(arguments: argparse.Namespace) -> int:
    """0 when the history keeps the promise, 1 when it does not."""
    found = _act(arguments, lambda admin: admin.ledger(arguments.charges))
    if arguments.json or arguments.charges:
        print_json(found)
    else:
        lines = {name: value for name, value in found.items() if name != "rounds"}
        show("\n".join(f"{name}: {value}" for name, value in lines.items()))
    return 1 if found["breaches"] else 0


def _name(text: str) -> str:
    if not 1 <= len(text) <= 40 or not text.isprintable():
        raise ConfigError("a name has 1 to 40 printable characters")
    return text


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is not the hex of a device id") from error
