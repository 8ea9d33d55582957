"""Rounds of two servers from end to end: real devices, a real coordinator, a real helper."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import numpy as np
import pytest

from fedrap import FedRap, Floor
from fedrap_aggregator.cli import main as aggregator
from fedrap_coordinator.app import create_app, usual_aggregator
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import Keyring, fresh_keyring
from fedrap_coordinator.settings import Settings, SplitSettings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.protocol import Store
from fedrap_core.plan import Adapt, Privacy, SequenceMethod, SolveMethod, TrendMethod
from fedrap_core.sequence.server_step import SequenceLearning
from fedrap_core.solve.server_step import RoundSum
from fedrap_simulation.scenarios.helper_process import helper_process
from testkit.harness import DIM, ITEMS, LiveServer, noting, serve, serve_app, small_settings
from testkit.pair import LocalHelper, with_split

HISTORIES = [ITEMS[:4], ITEMS[3:8], ITEMS[6:11]]


@asynccontextmanager
async def serve_pair(
    settings: Settings,
    helper: LocalHelper,
    store: Store | None = None,
    keyring: Keyring | None = None,
    sums: list[RoundSum] | None = None,
) -> AsyncIterator[LiveServer]:
    ring = keyring or fresh_keyring()
    settings = with_split(settings, helper.identity)
    app = create_app(
        settings, store or MemoryStore(), ring,
        aggregator=usual_aggregator(settings, ring, helper), learn=noting(sums or []),
    )  # fmt: skip
    async with serve_app(app) as served:
        yield served


async def split_device(live: LiveServer, folder: Path, items: list[str], pin: str) -> FedRap:
    return await live.device(folder, items, aggregation="split", helper=pin)


@pytest.fixture
def helper(tmp_path: Path) -> Any:
    made = LocalHelper(tmp_path / "helper")
    yield made
    made.close()


async def run(device: FedRap) -> Any:
    return await device.run_round_async()


async def test_a_round_of_two_servers_learns_what_one_server_learns(
    tmp_path: Path, helper: LocalHelper
) -> None:
    """Same devices, same C: both sums are those of the devices, up to rounding."""
    rows: list[np.ndarray] = []
    grams: list[np.ndarray] = []
    settings = small_settings(updates=3, total=1, clip=30.0)
    for mode in ("sealed", "split"):
        sums: list[RoundSum] = []
        options = {} if mode == "sealed" else {"aggregation": "split", "helper": helper.identity}
        ring = fresh_keyring()
        if mode == "split":
            settings = with_split(settings, helper.identity)
        app = create_app(
            settings, MemoryStore(), ring,
            aggregator=usual_aggregator(settings, ring, helper), learn=noting(sums),
        )  # fmt: skip
        async with serve_app(app) as live:
            for number, items in enumerate(HISTORIES):
                device = await live.device(tmp_path / f"{mode}{number}", items, **options)
                report = await run(device)
                assert report.joined, report
        (total,) = sums
        dense = np.zeros((len(ITEMS), DIM))
        dense[total.rows] = total.values
        rows.append(dense)
        grams.append(total.packed_gram)
        assert total.devices == 3
    step = 30.0 * 0.2 / 31
    assert np.abs(rows[0] - rows[1]).max() < 4 * step  # of three devices, each by one step
    assert np.abs(grams[0] - grams[1]).max() < 4 * step
    assert np.abs(rows[0]).max() > 4 * step  # there was something to learn


@pytest.mark.spec("13.1")
async def test_an_app_that_demands_two_servers_refuses_one_and_the_other_way_round(
    tmp_path: Path, helper: LocalHelper
) -> None:
    async with serve(small_settings(updates=2), MemoryStore()) as live:
        device = await split_device(live, tmp_path / "a", ITEMS[:3], helper.identity)
        assert (await run(device)).blocked_by == "another-aggregation"
        assert device.status().pending == 0
    async with serve_pair(small_settings(updates=2), helper) as live:
        device = await live.device(tmp_path / "b", ITEMS[:3])
        assert (await run(device)).blocked_by == "another-aggregation"
        other = LocalHelper(tmp_path / "other")
        device = await split_device(live, tmp_path / "c", ITEMS[:3], other.identity)
        assert (await run(device)).blocked_by == "another-helper"
        assert device.status().rounds == 0
        other.close()


async def test_status_and_statement_say_which_mode_this_is(
    tmp_path: Path, helper: LocalHelper
) -> None:
    settings = small_settings(updates=2, noise=2.0, cap=4)
    async with serve_pair(settings, helper) as live:
        floor = Floor(min_updates=2)
        device = await live.device(
            tmp_path / "a", ITEMS[:3], aggregation="split", helper=helper.identity, floor=floor
        )
        status = device.status()
        assert (status.aggregation, status.helper) == ("split", helper.identity)
        assert status.experimental
        async with live.session.get(live.url + "/v1/privacy") as answer:
            stated = json.loads(await answer.read())
    assert stated["mode"] == "split"
    assert "outside review" in stated["experimental"]
    against = stated["against"]
    asked = stated["questions"]["against"]  # of answers, which are noised by each server too
    assert (
        asked["leader"] == asked["helper"] == stated["questions"]["epsilon"] > asked["public"] > 0
    )
    assert against["leader"] == against["helper"] == pytest.approx(stated["epsilon"])
    assert against["public"] < 0.75 * against["leader"]
    assert any("not to collude" in one["with_what"] for one in stated["trusted"])


async def test_all_parts_are_summed_and_the_clip_adapts(
    tmp_path: Path, helper: LocalHelper
) -> None:
    part = SequenceMethod(dim=3, targets=4, longest=10, scale=2.0)
    settings = msgspec.structs.replace(
        small_settings(updates=2, total=2),
        method=SolveMethod(dim=DIM, sequence=part, trend=TrendMethod()),
        privacy=Privacy(clip=5.0, adapt=Adapt(quantile=0.5, rate=0.5), cap=5, separation=1),
        sequence=SequenceLearning(spread=1.0),  # kernels that rounding cannot make all zeros
    )
    sums: list[RoundSum] = []
    ring = fresh_keyring()
    settings = with_split(settings, helper.identity)
    app = create_app(
        settings, MemoryStore(), ring,
        aggregator=usual_aggregator(settings, ring, helper), learn=noting(sums),
    )  # fmt: skip
    async with serve_app(app) as live:
        devices = [
            await split_device(live, tmp_path / str(n), HISTORIES[n], helper.identity)
            for n in range(2)
        ]
        for device in devices:
            assert (await run(device)).joined
        async with live.session.get(live.url + "/v1/releases/latest") as answer:
            assert answer.status == 200
    (total, *_) = sums
    inputs, outputs, kernels = total.parts
    assert total.lately is not None
    assert len(total.lately.rows)
    assert total.lately.values.min() >= 0.0
    assert len(inputs.rows)
    assert len(outputs.rows)
    assert kernels.values.any()
    assert total.packed_gram.any()


async def test_a_helper_that_is_away_is_waited_for(tmp_path: Path, helper: LocalHelper) -> None:
    """No round opens without it; one that is open collects; its sum is made when it is back."""
    sums: list[RoundSum] = []
    helper.faults = ["cut"]
    now = [0.0]
    ring, store = fresh_keyring(), MemoryStore()
    settings = with_split(small_settings(updates=2, total=1), helper.identity)
    app = create_app(
        settings, store, ring, Sources(monotonic=lambda: now[0]),
        aggregator=usual_aggregator(settings, ring, helper), learn=noting(sums),
    )  # fmt: skip
    async with serve_app(app) as live:
        coordinator = live.app[COORDINATOR]
        await coordinator.advance()
        assert coordinator.round is None
        assert "cut" in coordinator.helper_trouble
        now[0] += 10.0
        await coordinator.advance()
        assert coordinator.round is not None
        assert coordinator.helper_trouble == ""
        devices = [
            await split_device(live, tmp_path / str(n), HISTORIES[n], helper.identity)
            for n in range(2)
        ]
        helper.faults = ["cut", "lost", "lost", "lost"]
        for device in devices:
            assert (await run(device)).joined
        for _ in range(6):
            now[0] += 10.0
            await coordinator.advance()
        assert len(sums) == 1
        assert sums[0].devices == 2


@pytest.mark.parametrize("days", [6, 8])
async def test_a_helper_may_be_away_for_a_week_and_not_for_longer(
    tmp_path: Path, helper: LocalHelper, days: int
) -> None:
    """Its sum is made when it is back; after the helper's time for it the round is given up."""
    sums: list[RoundSum] = []
    wall, now = [time.time()], [0.0]
    helper.clock = lambda: wall[0]
    helper.start()
    ring, store = fresh_keyring(), MemoryStore()
    settings = with_split(small_settings(updates=2, total=1), helper.identity)
    app = create_app(
        settings, store, ring, Sources(clock=lambda: wall[0], monotonic=lambda: now[0]),
        aggregator=usual_aggregator(settings, ring, helper), learn=noting(sums),
    )  # fmt: skip

    async def later(seconds: float) -> None:
        wall[0] += seconds
        now[0] += seconds
        await live.app[COORDINATOR].advance()

    async with serve_app(app) as live:
        devices = [
            await split_device(live, tmp_path / str(n), HISTORIES[n], helper.identity)
            for n in range(2)
        ]
        helper.faults = ["cut"] * 1000
        for device in devices:
            assert (await run(device)).joined
        for _ in range(4 * days):
            await later(86400.0 / 4)
        round_ = live.app[COORDINATOR].round
        assert round_ is not None
        assert round_.step == 1
        assert not sums
        helper.start()  # all that it knows comes from its disk
        helper.faults = []
        await asyncio.to_thread(helper.rounds.tidy)
        await later(10.0)
        await later(10.0)
        assert len(sums) == (days < 7)
        after = live.app[COORDINATOR].round
        assert (after is not None and after.id != round_.id) == (days > 7)  # the step, once more


