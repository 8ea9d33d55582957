"""The pair as three real processes and more: kill -9 of leader and helper, at every step of a sum.

The leader dies before and after each call of the helper (so that answers are lost, and asked for
again by another process), and at its own fault points; the helper while it is asked. Each step is
summed from one set, everybody counts once in it, and what was accepted is never lost.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedrap_simulation.scenarios.helper_process import HelperProcess, helper_process
from testkit.crash_host import Fault, Running, Site, start
from testkit.crash_walk import (
    Walk,
    check_records,
    prepare,
    settings_for,
    two_servers,
    until_released,
)
from testkit.postgres import postgres_url
from tests.faults.test_three_processes import DEVICES as MANY
from tests.faults.test_three_processes import ROUNDS as STEPS
from tests.faults.test_three_processes import Balancer, Field, _check, _settings

DEVICES, ROUNDS = 2, 1
VERBS = ("round", "batch", "close")
AROUND = [f"helper {what}: {verb}" for verb in VERBS for what in ("asked", "answered")]
INSIDE = ["summing", "summed", "learnt", "step claimed"]


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HelperProcess]:
    with helper_process(tmp_path_factory.mktemp("helper")) as made:
        yield made


def closed_sets(helper: HelperProcess) -> list[tuple[bytes, int, int]]:
    """Task, step and count of all that the helper ever summed."""
    db = sqlite3.connect(helper.folder / "helper.sqlite")
    try:
        return list(db.execute("SELECT task, step, count FROM closed"))
    finally:
        db.close()


async def walk_once(
    url: str, folder: Path, helper: HelperProcess, fault: Fault | None, kill_helper: str = ""
) -> int:
    """One round with a death, and the records after it; how often the leader died."""
    before = len(closed_sets(helper))
    site = Site(two_servers(settings_for(url, DEVICES, ROUNDS), helper.server()), folder)
    running: list[Running] = []
    deaths = 0

    def revive() -> Running:
        nonlocal deaths
        if running and running[-1].alive:
            return running[-1]
        deaths += bool(running)
        made = start(site, fault if not deaths else None, "NORMAL")
        if made is None:
            deaths += 1
            made = start(site, None, "NORMAL")
        assert made is not None
        running.append(made)
        return made

    async def kill_the_helper() -> None:
        while not (site.trace.exists() and kill_helper in site.trace.read_text()):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        helper.kill()
        await asyncio.sleep(0.2)  # the leader finds nobody
        await asyncio.to_thread(helper.start)

    walk = Walk(prepare(url, DEVICES, split=True), revive)

    async def play() -> None:
        await walk.run(ROUNDS)
        await until_released(ROUNDS, revive)

    try:
        async with asyncio.timeout(120):
            await asyncio.gather(play(), *([kill_the_helper()] if kill_helper else []))
    finally:
        running[-1].kill()
    check_records(site, walk, ROUNDS)
    fresh = closed_sets(helper)[before:]
    assert [(step, count) for _, step, count in fresh] == [(1, DEVICES)]  # one set for the step
    return deaths


async def test_a_leader_that_is_killed_around_any_call_of_the_helper_counts_everybody_once(
    tmp_path: Path, helper: HelperProcess
) -> None:
    for number, point in enumerate(AROUND):
        folder = tmp_path / str(number)
        folder.mkdir()
        url = f"sqlite:///{folder / 'c.sqlite'}"
        assert await walk_once(url, folder, helper, Fault(point, 1)) == 1, point


async def test_a_helper_that_is_killed_while_it_is_asked_goes_on_where_it_was(
    tmp_path: Path, helper: HelperProcess
) -> None:
    for verb in ("batch", "close"):
        folder = tmp_path / verb
        folder.mkdir()
        url = f"sqlite:///{folder / 'c.sqlite'}"
        assert await walk_once(url, folder, helper, None, f"helper asked: {verb}") == 0


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_the_pair_outlives_a_kill_of_either_or_both_at_any_step(
    tmp_path: Path, helper: HelperProcess, kind: str
) -> None:
    cases = [(Fault(point, 1), "") for point in (*AROUND, *INSIDE)]
    cases += [(Fault(point, 1), f"helper asked: {verb}")
              for point in INSIDE for verb in ("batch", "close")]  # fmt: skip
    for number, (fault, kill_helper) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        url = f"sqlite:///{folder / 'c.sqlite'}" if kind == "sqlite" else postgres_url()
        assert await walk_once(url, folder, helper, fault, kill_helper) == 1, fault


@pytest.mark.long
async def test_three_processes_lead_one_pair_and_one_of_them_dies(
    tmp_path: Path, helper: HelperProcess
) -> None:
    url = postgres_url()
    site = Site(two_servers(_settings(url), helper.server()), tmp_path)
    devices = prepare(url, MANY, split=True)
    processes = [made for _ in range(3) if (made := start(site)) is not None]
    assert len(processes) == 3
    scene = Field(Balancer(processes))

    async def kill_one() -> None:
        while len(scene.accepted) < 16 * 5 // 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await asyncio.to_thread(processes[0].kill)

    try:
        async with asyncio.timeout(600):
            await asyncio.gather(kill_one(), *(scene.play(device) for device in devices))
        assert [one.alive for one in processes] == [False, True, True]
    finally:
        scene.over = True
        for one in processes:
            one.kill()
    _check(site, scene)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=[] if point.endswith("answered: batch") else pytest.mark.long)
        for point in (*AROUND, *INSIDE)
    ],
)
async def test_of_two_processes_the_one_that_talks_to_the_helper_dies_and_the_other_goes_on(
    tmp_path: Path, helper: HelperProcess, point: str
) -> None:
    """Between calls of the helper, over one database: each step from one set, everybody once."""
    before = len(closed_sets(helper))
    site = Site(two_servers(_settings(postgres_url()), helper.server()), tmp_path)
    devices = prepare(site.settings.database, MANY, split=True)
    fault = Fault(point, 2, one=True)
    processes = [made for _ in range(2) if (made := start(site, fault)) is not None]
    assert len(processes) == 2
    scene = Field(Balancer(processes))
    try:
        async with asyncio.timeout(600):
            await asyncio.gather(*(scene.play(device) for device in devices))
        assert sorted(one.alive for one in processes) == [False, True]
    finally:
        scene.over = True
        for one in processes:
            one.kill()
    _check(site, scene)
    fresh = closed_sets(helper)[before:]
    counted = Counter(round_id for round_id, _ in scene.accepted)
    assert [step for _, step, _ in fresh] == list(range(1, STEPS + 1))
    assert sorted(count for _, _, count in fresh) == sorted(counted.values())
