"""kill -9 at every write and at every transition, on both databases, in a real process.

The short form stops at each point once, midway; `make soak` has the long one.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from testkit.crash_host import Fault, Running, Site, start
from testkit.crash_walk import Walk, check_records, prepare, settings_for, until_released
from testkit.postgres import postgres_url

DEVICES, ROUNDS = 2, 2


def _database(kind: str, folder: Path) -> str:
    folder.mkdir()
    return f"sqlite:///{folder / 'c.sqlite'}" if kind == "sqlite" else postgres_url()


async def _walk(url: str, folder: Path, fault: Fault | None) -> tuple[Site, int]:
    """Two rounds with one death, and the books after it; how often the coordinator died."""
    site = Site(settings_for(url, DEVICES, ROUNDS), folder)
    running: list[Running] = []
    deaths = 0

    def revive() -> Running:
        nonlocal deaths
        if running and running[-1].alive:
            return running[-1]
        deaths += bool(running)
        made = start(site, fault if not deaths else None, "NORMAL")
        if made is None:  # it died before it served
            deaths += 1
            made = start(site, None, "NORMAL")
        assert made is not None
        running.append(made)
        return made

    walk = Walk(prepare(url, DEVICES), revive)
    try:
        await walk.run(ROUNDS)
        await until_released(ROUNDS, revive)
    finally:
        running[-1].kill()
    check_records(site, walk, ROUNDS)
    return site, deaths


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_kill_at_any_point_loses_nothing_and_counts_nothing_twice(
    kind: str, tmp_path: Path
) -> None:
    folder = tmp_path / "whole"
    site, deaths = await _walk(_database(kind, folder), folder, None)
    assert deaths == 0
    reached = Counter(site.trace.read_text().splitlines())
    assert {"summing", "learnt", "key chosen", "keys destroyed"} <= set(reached)
    for place, (point, times) in enumerate(reached.items()):
        folder = tmp_path / str(place)
        _, deaths = await _walk(_database(kind, folder), folder, Fault(point, (times + 1) // 2))
        assert deaths == 1, point
