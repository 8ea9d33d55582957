"""Rounds of a coordinator that is killed again and again, at random; its records must hold.

Devices that do not give up take part in every round while the process dies by kill -9 at a random
fault point: before or after a commit, or between two steps of a round. At the end what devices were
told is held against the database and against every sum that was made.

    python benchmarks/soak_kills.py [--rounds 10000] [--seed 0]     # half of them on each database
    python benchmarks/soak_kills.py --database sqlite               # all of them on one
    python benchmarks/soak_kills.py --walk                          # every point once, in order
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from empty_databases import databases

from testkit.crash_host import Fault, Running, Site, start
from testkit.crash_walk import Walk, check_records, prepare, settings_for, until_released

DEVICES = 3
LAST = 4  # points that may be reached after the last release, when nobody watches any more
LONGEST = 200  # fault points that a process may live for


class Reviver:
    """Gives a coordinator that lives; each dies where `next_fault` says."""

    def __init__(self, site: Site, next_fault: Callable[[], Fault | None]) -> None:
        self._site = site
        self._next_fault = next_fault
        self._running: Running | None = None
        self.deaths = 0

    def __call__(self) -> Running:
        while self._running is None or not self._running.alive:
            self.deaths += self._running is not None
            # What a process wrote outlives its kill -9, on the disk or not: no need to wait for it.
            self._running = start(self._site, self._next_fault(), synchronous="OFF")
            self.deaths += self._running is None
        return self._running

    def close(self) -> None:
        if self._running is not None:
            self._running.kill()


def soak(url: str, folder: Path, rounds: int, next_fault: Callable[[], Fault | None]) -> int:
    """Run, check the records, and say how often the coordinator died."""
    site = Site(settings_for(url, DEVICES, rounds), folder)
    revive = Reviver(site, next_fault)
    walk = Walk(prepare(url, DEVICES), revive)

    async def run() -> None:
        await walk.run(rounds)
        await until_released(rounds, revive)

    try:
        asyncio.run(run())
    finally:
        revive.close()
    check_records(site, walk, rounds)
    return revive.deaths


def walk_all(fresh: Callable[[], str], folder: Path) -> int:
    """Stop at every point that two rounds reach, each in a run of its own."""
    (folder / "whole").mkdir()
    soak(fresh(), folder / "whole", 2, lambda: None)
    points = len((folder / "whole" / "trace").read_text().splitlines())
    for nth in range(1, points + 1):
        own = folder / str(nth)
        own.mkdir()
        faults = iter([Fault(None, nth)])
        deaths = soak(fresh(), own, 2, lambda faults=faults: next(faults, None))  # type: ignore[misc]
        if deaths != 1 and nth <= points - LAST:
            raise AssertionError(f"the coordinator did not die at point {nth}")
    return points


def main() -> int:
    """One JSON line a database; 1 when the records do not hold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--walk", action="store_true", help="every point once, in order")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), help="only this one")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="fedrap-soak-") as name:
        folder = Path(name)
        with databases(folder) as kinds:
            chosen = {k: v for k, v in kinds.items() if arguments.database in (None, k)}
            for kind, fresh in chosen.items():
                chance, begun = random.Random(arguments.seed), time.monotonic()
                own = folder / kind
                own.mkdir()
                rounds = max(1, arguments.rounds // len(chosen))
                line: dict[str, object] = {"database": kind, "seed": arguments.seed}
                try:
                    if arguments.walk:
                        line["points"] = walk_all(fresh, own)
                    else:
                        line["rounds"] = rounds
                        line["deaths"] = soak(
                            fresh(), own, rounds,
                            lambda chance=chance: Fault(None, chance.randint(1, LONGEST)),  # type: ignore[misc]
                        )  # fmt: skip
                    line["holds"] = True
                except AssertionError as error:
                    failed += 1
                    line |= {"holds": False, "broken": str(error)[:500]}
                line["seconds"] = round(time.monotonic() - begun, 1)
                print(json.dumps(line), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
