"""A device on the command line: keep a history, recommend, join rounds, leave.

`--store`, `--server` and `--token` may also come from FEDRAP_STORE, FEDRAP_SERVER and
FEDRAP_TOKEN; `init` remembers the server.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fedrap import FedRap, FedRapError, Floor, StoreBusy
from fedrap.cli import commands

STORE = "~/.local/share/fedrap"


def main(argv: list[str] | None = None, *, clock: Callable[[], float] = time.time) -> int:
    """Run one command; 0 is good, 1 means that no round was joined, 2 that something is wrong."""
    arguments = _parser().parse_args(argv)
    arguments.clock = clock
    arguments.store = arguments.store.expanduser()
    server = arguments.server or commands.remembered_server(arguments.store)
    try:
        if arguments.run is None:  # before opening, which may not work
            return _say(commands.doctor(arguments), arguments)
        with FedRap.open(
            arguments.store,
            server=server,
            allow_http=arguments.allow_http,
            token=arguments.token,
            profile=arguments.profile,
            clock=clock,
            floor=Floor.without_privacy(min_updates=2) if arguments.no_privacy else None,
        ) as device:
            answer = arguments.run(device, arguments)
    except StoreBusy as error:
        if getattr(arguments, "answer", "") != "no":  # a withdrawal needs no store that is free
            sys.stderr.write(f"fedrap: {error}\n")
            return 2
        answer = commands.withdraw_where_busy(arguments)
    except (FedRapError, ValueError, OSError) as error:
        sys.stderr.write(f"fedrap: {error}\n")
        return 2
    return _say(answer, arguments)


def _say(answer: commands.Answer, arguments: argparse.Namespace) -> int:
    sys.stdout.write(answer.as_json() if arguments.json else answer.text)
    return int(answer.code)


def _parser() -> argparse.ArgumentParser:
    environment = os.environ
    parser = argparse.ArgumentParser(prog="fedrap", description=__doc__)
    parser.add_argument(
        "--store", type=Path, default=Path(environment.get("FEDRAP_STORE", STORE)), metavar="FOLDER"
    )
    parser.add_argument(
        "--server", default=environment.get("FEDRAP_SERVER"), help="address of the coordinator"
    )
    parser.add_argument(
        "--allow-http", action="store_true", help="take a server without TLS on another machine"
    )
    parser.add_argument(
        "--no-privacy", action="store_true", help="join rounds that promise no privacy, too"
    )
    parser.add_argument(
        "--token", default=environment.get("FEDRAP_TOKEN"), help="one-time enrolment token"
    )
    parser.add_argument("--profile", help="whose store, where several people use this device")
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    made = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, summary: str) -> argparse.ArgumentParser:
        one = made.add_parser(name, help=summary, description=summary)
        # Also behind the command; SUPPRESS keeps what stood before it.
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
        one.set_defaults(run=commands.COMMANDS.get(name))
        return one

    add("init", "make the store, and remember the server")
    record = add("record", "keep an interaction with each ITEM")
    record.add_argument("items", nargs="+", metavar="ITEM")
    record.add_argument("--kind", default="view")
    record.add_argument("--weight", type=float, default=1.0)
    imported = add("import", "keep a history from a CSV file: item[,weight][,timestamp][,kind]")
    imported.add_argument("file", type=Path, metavar="FILE.csv")
    recommend = add("recommend", "the best items for this user")
    recommend.add_argument("-n", type=int, default=10)
    recommend.add_argument("--explain", action="store_true", help="say why")
    similar = add("similar", "the items most like ITEM to everybody")
    similar.add_argument("item", metavar="ITEM")
    similar.add_argument("-n", type=int, default=10)
    hide = add("hide", "never recommend ITEM again")
    hide.add_argument("item", metavar="ITEM")
    hide.add_argument("--undo", action="store_true", help="recommend it again")
    remove = add("remove", "take back every interaction with ITEM")
    remove.add_argument("item", metavar="ITEM")
    add("history", "what is kept, oldest first")
    consent = add("consent", "agree to train (yes), only to recommendations, or to nothing (no)")
    consent.add_argument("answer", choices=["yes", "recommend", "no"])
    consent.add_argument("--policy", default="cli", help="which text was agreed to")
    add("join", "take part in one round")
    add("status", "where this device stands")
    export = add("export", "write everything that is known of this user into a file")
    export.add_argument("file", type=Path, metavar="FILE")
    doctor = add("doctor", "say what is wrong with a store that does not open or lost something")
    doctor.add_argument("--repair", action="store_true", help="make one that opens of what is left")
    erase = add("erase", "delete the store and its key, and leave the coordinator")
    erase.add_argument("--yes", action="store_true", help="really")
    return parser


if __name__ == "__main__":
    sys.exit(main())
