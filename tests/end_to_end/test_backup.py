"""Backup, loss, restore: what was published before is never made again, and rounds go on."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from fedrap_coordinator.commands import run
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import open_keyring
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
