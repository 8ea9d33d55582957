"""Costs of `split`: a device's report, both servers' work on it, bytes, closing and memory.

    python benchmarks/bench_split.py [--full] [--java] [--json OUT]

CPU seconds of one core (not wall time, so other work beside it changes little), smallest of five;
`memory_mb` is the most of the process so far: up to four sums, and a device.
With `--java` also those of the Java device, warm and of its first report (a JDK and Maven).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fedrap_core.plan import Plan, Privacy, SolveMethod, Split
from fedrap_core.sparse import RowUpdate, pack_gram
from fedrap_core.split.compiled import Way, best_expansion
from fedrap_core.split.numbers import (
    Terms,
    add_noise,
    join_sums,
    server_noise,
    to_numbers,
    uniform_count,
)
from fedrap_core.split.report import HELPER, LEADER, leader_bytes, make_report, public_bytes
from fedrap_core.split.verify import RunningSum, accepts, seen_bytes
from fedrap_core.wire.shares import SEALED_HELPER_BYTES

SHORT = [(1_700, 32, 100), (32_000, 32, 100)]
FULL = [*SHORT, (100_000, 64, 200), (1_000_000, 32, 100)]
REPEATS = 5
KEY = bytes(16)
BRIDGE = Path(__file__).resolve().parents[1] / "android_bridge"


def least(work: Callable[[], object]) -> float:
    """CPU milliseconds of the quickest of some."""
    found = []
    for _ in range(REPEATS):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return round(1e3 * min(found), 1)


def measure(items: int, dim: int, rows: int) -> dict[str, Any]:
    """One line of the table."""
    plan = Plan(
        method=SolveMethod(dim=dim), privacy=Privacy(clip=6.0, noise=1.0), split=Split(rows=rows)
    )
    terms = Terms(bytes(16), plan, items)
    rng = np.random.default_rng(0)
    user = rng.normal(0.0, 0.3, dim)
    update = RowUpdate(
        np.sort(rng.choice(items, rows, replace=False)),
        rng.normal(0.0, 0.3, (rows, dim)),
        pack_gram(np.outer(user, user)),
    )
    drawn = rng.random(uniform_count(terms))
    secret = hashlib.sha256(b"bench").digest()

    def device() -> Any:
        return make_report(terms, to_numbers(update, terms, drawn), secret)

    report = device()
    sums = [
        RunningSum(terms, server, None, best_expansion("c", terms.shape)[1])
        for server in (LEADER, HELPER)
    ]
    shares = [report.leader, report.helper]
    looked = [
        one.look(KEY, report.id, report.public, share)
        for one, share in zip(sums, shares, strict=True)
    ]
    assert accepts(terms, looked[0].seen, looked[1].seen, looked[1].joint)
    found: dict[str, Any] = {
        "items": items, "k": dim, "rows": rows,
        "slots": terms.shape.layout.slots, "positions": terms.shape.layout.size,
        "upload_bytes": public_bytes(terms) + leader_bytes(terms) + 81 + SEALED_HELPER_BYTES,
        "helper_bytes": public_bytes(terms) + SEALED_HELPER_BYTES + seen_bytes(terms),
        "sum_bytes": sums[0].size_bytes, "share_bytes": 4 * terms.sum_words,
        "device_ms": least(device),
    }  # fmt: skip
    for way in get_args(Way):  # the helper's look: it has its words to draw, too
        name, expand = best_expansion(way, terms.shape)
        if name == way:
            one = RunningSum(terms, HELPER, None, expand)
            look = partial(one.look, KEY, report.id, report.public, report.helper)
            found[f"server_{way}_ms"] = least(look)
    found["decide_ms"] = least(
        lambda: accepts(terms, looked[0].seen, looked[1].seen, looked[1].joint)
    )

    def close() -> None:
        noise = server_noise(terms, bytes(32), 1, {})
        made = [add_noise(one.share(), noise) for one in sums]
        join_sums(terms, made[0], made[1], 2, 1)

    found["closing_both_ms"] = least(close)
    found["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
    return found


def java(items: int, dim: int, rows: int) -> dict[str, Any]:
    """The same report in Java: milliseconds, warm and of the first one."""
    folders = [f"{module}/target/{kind}" for module in ("core", "split")
               for kind in ("classes", "test-classes")]  # fmt: skip
    path = ":".join(str(BRIDGE / folder) for folder in folders)
    command = ["java", "-cp", path, "io.fedrap.core.SplitTimes", str(items), str(dim), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return {name: found[name] for name in ("java_ms", "java_first_ms")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="up to a million items")
    parser.add_argument("--java", action="store_true", help="a report of the Java device, too")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.java:
        build = ["mvn", "-B", "-q", "-ntp", "test-compile", "-pl", "core,split"]
        subprocess.run(build, cwd=BRIDGE, check=True)
    lines = []
    for shape in FULL if arguments.full else SHORT:
        lines.append(measure(*shape) | (java(*shape) if arguments.java else {}))
        print(json.dumps(lines[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"split": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
