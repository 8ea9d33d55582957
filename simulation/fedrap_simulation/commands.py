"""See what a federated recommender would do before anybody ships it."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from fedrap_core.errors import FedRapError
from fedrap_core.paper.variants import NAMES
from fedrap_simulation.data_commands import add_data_parser
from fedrap_simulation.demo import DemoPlan, result_json, run_demo
from fedrap_simulation.demo_screen import Screen
from fedrap_simulation.evaluate_commands import add_evaluate_parser
from fedrap_simulation.field_commands import add_field_parser
from fedrap_simulation.reproduce_commands import add_reproduce_parser


def run(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (FedRapError, OSError, ValueError) as error:
        sys.stderr.write(f"fedrap-sim: {error}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    default = DemoPlan()
    parser = argparse.ArgumentParser(prog="fedrap-sim", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="a coordinator, devices and rounds on this machine")
    demo.add_argument(
        "--method",
        default=default.method,
        choices=["solve", *(name for name in NAMES if name != "centrap")],
        help="solve, or a variant of the paper",
    )
    demo.add_argument("--devices", type=int, default=default.shape.users)
    demo.add_argument("--items", type=int, default=default.shape.items)
    demo.add_argument("--rounds", type=int, default=default.rounds)
    demo.add_argument("--dim", type=int, default=default.dim, help="k, numbers per item")
    demo.add_argument("--noise", type=float, default=default.noise, help="z, in units of the clip")
    demo.add_argument("--clip", type=float, default=default.clip, help="S, norm of one update")
    demo.add_argument("--seed", type=int, default=default.seed)
    demo.add_argument("--json", type=Path, help="write the result here as well")
    demo.add_argument("--svg", type=Path, help="save what is shown as a picture")
    demo.set_defaults(run=_demo)
    add_data_parser(commands)
    add_evaluate_parser(commands)
    add_reproduce_parser(commands)
    add_field_parser(commands)
    return parser


def _demo(arguments: argparse.Namespace) -> int:
    if arguments.devices < 4 or arguments.rounds < 1:
        raise ValueError("the demo needs at least 4 devices and 1 round")
    shape = replace(DemoPlan().shape, users=arguments.devices, items=arguments.items)
    plan = DemoPlan(
        shape=shape,
        method=arguments.method,
        rounds=arguments.rounds,
        dim=arguments.dim,
        noise=arguments.noise,
        clip=arguments.clip,
        seed=arguments.seed,
    )
    screen = Screen(plan, width=118 if arguments.svg else None)
    with tempfile.TemporaryDirectory(prefix="fedrap-demo-") as folder, screen:
        result = asyncio.run(run_demo(plan, Path(folder), screen.line))
    screen.result(result)
    if arguments.json is not None:
        arguments.json.write_bytes(result_json(result))
    if arguments.svg is not None:
        screen.save_picture(arguments.svg)
    return 0
