"""`fedrap-sim scenario` on the command line; `field` is its old name."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def add_scenario_parser(commands: Any) -> None:
    """`scenario` among the commands."""
    from fedrap_simulation.scenarios.scenario import library

    parser = commands.add_parser(
        "scenario",
        aliases=["field"],
        help="many devices against the real coordinator: quality, epsilon, traffic, faults",
        description="Run a scenario: the SDK's own decisions and the real coordinator. Writes "
        f"report.html and outcome.json. Ready scenarios: {', '.join(library())}.",
    )
    parser.add_argument("scenario", help="a TOML file, or the name of a ready scenario")
    parser.add_argument("--out", type=Path, default=Path("scenario"), help="folder for the report")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="change a key: network.loss=0.2; may be given again")  # fmt: skip
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    parser.add_argument("--ray-address", help="a cluster that is there; else one on this machine")
    parser.add_argument("--data-dir", type=Path, help="where named sets lie; or FEDRAP_DATA")
    parser.add_argument("--json", type=Path, help="the outcome here, too; - is standard output")
    parser.set_defaults(run=run_scenario_command)


def run_scenario_command(arguments: argparse.Namespace) -> int:
    """Run it with progress on stderr; the path of the report on stdout. 1 if an invariant broke."""
    from fedrap_simulation.scenarios.compute import make_engine
    from fedrap_simulation.scenarios.invariants import InvariantBroken
    from fedrap_simulation.scenarios.outcome import to_json
    from fedrap_simulation.scenarios.report import answer_all, to_html
    from fedrap_simulation.scenarios.runner import run_scenario
    from fedrap_simulation.scenarios.scenario import load_scenario

    scenario = load_scenario(arguments.scenario, _changes(arguments.set))
    engine, started = make_engine(arguments.engine, arguments.ray_address), time.monotonic()

    def on_progress(done: float, words: str) -> None:
        spent = time.monotonic() - started
        sys.stderr.write(f"{done:4.0%} {spent:5.0f} s  {words}\n")
        sys.stderr.flush()

    on_progress(0.0, f"{scenario.name}: {scenario.about}")
    try:
        with tempfile.TemporaryDirectory(prefix="fedrap-field-") as folder:
            outcome = run_scenario(scenario, engine, Path(folder), on_progress, arguments.data_dir)
    except InvariantBroken as broken:
        sys.stderr.write(f"fedrap-sim: an invariant does not hold: {broken}\n")
        return 1
    finally:
        engine.close()
    arguments.out.mkdir(parents=True, exist_ok=True)
    raw = to_json(outcome)
    (arguments.out / "outcome.json").write_bytes(raw)
    (arguments.out / "report.html").write_text(to_html(outcome), "utf-8")
    if arguments.json is not None and str(arguments.json) != "-":
        arguments.json.write_bytes(raw)
    for question, big, words in answer_all(outcome):
        sys.stderr.write(f"{question:>12}  {big:>9}  {words}\n")
    out = raw.decode() if str(arguments.json) == "-" else str(arguments.out / "report.html")
    sys.stdout.write(f"{out}\n")
    return 0


def _changes(pairs: list[str]) -> dict[str, Any]:
    """KEY=VALUE with a TOML value, or plain text where it is none."""
    import tomllib

    from fedrap_simulation.scenarios.scenario import BadScenario

    found: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key:
            raise BadScenario(f"--set {pair}: write KEY=VALUE, such as network.loss=0.2")
        try:
            found[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = text
    return found
