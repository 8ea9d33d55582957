"""Java devices beside Python ones in rounds of two servers: a real leader and a real helper."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedrap_coordinator.app import create_app, usual_aggregator
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.plan import Adapt, Privacy, SequenceMethod, SolveMethod, TrendMethod
from fedrap_core.solve.server_step import RoundSum
from testkit.harness import DIM, ITEMS, LiveServer, noting, serve_app, small_settings
from testkit.pair import LocalHelper, with_split
from tests.android.java_devices import JavaDevices, java_devices
from tests.end_to_end.test_questions import Clock
from tests.end_to_end.test_split_questions import pair, row_total

HISTORIES = [ITEMS[:4], ITEMS[3:8], ITEMS[6:11], ITEMS[2:9:2]]
CLIP, PEAK = 30.0, 0.2


@pytest.fixture(scope="module")
def java() -> Iterator[JavaDevices]:
    with java_devices() as devices:
        yield devices


@pytest.fixture
def helper(tmp_path: Path) -> Any:
    made = LocalHelper(tmp_path / "helper")
    yield made
    made.close()


async def java_device(
    java: JavaDevices, live: LiveServer, folder: Path, items: list[str], pin: str | None
) -> dict[str, Any]:
    """What a round of a Java device says that pins this helper."""
    more = {} if pin is None else {"helper": pin}
    await java.device(str(folder), folder, live.url, await live.token(), items, **more)
    return await java.run(str(folder))


async def summed(
    settings: Settings, helper: LocalHelper, folder: Path, java: JavaDevices | None, javas: int
) -> RoundSum:
    """The sum of one round in which the first devices are in Java; without `java` of one server."""
    sums: list[RoundSum] = []
    ring = fresh_keyring()
    options = {"aggregation": "split", "helper": helper.identity} if java else {}
    settings = with_split(settings, helper.identity) if java else settings
    app = create_app(
        settings, MemoryStore(), ring,
        aggregator=usual_aggregator(settings, ring, helper), learn=noting(sums),
    )  # fmt: skip
    async with serve_app(app) as live:
        for number, items in enumerate(HISTORIES):
            at = folder / str(number)
            if java is not None and number < javas:
                report = await java_device(java, live, at, items, helper.identity)
                assert report["joined"], report
            else:
                device = await live.device(at, items, **options)
                assert (await device.run_round_async()).joined
        async with asyncio.timeout(20):
            while not sums:  # a batch may still be on its way to the helper
                await live.app[COORDINATOR].advance()
                await asyncio.sleep(0.02)
    (total, *_) = sums
    assert total.devices == len(HISTORIES)
    return total


@pytest.mark.spec("13.2", "13.3", "13.7")
async def test_a_mixed_round_of_two_servers_sums_what_one_server_sums(
    java: JavaDevices, tmp_path: Path, helper: LocalHelper
) -> None:
    """Both servers found every report good, and the sum is that of the devices' own numbers."""
    settings = small_settings(updates=4, total=1, clip=CLIP)
    found = []
    for name, who, javas in (("sealed", None, 0), ("mixed", java, 2), ("java", java, 4)):
        total = await summed(settings, helper, tmp_path / name, who, javas)
        dense = np.zeros((len(ITEMS), DIM))
        dense[total.rows] = total.values
        found.append((dense, total.packed_gram))
    step = CLIP * PEAK / 31
    for rows, gram in found[1:]:
        assert np.abs(rows - found[0][0]).max() < 5 * step  # of four devices, each by one step
        assert np.abs(gram - found[0][1]).max() < 5 * step
    assert np.abs(found[0][0]).max() > 5 * step  # there was something to learn


