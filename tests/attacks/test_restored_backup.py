"""An old database put back without a word: is a step published twice with the same noise?

In version 0.1 it was, unless somebody had run `releases recover`: the noise of a step follows from
the key and the step, so the difference of the two releases had none (AUC .51 -> .94).
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap import FedRap
from fedrap_coordinator.commands import run
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import Keyring, StepUsedBefore, fresh_keyring, open_keyring
from fedrap_coordinator.log_copy import PublishedBefore
from fedrap_coordinator.store.engine import copy_database
from fedrap_core.privacy.mechanisms import release_noise, task_noise_key
from fedrap_core.solve.server_step import RoundSum
from fedrap_core.wire.authority import entry_digest, sign_release
from testkit.harness import LiveServer, noting, one_cell, serve, small_settings
from tests.sdk.made import a_release

SETTINGS = small_settings(updates=1, separation=1, noise=1.0)
TASK = b"T" * 16


async def step(served: LiveServer, row: int) -> int:
    """One device takes part; the last released step."""
    await (await served.player()).join(one_cell(row))
    await served.app[COORDINATOR].advance()
    model = served.app[COORDINATOR].model
    assert model is not None
    return model.stored.step


def put_back(copy: Path, database: Path) -> None:
    for file in database.parent.glob(f"{database.name}*"):
        file.unlink()
    shutil.copy(copy, database)


async def lived(folder: Path, keyring: Keyring, behind: int) -> Path:
    """A database that lost its last steps: its copy came back."""
    database, copy = folder / "fedrap.sqlite", folder / "copy.sqlite"
    async with serve(SETTINGS, str(database), keyring) as served:
        for row in range(3):
            assert await step(served, row) == row + 1
            if row == 2 - behind:
                copy_database(f"sqlite:///{database}", copy)
    put_back(copy, database)
    return database


async def test_a_coordinator_does_not_start_on_a_database_older_than_its_keys(
    tmp_path: Path,
) -> None:
    keyring = open_keyring(tmp_path / "keys")
    database = await lived(tmp_path, keyring, behind=2)
    again = open_keyring(tmp_path / "keys")  # as a new process reads them
    with pytest.raises(ConfigError, match=r"steps up to 3.*ends with step 1.*recover"):
        async with serve(SETTINGS, str(database), again):
            pass


async def test_a_step_made_again_from_other_updates_has_another_noise(tmp_path: Path) -> None:
    """Keys and database came back together, both old: no mark can tell, so the noise must."""
    bands = msgspec.structs.replace(SETTINGS.privacy, separation=2, coefficients=(1.0, 0.5))
    for settings in (SETTINGS, msgspec.structs.replace(SETTINGS, privacy=bands)):
        sums: list[RoundSum] = []
        folder = tmp_path / f"{len(settings.privacy.coefficients)} bands"
        folder.mkdir()
        database, copy = folder / "fedrap.sqlite", folder / "copy.sqlite"
        keys, old_keys = folder / "keys", folder / "old keys"
        async with serve(settings, str(database), open_keyring(keys), learn=noting(sums)) as served:
            await step(served, 0)
            copy_database(f"sqlite:///{database}", copy)
            shutil.copytree(keys, old_keys)
            await step(served, 1)
        put_back(copy, database)
        async with serve(
            settings, str(database), open_keyring(old_keys), learn=noting(sums)
        ) as served:
            await step(served, 2)
        apart = sums[1].values - sums[2].values  # 0.1: the two cells, and no noise at all
        assert np.count_nonzero(np.abs(apart) > 1e-6) == apart.size


async def test_the_same_updates_have_the_same_noise_after_a_crash(tmp_path: Path) -> None:
    keyring = fresh_keyring()
    key = task_noise_key(keyring.noise, TASK)
    first, again, other = (
        release_noise(key, 3, 50, 1.0, (1.0, 0.5), {2: b"two", 3: made})
        for made in (b"three", b"three", b"else")
    )
    assert np.array_equal(first, again)
    assert not np.any(first == other)
    unknown = release_noise(key, 3, 50, 1.0, (1.0, 0.5), {3: b"three"})
    assert not np.any(first == unknown)  # bands reach back to what step 2 was made of


async def test_the_last_step_is_not_published_again_from_other_updates(tmp_path: Path) -> None:
    """One step behind is no crash: an entry is copied only after its release was stored."""
    keyring = open_keyring(tmp_path / "keys")
    database = await lived(tmp_path, keyring, behind=1)
    with pytest.raises(ConfigError, match=r"releases up to 4.*ends with release 3.*recover"):
        async with serve(SETTINGS, str(database), keyring):
            pass


async def test_after_recovering_steps_go_on_beyond_what_was_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedrap.toml").write_text("seed = 0  # all else as it is by default")
    keyring = open_keyring(tmp_path / "keys")
    database = await lived(tmp_path, keyring, behind=1)
    assert await asyncio.to_thread(run, ["releases", "recover", "4", "3"]) == 0
    async with serve(SETTINGS, str(database), keyring) as served:
        assert await step(served, 7) == 4


@pytest.mark.spec("9.3")
async def test_devices_follow_the_log_over_a_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries that the database lost are put back from beside the key that signed them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedrap.toml").write_text("seed = 0  # all else as it is by default")
    database, copy = tmp_path / "fedrap.sqlite", tmp_path / "copy.sqlite"
    held = {1: tmp_path / "behind", 4: tmp_path / "latest"}  # by devices, when it is lost
    async with serve(SETTINGS, str(database), open_keyring(tmp_path / "keys")) as served:
        for version in range(1, 5):
            if version in held:
                with consenting(held[version], served.url) as device:
                    await device.sync_async()
                    assert device.status().release == version
            if version == 2:
                copy_database(f"sqlite:///{database}", copy)
            if version < 4:
                await step(served, version)
    put_back(copy, database)
    assert await asyncio.to_thread(run, ["releases", "recover", "3", "3"]) != 0  # 4 was published
    assert await asyncio.to_thread(run, ["releases", "recover", "4", "3"]) == 0
    async with serve(SETTINGS, str(database), open_keyring(tmp_path / "keys")) as served:
        for folder in held.values():
            with consenting(folder, served.url) as device:
                await device.sync_async()
                assert device.status().release == 5
        assert await step(served, 7) == 4


def consenting(folder: Path, url: str) -> FedRap:
    device = FedRap.open(folder, server=url)
    device.consent(train=True, policy="test")
    return device


def test_a_version_is_published_once_with_one_c(tmp_path: Path) -> None:
    keyring = open_keyring(tmp_path)
    first, other = (
        sign_release(keyring.authority, a_release(version=2, seed=seed), bytes(32)).entry
        for seed in (1, 2)
    )
    keyring.keep_entries(TASK, [first])
    keyring.check_entry(TASK, first)  # after a crash: the same again
    with pytest.raises(PublishedBefore, match="recover 2 1"):
        keyring.check_entry(TASK, other)
    log = tmp_path / f"releases-{TASK.hex()}.log"
    assert log.stat().st_mode & 0o077 == 0
    log.write_bytes(log.read_bytes() + b"torn by a cra")
    again = open_keyring(tmp_path)
    assert again.last_entry(TASK) == first
    later = sign_release(keyring.authority, a_release(version=3), entry_digest(first)).entry
    again.keep_entries(TASK, [first, later])
    assert again.entries_after(TASK, 0) == [first, later]
    log.write_bytes(b"!\n")
    with pytest.raises(ConfigError, match="damaged"):
        again.last_entry(TASK)


def test_a_step_is_claimed_once_for_one_set_of_updates() -> None:
    keyring = fresh_keyring()
    keyring.claim_step(TASK, 1, b"a" * 32)
    keyring.claim_step(TASK, 1, b"a" * 32)  # after a crash: the same set, the same noise
    with pytest.raises(StepUsedBefore, match="recover"):
        keyring.claim_step(TASK, 1, b"b" * 32)
    keyring.claim_step(TASK, 5, b"c" * 32)
    with pytest.raises(StepUsedBefore):
        keyring.claim_step(TASK, 4, b"d" * 32)
    keyring.claim_step(b"U" * 16, 1, b"e" * 32)  # another task has its own
    assert keyring.last_step(TASK) == 5


def test_a_damaged_mark_stops_the_coordinator(tmp_path: Path) -> None:
    keyring = open_keyring(tmp_path)
    keyring.claim_step(TASK, 1, b"a" * 32)
    (tmp_path / "steps.json").write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        keyring.last_step(TASK)
