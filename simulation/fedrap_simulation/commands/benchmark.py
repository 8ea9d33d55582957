"""`fedrap-sim benchmark` on the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from fedrap_simulation.progress import ProgressBars


def add_benchmark_parser(commands: Any) -> None:
    """`benchmark` among the commands."""
    parser = commands.add_parser(
        "benchmark",
        help="one fixed protocol without a leak over all sets at hand, one page",
        description="Run simple methods and ours, and yours if you give a Python file with fit and "
        "scores, over every set that is there. Writes benchmark.md and benchmark.json. A run that "
        "was stopped goes on where it was.",
    )
    parser.add_argument("--sets", default="", help="names or files, with commas between; else all")
    parser.add_argument("--method", default="", help="also these: names, or files that end in .py")
    parser.add_argument("--only", default="", help="these and no others")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--out", type=Path, default=Path("benchmark"), help="folder for the page")
    parser.add_argument("--data-dir", type=Path, help="where named sets lie; or FEDRAP_DATA")
    parser.add_argument("--cache", type=Path, help="keep answers here; else in OUT/cache")
    parser.set_defaults(run=run_benchmark_command)


def run_benchmark_command(arguments: argparse.Namespace) -> int:
    """Do it with progress on stderr; the path of the page on stdout."""
    import msgspec

    from fedrap_simulation.data.write import write_whole
    from fedrap_simulation.evaluation.benchmark import (
        SETS,
        BenchmarkRequest,
        page,
        run_benchmark,
    )

    request = BenchmarkRequest(
        sets=_names(arguments.sets) or SETS,
        methods=_names(arguments.method),
        only=_names(arguments.only),
        seeds=arguments.seeds,
        data_dir=arguments.data_dir,
        cache=arguments.cache or arguments.out / "cache",
    )
    bars = ProgressBars()
    with bars:
        result = run_benchmark(
            request,
            lambda method, seed, done, words: bars.update(
                done, what=f"{method}, seed {seed}", words=words
            ),
        )
    arguments.out.mkdir(parents=True, exist_ok=True)
    raw = msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"
    write_whole(arguments.out / "benchmark.json", raw)
    write_whole(arguments.out / "benchmark.md", page(result).encode("utf-8"))
    sys.stdout.write(f"{arguments.out / 'benchmark.md'}\n")
    return 0


def _names(given: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
