"""A Java device of one of several tasks: its coordinator's address ends in a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrap_coordinator.http.device_api import COORDINATOR
from testkit.harness import ITEMS, small_settings
from testkit.several import serve_several, settings_of_tasks
from tests.android.java_devices import java_devices


@pytest.mark.spec("2.8")
async def test_a_java_device_takes_part_beside_its_python_twin(tmp_path: Path) -> None:
    wanted = {name: small_settings(updates=2) for name in ("main", "music")}
    settings = settings_of_tasks(wanted, f"sqlite:///{tmp_path / 'c.sqlite'}", tmp_path / "keys")
    async with serve_several(settings) as several:
        main, music = several.tasks["main"], several.tasks["music"]
        with java_devices() as java:
            for name, address in (("a", music.url), ("slash", music.url + "/")):
                folder = tmp_path / name
                await java.device(name, folder, address, await music.token(), ITEMS[:4])
            twin = await music.device(tmp_path / "python", ITEMS[:4])
            assert (await twin.run_round_async()).joined
            report = await java.run("a")
            assert report["joined"], report
            await music.app[COORDINATOR].advance()
            await java.do("a", "sync")
            assert (await java.status("a"))["release"] == 2
            report = await java.run("slash")
            assert report["joined"], report
            elsewhere = tmp_path / "elsewhere"
            await java.device("other", elsewhere, main.url, await music.token(), ITEMS[:4])
            assert not (await java.run("other"))["joined"]
        counts = [(await one.app[COORDINATOR].store.counts()).devices for one in (main, music)]
        assert counts == [0, 3]
