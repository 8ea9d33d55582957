"""`fedrap`: a device on the command line: record, recommend, join a round, status."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from pathlib import Path

from fedrap import FedRap, FedRapError


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 is good, 1 means that no round was joined, 2 that something is wrong."""
    arguments = _parser().parse_args(argv)
    try:
        with FedRap.open(arguments.store, server=arguments.server, token=arguments.token) as device:
            return int(arguments.run(device, arguments))
    except (FedRapError, ValueError, OSError) as error:
        sys.stderr.write(f"fedrap: {error}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fedrap", description=__doc__)
    parser.add_argument("--store", type=Path, default=Path("~/.local/share/fedrap"))
    parser.add_argument("--server", help="address of the coordinator")
    parser.add_argument("--token", help="one-time enrolment token")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    consent = commands.add_parser("consent", help="agree to train, or take it back")
    consent.add_argument("answer", choices=["yes", "no"])
    consent.add_argument("--policy", default="cli")
    consent.set_defaults(run=_consent)
    record = commands.add_parser("record", help="keep an interaction with each ITEM")
    record.add_argument("items", nargs="+", metavar="ITEM")
    record.set_defaults(run=_record)
    recommend = commands.add_parser("recommend", help="the best items for this user, as JSON")
    recommend.add_argument("-n", type=int, default=10)
    recommend.add_argument("--explain", action="store_true")
    recommend.set_defaults(run=_recommend)
    join = commands.add_parser("join", help="take part in one round")
    join.set_defaults(run=_join)
    status = commands.add_parser("status", help="where this device stands, as JSON")
    status.set_defaults(run=_status)
    return parser


def _consent(device: FedRap, arguments: argparse.Namespace) -> int:
    device.consent(train=arguments.answer == "yes", policy=arguments.policy)
    return 0


def _record(device: FedRap, arguments: argparse.Namespace) -> int:
    for item in arguments.items:
        device.record(item)
    return 0


def _recommend(device: FedRap, arguments: argparse.Namespace) -> int:
    found = device.recommend(arguments.n, explain=arguments.explain)
    _print([dataclasses.asdict(one) for one in found])
    return 0


def _join(device: FedRap, arguments: argparse.Namespace) -> int:
    report = device.run_round()
    _print(dataclasses.asdict(report))
    return 0 if report.joined else 1


def _status(device: FedRap, arguments: argparse.Namespace) -> int:
    fields = dataclasses.asdict(device.status())
    if math.isinf(fields["epsilon"]):
        fields["epsilon"] = None  # JSON has no infinity; no noise, no promise
    _print(fields)
    return 0


def _print(value: object) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
