"""Backup, loss, restore: what was published before is never made again, and rounds go on."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import msgspec
import pytest

from fedrap import FedRap, Floor
from fedrap_coordinator.commands import run
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.http.dashboard import MONITOR
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import open_keyring
from fedrap_coordinator.settings import AdminApi
from fedrap_core.wire.authority import check_leads
from testkit.harness import LiveServer, one_cell, serve, small_settings

SETTINGS = small_settings(updates=1, separation=1)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedrap.toml").write_text("seed = 0  # all else as it is by default")


async def step(served: LiveServer, row: int) -> None:
    await (await served.player()).join(one_cell(row))
    await served.app[COORDINATOR].advance()


async def latest(served: LiveServer) -> tuple[int, int]:
    model = served.app[COORDINATOR].model
    assert model is not None
    return model.stored.version, model.stored.step


def lose_all_but(copy: Path, database: Path) -> None:
    for file in database.parent.glob(f"{database.name}*"):
        file.unlink()
    shutil.copy(copy, database)


@pytest.mark.spec("7.17")
async def test_a_backup_comes_back_and_no_step_is_made_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database, keyring = tmp_path / "fedrap.sqlite", open_keyring(tmp_path / "keys")
    async with serve(SETTINGS, str(database), keyring) as served:
        await step(served, 0)
        assert await asyncio.to_thread(run, ["backup", "copy.sqlite", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["bytes"] > 1000
        for row in (1, 2):
            await step(served, row)
        seen = await latest(served)
        assert seen == (4, 3)
    lose_all_but(Path("copy.sqlite"), database)
    assert await asyncio.to_thread(run, ["releases", "recover", "4", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": 5, "restores": 2, "step": 3}
    async with serve(SETTINGS, str(database), keyring) as served:
        assert await latest(served) == (5, 3)
        await step(served, 3)
        assert await latest(served) == (6, 4)  # never step 2 or 3 again


async def test_devices_of_before_and_after_the_backup_go_on_by_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole walk: who enrolled since heals, charges stay charged, steps never repeat."""
    settings = small_settings(updates=2, separation=1)
    settings = msgspec.structs.replace(settings, admin=AdminApi(port=0))
    floor = Floor.without_privacy(separation=1, min_updates=2)
    database, keyring = tmp_path / "fedrap.sqlite", open_keyring(tmp_path / "keys")

    async def devices(served: LiveServer, *names: str) -> list[FedRap]:
        tokens = [await served.token() for _ in names]
        return [
            await served.device(
                tmp_path / name, ["item-1", "item-2"], floor=floor, token=lambda one=one: one
            )
            for name, one in zip(names, tokens, strict=True)
        ]

    async def joined(served: LiveServer, members: list[FedRap]) -> None:
        for device in members:
            report = await device.run_round_async()
            assert report.joined, report
        await served.app[COORDINATOR].advance()

    async with serve(settings, str(database), keyring) as served:
        await joined(served, await devices(served, "old", "other"))
        assert await asyncio.to_thread(run, ["backup", "copy.sqlite"]) == 0
        capsys.readouterr()
        await joined(served, await devices(served, "new", "newer"))
        assert await latest(served) == (3, 2)
    lose_all_but(Path("copy.sqlite"), database)
    with pytest.raises(ConfigError, match="a backup came back"):
        async with serve(settings, str(database), keyring):
            pass
    assert await asyncio.to_thread(run, ["releases", "recover", "--json"]) == 0  # as the keys say
    assert json.loads(capsys.readouterr().out) == {"version": 4, "restores": 2, "step": 2}
    async with serve(settings, str(database), keyring) as served:
        for names in (("old", "new"), ("other", "newer")):
            members = await devices(served, *names)
            await joined(served, members)
            assert [one.status().rounds for one in members] == [2, 2]  # by their own ledgers
            assert [one.status().blocked_by for one in members] == [None, None]
        assert await latest(served) == (6, 4)  # steps 3 and 4
        log, _ = await served.app[COORDINATOR].store.log(0, 50)
        check_leads(log[0], log[1:])
        told = (await served.app[MONITOR].document()).health
        assert told.state == "restored"
        assert "1 made after it (3 to 3) are lost" in told.words
        assert "Steps up to 2 are not made again" in told.words


def test_keys_of_the_same_backup_do_not_guess(capsys: pytest.CaptureFixture[str]) -> None:
    async def fill() -> None:
        async with serve(SETTINGS, "fedrap.sqlite", open_keyring(Path("keys"))) as served:
            await step(served, 0)

    asyncio.run(fill())
    assert run(["releases", "recover"]) == 2
    assert "say the latest version and step" in capsys.readouterr().err


def test_recovering_less_than_is_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    async def fill() -> None:
        async with serve(SETTINGS, "fedrap.sqlite") as served:
            await step(served, 0)

    asyncio.run(fill())
    for version, at in (("1", "1"), ("2", "0")):
        assert run(["releases", "recover", version, at]) == 2
        assert "which is more" in capsys.readouterr().err
    assert run(["backup", "fedrap.sqlite"]) == 2
    assert "is there already" in capsys.readouterr().err


def test_a_copy_of_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backup", "copy.sqlite"]) == 2
    assert "there is no database" in capsys.readouterr().err


async def test_export_writes_a_task_that_others_can_read(tmp_path: Path) -> None:
    import numpy as np

    async with serve(SETTINGS, str(tmp_path / "fedrap.sqlite")) as served:
        player = await served.player()
        await player.join()
        await served.app[COORDINATOR].advance()
        assert await asyncio.to_thread(run, ["export", "out", "--json"]) == 0
        assert await asyncio.to_thread(run, ["export", "out"]) == 2  # not over something
    out = tmp_path / "out"
    common = np.load(out / "common.npy")
    head = json.loads((out / "release.json").read_text())
    assert common.shape == (head["items"], head["dim"]) == (12, 4)
    assert (out / "items.csv").read_text().splitlines()[1] == "0,item-0,0,{}"
    assert player.id.hex() not in "".join(
        path.read_text() for path in out.iterdir() if path.suffix != ".npy"
    )
    assert json.loads((out / "ledger.json").read_text())["violations"] == []