async def test_all_parts_of_a_java_report_are_counted(
    java: JavaDevices, tmp_path: Path, helper: LocalHelper
) -> None:
    # Every part is some ten steps of the rounding, so none is zero by chance.
    part = SequenceMethod(dim=3, targets=4, longest=10, scale=5.0)
    settings = msgspec.structs.replace(
        small_settings(updates=4, total=1),
        method=SolveMethod(dim=DIM, sequence=part, trend=TrendMethod()),
        privacy=Privacy(clip=5.0, adapt=Adapt(quantile=0.5, rate=0.5), cap=5, separation=1),
    )
    total = await summed(settings, helper, tmp_path / "all", java, 2)
    inputs, outputs, kernels = total.parts
    assert len(inputs.rows)
    assert len(outputs.rows)
    assert kernels.values.any()
    assert total.packed_gram.any()


@pytest.mark.spec("13.1")
async def test_a_java_app_refuses_another_way_of_aggregation(
    java: JavaDevices, tmp_path: Path, helper: LocalHelper
) -> None:
    settings = small_settings(updates=2)
    ring = fresh_keyring()
    async with serve_app(create_app(settings, MemoryStore(), ring)) as live:
        report = await java_device(java, live, tmp_path / "a", ITEMS[:3], helper.identity)
        assert report["blocked_by"] == "another-aggregation"
    settings = with_split(settings, helper.identity)
    aggregator = usual_aggregator(settings, ring, helper)
    app = create_app(settings, MemoryStore(), ring, aggregator=aggregator)
    async with serve_app(app) as live:
        report = await java_device(java, live, tmp_path / "b", ITEMS[:3], None)
        assert report["blocked_by"] == "another-aggregation"
        other = LocalHelper(tmp_path / "other")
        report = await java_device(java, live, tmp_path / "c", ITEMS[:3], other.identity)
        assert report["blocked_by"] == "another-helper"
        other.close()
    status = await java.status(str(tmp_path / "c"))
    assert (status["aggregation"], status["helper"]) == ("split", other.identity)
    assert (status["experimental"], status["rounds"], status["pending"]) == (True, 0, 0)


@pytest.mark.spec("14.10", "14.11")
async def test_java_and_python_devices_answer_one_question_for_two_servers(
    java: JavaDevices, tmp_path: Path
) -> None:
    """Both servers count every answer, and the sum is that of what devices had to say."""
    helper = LocalHelper(tmp_path / "helper", clock=Clock())
    async with pair(tmp_path, helper, 2) as w:
        await java.do(
            "twin", "open", folder=str(tmp_path / "java"), server=w.served.url,
            token=await w.served.token(), now=w.clock.now, measure=True, helper=helper.identity,
        )  # fmt: skip
        await java.do("twin", "consent", train=True, measure=True)
        await java.record("twin", ["item-0"])
        await java.run("twin")
        await w.served.app[COORDINATOR].advance()
        await java.do("twin", "sync")
        for device in w.devices:
            await device.sync_async()
        w.clock.now += 1.0
        await java.do("twin", "clock", now=w.clock.now)
        await java.do("twin", "record", items=[["item-7", 1.0, w.clock.now]])
        asked = await w.actions.ask("ndcg")
        await w.opened()
        w.clock.now += 0.95 * 86400.0
        await java.do("twin", "clock", now=w.clock.now)
        assert await java.do("twin", "answer") == 1
        assert await java.do("twin", "answer") == 0
        assert [await device.answer_questions_async() for device in w.devices] == [1, 1]
        found = await w.ended(asked.id)
        assert (found.state, found.answers) == ("answered", 3)
        total = await row_total(w)
        assert total[0] == pytest.approx(0.75, abs=3 / 31)  # all three had something to say
        other = LocalHelper(tmp_path / "other")
        await java.do(
            "swapped", "open", folder=str(tmp_path / "swapped"), server=w.served.url,
            token=await w.served.token(), now=w.clock.now, measure=True, helper=other.identity,
        )  # fmt: skip
        await java.do("swapped", "consent", train=True, measure=True)
        await java.run("swapped")
        await w.actions.ask()
        await w.opened()
        w.clock.now += 0.95 * 86400.0
        await java.do("swapped", "clock", now=w.clock.now)
        assert await java.do("swapped", "answer") == 0
        other.close()
    helper.close()
