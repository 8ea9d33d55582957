"""See what a federated recommender would do before anybody ships it."""

from __future__ import annotations

import argparse
import sys

from fedrap_core.errors import FedRapError
from fedrap_simulation.commands.benchmark import add_benchmark_parser
from fedrap_simulation.commands.data import add_data_parser
from fedrap_simulation.commands.demo import add_demo_parser
from fedrap_simulation.commands.evaluate import add_evaluate_parser
from fedrap_simulation.commands.reproduce import add_reproduce_parser
from fedrap_simulation.commands.scenario import add_scenario_parser


def run(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (FedRapError, OSError, ValueError) as error:
        sys.stderr.write(f"fedrap-sim: {error}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fedrap-sim", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_demo_parser(commands)
    add_data_parser(commands)
    add_evaluate_parser(commands)
    add_benchmark_parser(commands)
    add_reproduce_parser(commands)
    add_scenario_parser(commands)
    return parser
