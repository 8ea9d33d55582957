"""Trainers: microseconds per device round, start, memory and imports, as ratios of one run.

    python benchmarks/bench_trainers.py [--json PATH] [--seconds 0.4]

Every trainer runs in a process of its own with NumPy measured beside it on the same devices, so
that a ratio compares two numbers of the same second. All libraries have one thread. Minima are
given: on a busy machine they are what holds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

TRAINERS = ("numpy", "onnx", "torch")
BATCHES = (1, 16, 64, 256)
SOLVE_ITEMS = (20, 100, 1000)
SOLVE_DIM = 64
CATALOGUE = 4000
SEQUENCE_MS = {3_700: 10.0, 32_000: None, 100_000: 50.0}  # what ONNX Runtime may take


def quickest(work: Callable[[], Any], seconds: float) -> float:
    """The shortest time of a piece of work in microseconds."""
    work()
    best, turns, end = float("inf"), 0, time.perf_counter() + seconds
    while turns < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
        turns += 1
    return 1e6 * best


def shares(items: int, count: int) -> list[Any]:
    """Devices of one release with `items` items each; C's spectrum falls as a trained one's."""
    import numpy as np

    from fedrap_core.solve.device_share import ShareProblem

    rng = np.random.default_rng(0)
    common = rng.normal(0, 0.12, size=(CATALOGUE, SOLVE_DIM)) * np.geomspace(4, 0.25, SOLVE_DIM)
    base = common.T @ common + 10 * np.eye(SOLVE_DIM)
    chosen = [np.sort(rng.choice(CATALOGUE, items, replace=False)) for _ in range(count)]
    return [ShareProblem(rows, common[rows], np.full(items, 5.0), base) for rows in chosen]


def posed_share() -> Any:
    """One device's problem on the way that a device takes: from a release and a history."""
    import numpy as np

    from fedrap_core.model import CommonItems, History
    from fedrap_core.plan import SolveMethod
    from fedrap_core.quantize import quantize_rows
    from fedrap_core.solve.device_share import pose_share

    rng = np.random.default_rng(0)
    common = CommonItems(1, quantize_rows(rng.normal(0, 0.1, size=(CATALOGUE, SOLVE_DIM))))
    history = History(rng.integers(0, CATALOGUE, size=100), np.ones(100))
    return pose_share(common, common.gram(), history, SolveMethod(dim=SOLVE_DIM))


def rounds(count: int) -> list[Any]:
    """Local rounds of `paper`: 100 positives, 400 negatives, k 32, 10 epochs."""
    import numpy as np

    from fedrap_core.paper.problem import fresh_state, pose_paper
    from fedrap_core.plan import PaperMethod

    rng, method = np.random.default_rng(0), PaperMethod()
    common = rng.normal(size=(1682, method.dim))
    posed = []
    for _ in range(count):
        seen = rng.choice(len(common), size=100, replace=False)
        unseen = np.delete(np.arange(len(common)), seen)
        posed.append(
            pose_paper(
                lambda rows: common[rows], fresh_state(method), seen, unseen, method, 5, rng.random
            )
        )
    return posed


def sequence_round(size: int) -> Callable[[Any], Any]:
    """A device's round of the sequence part, from its history to what it would send."""
    import numpy as np

    from fedrap_core.model import History, SequenceRows
    from fedrap_core.plan import SequenceMethod
    from fedrap_core.quantize import quantize_rows
    from fedrap_core.sequence.device_share import answer, ask, draw, pose_sequence

    rng, method = np.random.default_rng(0), SequenceMethod()
    items = SequenceRows(
        quantize_rows(rng.normal(0.0, 0.3, (size, method.dim))),
        quantize_rows(rng.normal(0.0, 0.1, (size, method.dim))),
        rng.normal(0.0, 1.0, size).astype(np.float32),
        np.full((method.kernels, method.dim), 0.7, np.float32),
    )
    history = History(rng.integers(0, size, 100), np.ones(100))

    def run(trainer: Any) -> Any:
        draws = draw(100, method, np.random.default_rng(1).random)
        asked = ask(pose_sequence(history, method, draws), items)
        return answer(asked, trainer.expect(asked, items))

    return run


def measure_sequence(trainer: Any, numpy: Any, seconds: float) -> dict[str, Any]:
    """Milliseconds of a round by the size of the catalogue, and the ratio to NumPy."""
    found = {}
    for size, limit in SEQUENCE_MS.items():
        run = sequence_round(size)
        theirs = quickest(partial(run, numpy), seconds)
        ours = quickest(partial(run, trainer), seconds)
        found[f"sequence {size} items, 100 of them, k 64, Q 32"] = {
            "ms": round(ours / 1e3, 2), "numpy_ms": round(theirs / 1e3, 2),
            "ratio": round(ours / theirs, 3), "target_ms_onnx": limit,
        }  # fmt: skip
    return found


