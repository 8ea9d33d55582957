"""A device in Java learns a successor beside the release in use, and moves to it by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedrap_coordinator.http.device_api import COORDINATOR
from testkit.harness import DIM, ITEMS, serve
from tests.android.java_devices import JavaDevices, java_devices
from tests.end_to_end.test_questions import NO_PRIVACY
from tests.end_to_end.test_succession import KEYS, LARGER, actions, of_dim


@pytest.fixture(scope="module")
def java() -> Iterator[JavaDevices]:
    with java_devices() as devices:
        yield devices


@pytest.mark.spec("9.8")
async def test_a_java_device_moves_to_a_successor_beside_its_python_twin(
    java: JavaDevices, tmp_path: Path
) -> None:
    path = str(tmp_path / "c.sqlite")
    folder, items = tmp_path / "java", list(ITEMS[:3])
    for dim in (DIM, LARGER):
        async with serve(of_dim(dim), path, KEYS) as served:
            coordinator = served.app[COORDINATOR]
            await coordinator.advance()
            twin = await served.device(
                tmp_path / "python", items if dim == DIM else [], floor=NO_PRIVACY
            )
            if dim == DIM:
                await java.device("moves", folder, served.url, await served.token(), items)
            else:
                await java.do("moves", "close")
                await java.do("moves", "open", folder=str(folder), server=served.url, token=None)
                await java.do("moves", "sync")
            if dim == LARGER:  # a round of others: the Java device rests for one
                other = await served.device(tmp_path / "other", items, floor=NO_PRIVACY)
                for device in (twin, other):
                    assert (await device.run_round_async()).joined
                await coordinator.advance()
            before = await java.do("moves", "recommend", n=3)
            assert (await twin.run_round_async()).joined
            report = await java.run("moves")
            assert report["joined"], report
            await coordinator.advance()
            if dim == DIM:
                await actions(served, of_dim(LARGER)).begin_successor()
                continue
            assert (await java.status("moves"))["release"] == 2
            assert await java.do("moves", "recommend", n=3) == before
            await actions(served, of_dim(LARGER)).promote()
            await coordinator.advance()
            await java.do("moves", "sync")
            assert coordinator.model is not None
            assert coordinator.model.common.dim == LARGER
            status = await java.status("moves")
            assert status["release"] == coordinator.model.stored.version
            assert status["rounds"] == 2
            assert await java.do("moves", "recommend", n=3)
            await java.do("moves", "close")
