"""Consecutive participation over real HTTP: refused by the server, and by the device itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from fedrap import Floor
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.memory import MemoryStore
from testkit.harness import ITEMS, Player, serve, small_settings


def _banded(separation: int) -> Settings:
    """As many bands as the separation allows: here one step too close would cost most."""
    plain = small_settings(updates=2, separation=separation, noise=1.0, clip=1.0)
    bands = tuple(0.8**lag for lag in range(separation))
    rule = msgspec.structs.replace(plain.privacy, coefficients=bands)
    return msgspec.structs.replace(plain, privacy=rule)


@pytest.mark.parametrize("separation", [2, 3, 5])
@pytest.mark.spec("7.5")
async def test_the_server_refuses_b_minus_1_steps_and_takes_b(
    separation: int, tmp_path: Path
) -> None:
    async with serve(_banded(separation), str(tmp_path / "c.sqlite")) as served:
        player, friend = await served.player(), await served.player()
        for one in (player, friend):
            await one.join()  # step 1
        for _ in range(separation - 1):  # steps 2 … b: at each of them it is too soon
            answer = await player.ask()
            assert (answer.status, answer.problem) == (409, "too-soon")
            for other in [await served.player() for _ in range(2)]:
                await other.join()
        assert (await player.offer()).step == 1 + separation


@pytest.mark.parametrize("separation", [2, 3])
@pytest.mark.spec("7.5")
async def test_the_device_refuses_b_minus_1_steps_and_takes_b_whatever_the_server_says(
    separation: int, tmp_path: Path
) -> None:
    careless = small_settings(updates=2, separation=1)
    async with serve(careless, MemoryStore()) as served:
        floor = Floor.without_privacy(separation=separation, min_updates=2)
        device = await served.device(tmp_path / "d", ITEMS[:5], floor=floor)
        assert (await device.run_round_async()).joined  # step 1
        await (await served.player()).join()
        for _ in range(separation - 1):
            refused = await device.run_round_async()
            assert (refused.joined, refused.blocked_by) == (False, "ledger-separation")
            for other in [await served.player() for _ in range(2)]:
                await other.join()
        again = await device.run_round_async()
        assert (again.joined, again.step) == (True, 1 + separation)
        assert device.status().rounds == 2


@pytest.mark.spec("7.5", "7.6")
async def test_two_hundred_check_ins_at_once_never_break_the_ledger(tmp_path: Path) -> None:
    """50 devices, each four times at once over real HTTP, in three steps, on SQLite."""
    settings = small_settings(updates=50, min_updates=25, over_selection=2.0, cap=2, separation=2)
    async with serve(settings, str(tmp_path / "c.sqlite")) as served:
        players = [await served.player() for _ in range(50)]
        store = served.app[COORDINATOR].store

        async def rush() -> list[int]:
            asked = [one.ask() for one in players for _ in range(4)]
            return [answer.status for answer in await asyncio.gather(*asked)]

        async def books() -> set[tuple[int, int | None]]:
            found = [await store.device(one.id) for one in players]
            return {(one.participations, one.last_step) for one in found if one is not None}

        async def release(members: list[Player]) -> None:
            for one in members:
                await one.join()

        statuses = await rush()
        assert statuses.count(200) >= 50  # the rest overtook each other: replayed nonces
        assert await books() == {(1, 1)}
        await release(players)  # step 1
        assert 200 not in await rush()  # step 2: too soon for everybody
        assert await books() == {(1, 1)}
        await release([await served.player() for _ in range(50)])
        await rush()  # step 3
        assert await books() == {(2, 3)}
        await release(players)
        await release([await served.player() for _ in range(50)])  # step 4
        assert 200 not in await rush()  # step 5: far enough, but K = 2
        assert await books() == {(2, 3)}
