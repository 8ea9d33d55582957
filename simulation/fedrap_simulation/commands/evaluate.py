"""`fedrap-sim evaluate` on the command line."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fedrap_simulation.data.errors import BadData

if TYPE_CHECKING:
    from fedrap_simulation.evaluation.runner import Request


def add_evaluate_parser(commands: Any) -> None:
    """`evaluate` among the commands."""
    parser = commands.add_parser(
        "evaluate",
        help="what quality you would get, beside what you would pick instead",
        description="Fit methods to data and measure them. Settings are chosen on validation, "
        "the test is looked at once. 'clean' is honest; 'paper' has the leak of the published "
        "numbers and is labelled so.",
    )
    parser.add_argument("--data", required=True, help="a name, a file, or synthetic[:users=…]")
    parser.add_argument("--method", required=True, help="one or more, with commas between")
    parser.add_argument("--protocol", choices=["clean", "paper"], default="clean")
    parser.add_argument("--split", choices=["last", "random", "ncf", "repeat", "time"])
    parser.add_argument(
        "--days", type=float, default=10.0, help="that --split time asks about (seed by seed later)"
    )
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--min-interactions", type=int, default=10)
    parser.add_argument("--data-dir", type=Path, help="where named sets lie; or FEDRAP_DATA")
    parser.add_argument("--against", default=None, help="compare with this one, user by user")
    parser.add_argument(
        "--epsilon", type=float, help="a guarantee to each user, for fedrap, c-only"
    )
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--noise", choices=["banded", "independent"], default="banded")
    parser.add_argument("--no-tune", action="store_true", help="built-in settings as they are")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="METHOD.SETTING=VALUE",
        help="change a setting, e.g. fedrap.schedule.rounds=20",
    )
    parser.add_argument("--cache", type=Path, help="keep answers here and reuse them")
    parser.add_argument("--json", type=Path, help="write rows and means here")
    parser.set_defaults(run=run_evaluate)


def read_changes(lines: list[str]) -> dict[str, dict[str, Any]]:
    """METHOD.SETTING=VALUE by method; values are JSON where they can be.

    Raises:
        BadData: a line is of another form.
    """
    changes: dict[str, dict[str, Any]] = {}
    for line in lines:
        left, equals, raw = line.partition("=")
        name, dot, key = left.partition(".")
        if not (equals and dot and name and key):
            raise BadData(f"--set wants METHOD.SETTING=VALUE, got {line!r}")
        try:
            value = json.loads(raw)
        except ValueError:
            value = raw
        changes.setdefault(name, {})[key] = value
    return changes


def make_request(arguments: argparse.Namespace) -> Request:
    """What was asked for on the command line."""
    from fedrap_simulation.evaluation.results import PrivacyTarget
    from fedrap_simulation.evaluation.runner import Request

    methods = tuple(dict.fromkeys(one for one in arguments.method.split(",") if one))
    changes = read_changes(arguments.set)
    for name in changes:
        if name not in methods:
            raise BadData(f"--set changes {name}, which is not among the methods")
    if not methods:
        raise BadData("--method wants at least one name")
    target = None
    if arguments.epsilon is not None:
        if not (arguments.epsilon > 0 and 0 < arguments.delta < 1):
            raise BadData("--epsilon wants a number above 0, --delta one between 0 and 1")
        banded = arguments.noise == "banded"
        target = PrivacyTarget(epsilon=arguments.epsilon, delta=arguments.delta, banded=banded)
    return Request(
        target=target,
        data=arguments.data,
        methods=methods,
        protocol=arguments.protocol,
        split=arguments.split,
        seeds=arguments.seeds,
        first_seed=arguments.first_seed,
        least=arguments.min_interactions,
        days=arguments.days,
        tune=not arguments.no_tune,
        data_dir=arguments.data_dir,
        cache=arguments.cache,
        changes=changes,
    )


def run_evaluate(arguments: argparse.Namespace) -> int:
    """Evaluate with progress on stderr; the table on stdout, JSON where asked."""
    from fedrap_simulation.evaluation.compare import means
    from fedrap_simulation.evaluation.runner import Evaluation
    from fedrap_simulation.evaluation.table import EvaluationScreen

    request = make_request(arguments)
    if arguments.against is not None and arguments.against not in request.methods:
        raise BadData(f"--against {arguments.against}, which is not among the methods")
    evaluation = Evaluation(request)
    screen = EvaluationScreen(evaluation, request)
    answers = []
    with screen:
        for answer in evaluation.run(screen.on_progress):
            answers.append(answer)
            screen.row(answer.row)
    summary = means(answers, arguments.against)
    screen.table(summary)
    if arguments.json is not None:
        result = {
            "command": " ".join(["fedrap-sim", *sys.argv[1:]]),
            "data": request.data,
            "protocol": request.protocol,
            "leaky": request.protocol == "paper",
            "split": evaluation.kind,
            "warnings": evaluation.warnings(),
            "min_interactions": request.least,
            "seeds": list(range(request.first_seed, request.first_seed + request.seeds)),
            "rows": [answer.row for answer in answers],
            "means": summary,
        }
        arguments.json.write_bytes(
            msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"
        )
    return 0
