"""What the SDK costs an app: time of each call, memory at each catalogue size, import time.

All through the public API. For each size one process syncs a store with a coordinator in memory,
and a fresh one opens it, so that what is measured is a device and not the coordinator.

python benchmarks/bench_sdk.py [--json PATH] [--sizes 1700 32000 1000000] [--beside CHECKOUT]

`--beside` runs the same in another checkout, such as that of an older version, and gives ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DIM, SIZES, HISTORY, LONG_HISTORY, REPEATS, ROUNDS = (
    32,
    (1_700, 32_000, 1_000_000),
    100,
    10_000,
    50,
    9,
)
WITH_SEQUENCE = 32_000
TARGETS = {
    "record_p95_ms": 0.3,
    "recommend_32000_ms": 5.0,
    "recommend_with_feedback_32000_ms": 5.0,
    "recommend_1000000_ms": 50.0,
    "resident_32000_mb": 100.0,
    "rows_1000000_mb": 64.0,
}


def _resident(field: str = "VmRSS") -> float:
    """Megabytes of this process; 0 where there is no /proc."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), 0.0)


def _times(action: Callable[[], object], repeats: int) -> dict[str, float]:
    """Median and p95 in milliseconds."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        taken.append(1e3 * (time.perf_counter() - start))
    taken.sort()
    return {"median_ms": statistics.median(taken), "p95_ms": taken[int(0.95 * (len(taken) - 1))]}


def _item(row: int) -> str:
    return f"item-{row:07d}"


def prepare(size: int, folder: Path, sequence: bool = False) -> None:
    """A store with a release of `size` items and a history; with a sequence part if asked for."""
    import numpy as np

    from fedrap import FedRap
    from fedrap.testing import FakeCoordinator

    rng = np.random.default_rng(0)
    matrix = rng.normal(0.0, 0.3, (size, DIM)).astype(np.float32)
    plan = None
    if sequence:  # which version 0.1 does not have
        from fedrap_core.plan import Plan, SequenceMethod, SolveMethod

        plan = Plan(method=SolveMethod(sequence=SequenceMethod()))
    fake = FakeCoordinator([_item(row) for row in range(size)], common=matrix, plan=plan)
    with FedRap.open(folder, transport=fake, token="bench") as device:
        device.consent(train=True, policy="bench")
        for row in rng.choice(size, HISTORY, replace=False):
            device.record(_item(int(row)))
        device.sync()


def measure_size(size: int, folder: Path) -> dict[str, Any]:
    """A fresh process with a store that was synced before."""
    from fedrap import FedRap

    imported = _resident()
    start = time.perf_counter()
    device = FedRap.open(folder)
    opened = 1e3 * (time.perf_counter() - start)
    after_open = _resident()
    start = time.perf_counter()
    device.recommend(20)
    first = 1e3 * (time.perf_counter() - start)
    repeated = _times(lambda: device.recommend(20), REPEATS)
    rows = iter(range(size))

    def tap_and_recommend() -> None:
        device.record(_item(next(rows)))
        device.recommend(20)

    tapped = _times(tap_and_recommend, REPEATS)
    similar = _times(lambda: device.similar_items(_item(0), 20), 5)
    return (
        _with_feedback(device, size)
        | _with_measuring(device, size)
        | {
            "open_ms": opened,
            "recommend_first_ms": first,
            "recommend": repeated,
            "record_and_recommend": tapped,
            "similar_items": similar,
            "resident_import_mb": imported,
            "resident_open_mb": after_open,
            "resident_mb": _resident(),
            "resident_peak_mb": _resident("VmHWM"),
            "model_mb": _resident() - imported,
        }
    )


def _with_measuring(device: Any, size: int) -> dict[str, Any]:
    """The rank of one new item in the list of the moment before, for questions about quality.

    Outside of `record`: before a sync or a round, in their thread.
    """
    if not hasattr(device, "answer_questions"):  # version 0.1
        return {}
    device.consent(policy="bench", train=True, measure=True)
    for row in range(50):  # 20 of them count under one release, and are ranked; 40 are looked at
        device.record(_item(size // 2 + row))
    start = time.perf_counter()
    device._state.measure()
    return {"measure_an_interaction_ms": 1e3 * (time.perf_counter() - start) / 20}


def _with_feedback(device: Any, size: int) -> dict[str, Any]:
    """A list with dislikes, hidden items, exclusions, a filter and some diversity."""
    if not hasattr(device, "hide"):  # version 0.1
        return {}
    for row in range(20):
        device.record(_item(size - 1 - row), kind="dislike")
        device.hide(_item(size - 101 - row))
    exclude = [_item(size - 201 - row) for row in range(20)]
    wish = {"exclude": exclude, "filter": lambda item: item[-1] != "7", "diversity": 0.2}
    return {
        "recommend_with_feedback": _times(lambda: device.recommend(20, **wish), REPEATS),
        "because": _times(lambda: device.because(_item(0)), REPEATS),
    }


def measure_calls(folder: Path) -> dict[str, Any]:
    """Recording, and opening with a long history."""
    from fedrap import FedRap

    with FedRap.open(folder) as device:
        count = iter(range(LONG_HISTORY))
        recorded = _times(lambda: device.record(_item(next(count) % 1700)), LONG_HISTORY)
    opened = _times(lambda: FedRap.open(folder).close(), 5)
    return {"record": recorded, f"open_with_{LONG_HISTORY}": opened}


class Timed:
    """A transport that notes when each verb began and ended."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.times: list[tuple[str, float, float]] = []

    def __getattr__(self, verb: str) -> Any:
        async def call(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return await getattr(self._inner, verb)(*arguments)
            finally:
                self.times.append((verb, start, time.perf_counter()))

        return call


def measure_round(folder: Path) -> dict[str, Any]:
    """A round at 1,700 items, split at the verbs: what happens between two is the device's."""
    import numpy as np

    from fedrap import FedRap, Floor
    from fedrap.testing import FakeCoordinator
    from fedrap_core.plan import Plan, Privacy

    size = 1_700
    matrix = np.random.default_rng(0).normal(0.0, 0.3, (size, DIM))
    names = [_item(row) for row in range(size)]
    fake = FakeCoordinator(names, common=matrix, plan=Plan(privacy=Privacy(cap=1000)))
    timed: Any = Timed(fake)
    first: dict[str, float] = {}
    later: dict[str, list[float]] = {}
    floor = Floor.without_privacy(cap=1000, min_updates=2)
    with FedRap.open(folder, transport=timed, token="bench", floor=floor) as device:
        device.consent(train=True, policy="bench")
        for row in range(HISTORY):
            device.record(names[7 * row])
        for number in range(ROUNDS):
            timed.times.clear()
            start = time.perf_counter()
            report = asyncio.run(device.run_round_async())
            steps = _steps(timed.times, start, time.perf_counter())
            assert report.joined, report
            if number == 0:
                first = steps
            else:
                for name, taken in steps.items():
                    later.setdefault(name, []).append(taken)
            for _ in range(2):  # never in two rounds in a row
                matrix[number] += 0.1
                fake.publish(matrix)
    return {
        "first_ms": first,
        "later_ms": {name: statistics.median(taken) for name, taken in later.items()},
        "sent_bytes": report.sent_bytes,
    }


def _steps(log: list[tuple[str, float, float]], start: float, end: float) -> dict[str, float]:
    """Milliseconds of each verb in the fake, and of the device between them."""
    names = {
        "enrol": "open_and_choose_trainer",
        "release": "before_sync",
        "catalogue": "before_catalogue",
        "offer": "adopt_release_and_look_up",
        "send_update": "solve_seal_and_commit",
    }
    found: dict[str, float] = {"total": 1e3 * (end - start)}
    last = start
    for verb, began, ended in log:
        found[names.get(verb, f"before_{verb}")] = 1e3 * (began - last)
        found[f"fake_{verb}"] = 1e3 * (ended - began)
        last = ended
    found["mark_sent"] = 1e3 * (end - last)
    return found


def measure_import() -> dict[str, float]:
    """Milliseconds and megabytes of an import in a fresh process, beside numpy alone."""
    code = (
        "import time; start = time.perf_counter(); import {0}; "
        "print(1e3 * (time.perf_counter() - start)); "
        "print(next((int(x.split()[1]) for x in open('/proc/self/status') "
        "if x.startswith('VmRSS')), 0) / 1024)"
    )
    found: dict[str, float] = {}
    for name in ("numpy", "fedrap", "fedrap.cli", "fedrap.testing"):
        runs = [_run([sys.executable, "-c", code.format(name)]).split() for _ in range(7)]
        found[f"{name}_ms"] = statistics.median(float(run[0]) for run in runs)
        found[f"{name}_mb"] = statistics.median(float(run[1]) for run in runs)
    found["fedrap_over_numpy"] = found["fedrap_ms"] / found["numpy_ms"]
    found["fedrap_minus_numpy_mb"] = found["fedrap_mb"] - found["numpy_mb"]
    return found


def _run(command: list[str], checkout: Path | None = None) -> str:
    environment = dict(os.environ)
    if checkout is not None:
        environment["PYTHONPATH"] = f"{checkout / 'core'}{os.pathsep}{checkout / 'sdk'}"
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def _child(step: str, folder: Path, size: int = 0, checkout: Path | None = None) -> Any:
    """One step in a process of its own."""
    command = [sys.executable, __file__, "--child", step, str(folder), "--sizes", str(size)]
    shown = _run(command, checkout)
    return json.loads(shown) if shown else None


def compare(checkout: Path, sizes: list[int], repeats: int = 3) -> dict[str, float]:
    """Ours over theirs, by turns in one run; the least of each, for other work only adds."""
    best: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory(prefix="fedrap-bench-") as root:
        for turn in range(repeats):
            for whose, where in (("ours", None), ("theirs", checkout)):
                folder = Path(root) / f"{whose}-{turn}"
                calls = _child("calls", folder / "calls", 0, where)
                found = {"record": calls["record"]["median_ms"]}
                for size in sizes:
                    _child("prepare", folder / str(size), size, where)
                    one = _child("size", folder / str(size), size, where)
                    found[f"recommend_{size}"] = one["recommend"]["median_ms"]
                    found[f"record_and_recommend_{size}"] = one["record_and_recommend"]["median_ms"]
                    found[f"open_{size}"] = one["open_ms"]
                    found[f"resident_{size}"] = one["resident_mb"]
                for name, much in found.items():
                    best[whose, name] = min(much, best.get((whose, name), much))
    return {
        name: best["ours", name] / best["theirs", name] for whose, name in best if whose == "ours"
    }


def measure(sizes: list[int]) -> dict[str, Any]:
    """Everything, and the ratios between it."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="fedrap-bench-") as root:
        folder = Path(root)
        by_size: dict[str, Any] = {}
        for size in sizes:
            _child("prepare", folder / str(size), size)
            by_size[str(size)] = _child("size", folder / str(size), size)
            # What the rows cost, beyond what any catalogue does: the first size is the smallest.
            smallest = by_size[str(sizes[0])]["model_mb"]
            by_size[str(size)]["rows_mb"] = by_size[str(size)]["model_mb"] - smallest
            if size == WITH_SEQUENCE:
                both = folder / f"{size}-both"
                _child("prepare-both", both, size)
                by_size[f"{size} with a sequence part"] = _child("size", both, size)
        calls = _child("calls", folder / "calls")
        rounds = _child("round", folder / "round")
    imports = measure_import()
    record = calls["record"]["median_ms"]
    return {
        "settings": {"dim": DIM, "history": HISTORY, "repeats": REPEATS, "rounds": ROUNDS},
        "machine": {
            "cores": os.cpu_count(),
            "load_before_and_after": [load, os.getloadavg()[0]],  # above the cores: do not compare
            "OPENBLAS_NUM_THREADS": os.environ.get("OPENBLAS_NUM_THREADS"),
        },
        "targets": TARGETS,
        "import": imports,
        "calls": calls,
        "by_size": by_size,
        "round": rounds,
        "ratios": {
            f"recommend_{size}_over_record": one["recommend"]["median_ms"] / record
            for size, one in by_size.items()
        },
    }


def main(argv: list[str] | None = None) -> int:
    """Print the result as JSON, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="another version's tree")
    parser.add_argument("--child", nargs=2, metavar=("STEP", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.child is not None:
        step, folder = arguments.child[0], Path(arguments.child[1])
        steps: dict[str, Callable[[], object]] = {
            "prepare": lambda: prepare(arguments.sizes[0], folder),
            "prepare-both": lambda: prepare(arguments.sizes[0], folder, sequence=True),
            "size": lambda: measure_size(arguments.sizes[0], folder),
            "calls": lambda: measure_calls(folder),
            "round": lambda: measure_round(folder),
        }
        found = steps[step]()
        if found is not None:
            print(json.dumps(found))
        return 0
    result = measure(arguments.sizes)
    if arguments.beside is not None:
        result["over_the_other"] = compare(arguments.beside, arguments.sizes)
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