async def test_two_processes_over_tls_survive_a_kill_of_the_helper(tmp_path: Path) -> None:
    """The helper as the docs set it up: `init`, both certificates, `serve`; kill -9 in between."""
    with helper_process(tmp_path) as helper:
        settings = msgspec.structs.replace(
            small_settings(updates=2, total=2, separation=1),
            split=SplitSettings(helper=helper.server(), rows=8),
        )
        sums: list[RoundSum] = []
        async with serve(settings, str(tmp_path / "db.sqlite"), learn=noting(sums)) as live:
            coordinator = live.app[COORDINATOR]
            devices = [
                await split_device(live, tmp_path / str(n), HISTORIES[n], helper.identity)
                for n in range(2)
            ]
            assert (await run(devices[0])).joined
            await asyncio.to_thread(helper.kill)
            assert (await run(devices[1])).joined  # devices do not notice
            assert not sums
            assert coordinator.helper_trouble
            await asyncio.to_thread(helper.start)
            async with asyncio.timeout(60):
                while not sums:
                    await coordinator.advance()
                    await asyncio.sleep(0.2)
            assert sums[0].devices == 2
            shown = await asyncio.to_thread(helper.metrics)
            assert "fedrap_helper_closed_rounds 1" in shown
            assert 'fedrap_helper_expansion{way="numpy"} 1' in shown  # so small: not worth C
            # nobody but the leader is answered
            async with aiohttp.ClientSession() as stranger:
                with pytest.raises(aiohttp.ClientError):
                    await stranger.post(f"https://127.0.0.1:{helper.port}/v1/rounds", ssl=False)
        for command in (["status"], ["status", "--json"], ["check-config"]):
            assert aggregator([*command, "--config", str(tmp_path / "helper.toml")]) == 0
        log = (tmp_path / "helper.log").read_text("utf-8").splitlines()
        assert all(json.loads(line)["event"] for line in log)