def measure_trainer(name: str, seconds: float) -> dict[str, Any]:
    """Microseconds per device and the ratio to NumPy, by method and batch."""
    from fedrap.trainers import make_trainer

    start = time.perf_counter()
    trainer = make_trainer(name)
    found: dict[str, Any] = {"start_ms": round(1e3 * (time.perf_counter() - start), 1)}
    numpy = make_trainer("numpy")
    cases: dict[str, tuple[list[Any], str]] = {
        f"solve {items} items, k {SOLVE_DIM}": (shares(items, max(BATCHES)), "solve")
        for items in SOLVE_ITEMS
    }
    cases["paper 100+400, k 32, 10 epochs"] = (rounds(max(BATCHES)), "train")
    for case, (problems, method) in cases.items():
        found[case] = {}
        for batch in BATCHES:
            run, reference = getattr(trainer, method), getattr(numpy, method)
            part, few = problems[:batch], problems[: min(batch, 16)]
            # Before and after, so that a machine that grows busy in between does not flatter.
            theirs = quickest(partial(reference, few), seconds / 2)
            ours = quickest(partial(run, part), seconds) / batch
            theirs = min(theirs, quickest(partial(reference, few), seconds / 2)) / len(few)
            found[case][f"batch {batch}"] = {
                "us_per_device": round(ours, 1),
                "numpy_us_per_device": round(theirs, 1),
                "ratio": round(ours / theirs, 3),
            }
    return found | measure_sequence(trainer, numpy, seconds)


def resident_mb() -> float:
    """Resident memory of this process."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, ValueError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def measure_memory(name: str) -> dict[str, Any]:
    """Resident memory with NumPy alone, and after one device's round of each method."""
    import numpy as np

    np.linalg.solve(np.eye(64), np.ones(64))
    bare = resident_mb()
    from fedrap.trainers import make_trainer

    trainer = make_trainer(name)
    trainer.solve([posed_share()])
    solved = resident_mb()
    trainer.train(rounds(1))
    trained = resident_mb()
    importlib.import_module("fedrap.transport.http")
    return {
        "numpy_mb": round(bare, 1),
        "above_numpy_after_solve_mb": round(solved - bare, 1),
        "above_numpy_after_solve_and_paper_mb": round(trained - bare, 1),
        "above_numpy_with_http_client_too_mb": round(resident_mb() - bare, 1),
    }


def measure_imports() -> dict[str, Any]:
    """Milliseconds of an import in a fresh process, the shortest of five."""
    statements = {
        "numpy": "import numpy",
        "fedrap.trainers": "import fedrap.trainers",
        "onnx trainer": "from fedrap.trainers import make_trainer; make_trainer('onnx')",
        "torch trainer": "from fedrap.trainers import make_trainer; make_trainer('torch')",
    }
    found: dict[str, Any] = {}
    for name, statement in statements.items():
        code = f"import time; s = time.perf_counter(); {statement}; print(time.perf_counter() - s)"
        times = [
            float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True,
                                 text=True).stdout)
            for _ in range(5)
        ]  # fmt: skip
        found[name] = round(1e3 * min(times), 1)
    return {
        "ms": found,
        "ratio_to_numpy": {name: round(ms / found["numpy"], 2) for name, ms in found.items()},
    }


def versions() -> dict[str, str]:
    """What was measured."""
    from importlib.metadata import version

    names = ("numpy", "onnxruntime", "torch")
    return {"python": sys.version.split()[0], **{name: version(name) for name in names}}


def child(*arguments: str) -> Any:
    """This file in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


def main(argv: list[str] | None = None) -> int:
    """Measure everything and print or write it as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="write the result here instead of printing it")
    parser.add_argument("--seconds", type=float, default=0.4, help="for each measurement")
    parser.add_argument("--only", choices=TRAINERS, help=argparse.SUPPRESS)
    parser.add_argument("--memory", choices=TRAINERS, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.memory:
        print(json.dumps(measure_memory(given.memory)))
        return 0
    if given.only:
        print(json.dumps(measure_trainer(given.only, given.seconds)))
        return 0
    assets = Path(__file__).parent.parent / "sdk" / "fedrap" / "assets"
    result: dict[str, Any] = {"benchmark": "trainers", "threads": 1, "versions": versions()}
    result["graph_bytes"] = {path.name: path.stat().st_size for path in assets.glob("*.onnx")}
    for name in TRAINERS:
        print(f"measuring {name}", file=sys.stderr)
        result[name] = child("--only", name, "--seconds", str(given.seconds))
        result[name]["memory"] = child("--memory", name)
    result["imports"] = measure_imports()
    text = json.dumps(result, indent=2) + "\n"
    if given.json:
        given.json.write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
