"""A crash between freeze, noise and release: one release, with the noise it would have had anyway.

A second draw over the same sum could be averaged with the first. The noise follows from key, task,
step and coefficients alone, so who starts again at any point makes the same release, bit by bit.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec
import numpy as np
import pytest

from fedrap_coordinator.domain.records import StoredRelease
from fedrap_coordinator.domain.rollouts import Rollout
from fedrap_coordinator.domain.rounds import Phase
from fedrap_coordinator.errors import StoreGone
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import open_keyring
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.sql import Body, SqlStore
from fedrap_core.solve.server_step import RoundSum
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Release
from fedrap_core.wire.signing import SIGNATURE_BYTES
from testkit.harness import noting, one_cell, serve, small_settings

BANDS = [(1.0,), (1.0, 0.75)]
T = TypeVar("T")
P = ParamSpec("P")
STEP = 2  # the second round, so that bands reach back to the first


class Killed(StoreGone):
    """Stands for kill -9: nothing after it runs."""


class MortalStore(SqlStore):
    """A real store whose process dies at one point of round STEP."""

    def __init__(self, url: str, dies: str) -> None:
        super().__init__(url)
        self._dies = dies
        self._rounds = 0
        self._dead = False

    def transact(self, body: Body[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        if self._dead:
            raise Killed  # dead processes do nothing more
        return super().transact(body, *args, **kwargs)

    def _die(self, point: str) -> None:
        if self._dies == point:
            self._dead = True
            raise Killed

    async def set_phase(
        self, round_id: bytes, phase: Phase, was: Phase | None = None, now: float | None = None
    ) -> bool:
        moved = await super().set_phase(round_id, phase, was, now)
        if phase is Phase.SUMMING:
            self._rounds += 1
            if self._rounds == STEP:
                self._die("after the freeze")
        return moved

    async def add_release(
        self, release: StoredRelease, round_id: bytes | None, rollout: Rollout | None = None
    ) -> None:
        if release.step == STEP:
            self._die("after the noise")
        await super().add_release(release, round_id, rollout)
        if release.step == STEP:
            self._die("after the release")


def _settings(coefficients: tuple[float, ...]) -> Settings:
    plain = small_settings(updates=2, noise=0.5, clip=1.0)
    rule = msgspec.structs.replace(plain.privacy, coefficients=coefficients)
    return msgspec.structs.replace(plain, privacy=rule)


@pytest.fixture
def sums() -> list[RoundSum]:
    """Every sum that the coordinator learns from, as it goes into the learning step."""
    return []


def _copy_disk(folder: Path) -> None:
    """Database and keys as they are at this moment, twice."""
    for copy in ("a", "b"):
        shutil.copytree(folder / "c.keys", folder / f"{copy}.keys")
        for file in folder.glob("c.sqlite*"):
            shutil.copy(file, folder / file.name.replace("c.", f"{copy}."))


def _releases(path: Path) -> list[tuple[int, int, bytes]]:
    with sqlite3.connect(path) as database:
        return database.execute("SELECT version, step, body FROM release ORDER BY step").fetchall()


@pytest.mark.parametrize("coefficients", BANDS, ids=["independent", "banded"])
@pytest.mark.parametrize("dies", ["after the freeze", "after the noise", "after the release"])
@pytest.mark.spec("5.3")
async def test_a_crash_gives_one_release_with_the_same_noise(
    tmp_path: Path, sums: list[RoundSum], dies: str, coefficients: tuple[float, ...]
) -> None:
    path, settings = tmp_path / "c.sqlite", _settings(coefficients)
    keyring = open_keyring(tmp_path / "c.keys")
    mortal = MortalStore(f"sqlite:///{path}", dies)
    async with serve(settings, mortal, keyring, learn=noting(sums)) as served:
        for row in range(3):
            await (await served.player()).join(one_cell(row))
        last = await served.player()
        offer = await last.offer()
        with pytest.raises(Killed):
            await last.post(offer.round, encode(last.update(offer, one_cell(3))))
        _copy_disk(tmp_path)
    before = len(sums)
    bodies = []
    for copy in ("a", "b"):  # started again twice: the same release both times
        keys = open_keyring(tmp_path / f"{copy}.keys")
        async with serve(
            settings, str(tmp_path / f"{copy}.sqlite"), keys, learn=noting(sums)
        ) as served:
            await served.app[COORDINATOR].advance()
        found = _releases(tmp_path / f"{copy}.sqlite")
        assert [step for _, step, _ in found] == [0, 1, STEP]
        release = decode(Release, found[-1][2])
        unsigned = release.entry[SIGNATURE_BYTES:]  # ECDSA signs with other numbers each time
        bodies.append(encode(msgspec.structs.replace(release, entry=unsigned)))
    assert bodies[0] == bodies[1]
    again = sums[before:]
    if dies == "after the release":
        assert again == []  # it was released; nothing is summed or noised a second time
        return
    assert len(again) == 2
    attempts = again + ([sums[1]] if dies == "after the noise" else [])
    for total in attempts:
        assert np.array_equal(total.values, attempts[0].values)
        assert np.array_equal(total.packed_gram, attempts[0].packed_gram)
    assert np.all(attempts[0].values != 0.0)
