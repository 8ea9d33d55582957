"""Commands for keys, the authority, devices, issuers, admins, the audit and the privacy ledger."""

from __future__ import annotations

import argparse
import base64
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from fedrap_coordinator.admin import table
from fedrap_coordinator.admin.documents import Answer, KeyList, Ledger, key_lines
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.commands.output import (
    act,
    add_action,
    add_group,
    ago,
    columns,
    keyring_of,
    limit_of,
    print_json,
    say,
    show,
)
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.sources import SYSTEM
from fedrap_core.wire.keys import public_point


def add_identity_commands(commands: Any) -> None:
    """Into the parser of `fedrap-coordinator`."""
    keys = add_group(commands, "keys", "sealing keys: list them, or rotate them now")
    add_action(keys, "list", "all that ever were, with their states", _keys_list)
    add_action(keys, "rotate", "the next key becomes active for new rounds", _keys_rotate)

    add_action(commands, "authority", "the public key that apps pin", _authority)

    devices = add_group(commands, "devices", "list devices, or shut one out")
    listed = add_action(devices, "list", "in order of id", _devices_list)
    listed.add_argument("--after", default="", help="id to go on from")
    listed.add_argument("--limit", type=int, default=100)
    revoked = add_action(devices, "revoke", "no more rounds for a device", _devices_revoke)
    revoked.add_argument("device", help="its id in hex")

    issuers = add_group(commands, "issuers", "backends that sign enrolment tokens")
    add_action(issuers, "list", "all of them", _issuers_list)
    added = add_action(issuers, "add", "register a backend's public key", _issuers_add)
    added.add_argument("name", help="what its tokens have as `iss`")
    added.add_argument("file", type=Path, help="P-256 public key in PEM")
    removed = add_action(issuers, "remove", "refuse its tokens from now on", _issuers_remove)
    removed.add_argument("name")

    admins = add_group(commands, "admin", "who may use the admin API")
    add_action(admins, "list", "names and roles", _admins_list)
    added = add_action(admins, "add", "a role for somebody; prints the token once", _admins_add)
    added.add_argument("name")
    added.add_argument("--role", required=True, choices=[role.value for role in Role])
    removed = add_action(admins, "remove", "take the role back", _admins_remove)
    removed.add_argument("name")

    audit = commands.add_parser("audit", help="everything that admins did, as JSON")
    audit.set_defaults(run=_audit)


def add_ledger(actions: Any) -> None:
    """Into the actions of `fedrap-coordinator privacy`."""
    ledger = add_action(actions, "ledger", "what was charged, held against the guarantee", _ledger)
    ledger.add_argument("--charges", action="store_true", help="every slot, devices as numbers")


def _keys_list(arguments: argparse.Namespace) -> int:
    print_json(KeyList(keys=key_lines(keyring_of(arguments).keys)))  # needs no database
    return 0


def _keys_rotate(arguments: argparse.Namespace) -> int:
    done = act(arguments, table.ROTATE_KEYS, table.Nothing(), keyring_of(arguments))
    if arguments.json:
        print_json(done)
    say(f"{done.active} is active; the open round keeps its key, which is destroyed after it")
    return 0


def _authority(arguments: argparse.Namespace) -> int:
    point = public_point(keyring_of(arguments).authority.public_key())  # needs no database
    text = base64.b64encode(point).decode("ascii")
    if arguments.json:
        print_json({"authority": text})
        return 0
    show(text)
    say("give it to the app: FedRap.open(..., authority=...); it signs offers and releases")
    return 0


def _devices_list(arguments: argparse.Namespace) -> int:
    wanted = table.DeviceRows(_hex(arguments.after), limit_of(arguments))
    found = act(arguments, table.DEVICES, wanted)
    if arguments.json:
        print_json(found)
        return 0
    rows = [
        [
            one.device, ago(one.enrolled_at, SYSTEM.clock()), str(one.charged),
            str(one.last_step or "-"), one.level,
            "revoked" if one.revoked else one.certificate,
        ]
        for one in found.devices
    ]  # fmt: skip
    show(columns(["device", "enrolled", "charged", "last step", "level", "state"], rows))
    return 0


def _devices_revoke(arguments: argparse.Namespace) -> int:
    done = act(arguments, table.REVOKE, table.OneDevice(_hex(arguments.device)))
    return _said(arguments, done, "revoked")


def _issuers_list(arguments: argparse.Namespace) -> int:
    print_json(act(arguments, table.ISSUERS, table.Nothing()))
    return 0


def _issuers_add(arguments: argparse.Namespace) -> int:
    name = _name(arguments.name)
    try:
        key = load_pem_public_key(arguments.file.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{arguments.file}: not a public key in PEM: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigError(f"{arguments.file}: the key must be on the curve P-256")
    done = act(arguments, table.ADD_ISSUER, table.NewIssuer(name, public_point(key).hex()))
    return _said(arguments, done, f"{name} may sign enrolment tokens")


def _issuers_remove(arguments: argparse.Namespace) -> int:
    done = act(arguments, table.REMOVE_ISSUER, table.OneIssuer(arguments.name))
    return _said(arguments, done, "removed; devices that it enrolled stay")


def _admins_list(arguments: argparse.Namespace) -> int:
    print_json(act(arguments, table.ADMINS, table.Nothing()))
    return 0


def _admins_add(arguments: argparse.Namespace) -> int:
    wanted = table.NewRole(_name(arguments.name), Role(arguments.role))
    made = act(arguments, table.ADD_ADMIN, wanted)
    if arguments.json:
        print_json(made)
    else:
        show(made.token)
    say("this bearer token is shown once; only its hash is kept")
    return 0


def _admins_remove(arguments: argparse.Namespace) -> int:
    done = act(arguments, table.REMOVE_ADMIN, table.OneAdmin(arguments.name))
    return _said(arguments, done, "removed")


def _said(arguments: argparse.Namespace, done: Answer, words: str) -> int:
    if arguments.json:
        print_json(done)
    say(words)
    return 0


def _audit(arguments: argparse.Namespace) -> int:
    found = act(arguments, table.AUDIT, table.Nothing())
    print_json(found)
    return 0 if found.broken_at is None else 1


def _ledger(arguments: argparse.Namespace) -> int:
    """0 when the history keeps the guarantee, 1 when it does not."""
    if arguments.charges:
        found: Ledger = act(arguments, table.CHARGES, table.Nothing())
    else:
        found = act(arguments, table.LEDGER, table.Nothing())
    if arguments.json or arguments.charges:
        print_json(found)
    else:
        fields = msgspec.structs.asdict(found)
        show("\n".join(f"{name}: {fields[name]}" for name in fields if name != "rounds"))
    return 1 if found.violations else 0


def _name(text: str) -> str:
    if not 1 <= len(text) <= 40 or not text.isprintable():
        raise ConfigError("a name has 1 to 40 printable characters")
    return text


def _hex(text: str) -> str:
    try:
        return bytes.fromhex(text).hex()
    except ValueError as error:
        raise ConfigError(f"{text!r} is not the hex of a device id") from error
