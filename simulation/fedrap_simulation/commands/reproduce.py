"""`fedrap-sim reproduce` on the command line."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from fedrap_simulation.paper_report.document import Section
from fedrap_simulation.progress import ProgressBars

_SECTIONS, _PIECE = 0, 1  # the bar of all sections, and that of what is being computed


class _Screen(ProgressBars):
    """One bar for the sections, one for what is being computed."""

    def __init__(self) -> None:
        super().__init__(bars=2)
        self.update(0.0, what="sections", bar=_SECTIONS)
        self.update(0.0, words="reading data", bar=_PIECE)

    def on_section(self, section: Section, place: int, count: int) -> None:
        """A section starts."""
        self.update(place / count, words=f"{place + 1} of {count}", bar=_SECTIONS)
        self.update(0.0, what=section.name, words="", bar=_PIECE)

    def on_progress(self, done: float, words: str) -> None:
        """How far the piece at hand is."""
        self.update(done, words=words, bar=_PIECE)


def add_reproduce_parser(commands: Any) -> None:
    """`reproduce` among the commands."""
    parser = commands.add_parser(
        "reproduce",
        help="the paper's tables and figures again, with its leak and without it",
        description="Measure what the paper measured, under its own protocol, which leaks and is "
        "labelled so, and under one that does not. Writes report.html, results.json and tables.md. "
        "A run that was stopped goes on where it was.",
    )
    parser.add_argument("--data", default="ml-100k", help="a name, a file, or synthetic[:users=…]")
    parser.add_argument("--out", type=Path, default=Path("reproduce"), help="folder for the report")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--only", default="", help="sections, with commas between; else all")
    parser.add_argument("--quick", action="store_true", help="so small that it only shows it works")
    parser.add_argument("--data-dir", type=Path, help="where named sets lie; or FEDRAP_DATA")
    parser.add_argument(
        "--cache", type=Path, help="keep answers here, as evaluate does; else in OUT/cache"
    )
    parser.add_argument(
        "--docs", type=Path, help="put the tables between the marks of this data in a page"
    )
    parser.set_defaults(run=run_reproduce)


def run_reproduce(arguments: argparse.Namespace) -> int:
    """Do it with progress on stderr; the path of the report on stdout. 1 if anything failed."""
    from fedrap_simulation.paper_report.request import ReportRequest
    from fedrap_simulation.paper_report.run import reproduce

    order = ReportRequest(
        data=arguments.data,
        out=arguments.out,
        seeds=arguments.seeds,
        only=tuple(name.strip() for name in arguments.only.split(",") if name.strip()),
        quick=arguments.quick,
        data_dir=arguments.data_dir,
        cache=arguments.cache,
        docs=arguments.docs,
    )
    with _Screen() as screen:
        outcome = reproduce(
            order, make_command(order.data, arguments), screen.on_progress, screen.on_section
        )
    for words in outcome.failed:
        sys.stderr.write(f"fedrap-sim: could not be done: {words}\n")
    sys.stdout.write(f"{order.out / 'report.html'}\n")
    return 1 if outcome.failed else 0


def make_command(data: str, arguments: argparse.Namespace) -> str:
    """The command without folders, which are nobody else's."""
    only = f" --only {arguments.only}" if arguments.only else ""
    quick = " --quick" if arguments.quick else ""
    return f"fedrap-sim reproduce --data {shlex.quote(data)} --seeds {arguments.seeds}{only}{quick}"
