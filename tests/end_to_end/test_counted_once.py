"""Device i may only touch cell i, so the sum shows who was counted, and how often."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_core.plan import PaperMethod
from fedrap_core.privacy.mechanisms import release_noise, task_noise_key
from fedrap_core.solve.server_step import RoundSum
from fedrap_core.sparse import RowUpdate, packed_size
from fedrap_core.wire.codec import encode
from testkit.harness import DIM, Player, noting, one_cell, serve, small_settings

DEVICES = 40


@pytest.fixture
def sums() -> list[RoundSum]:
    """Every sum that the coordinator learns from, as it goes into the learning step."""
    return []


def _counted(total: RoundSum, size: int) -> list[float]:
    cells = np.zeros(size)
    cells[total.rows] = total.values[:, 0]
    return [round(float(cell), 5) for cell in cells]


@pytest.mark.spec("7.8", "7.11")
async def test_concurrent_uploads_sent_three_times_each_are_counted_once_each(
    tmp_path: Path, sums: list[RoundSum]
) -> None:
    settings = small_settings(updates=DEVICES)
    items = [f"item-{row}" for row in range(DEVICES)]

    async def play(player: Player, row: int) -> None:
        offer = await player.offer()
        body = encode(player.update(offer, one_cell(row)))
        answers = await asyncio.gather(*(player.post(offer.round, body) for _ in range(3)))
        # Requests of one device may overtake each other: an older nonce is then refused, which
        # must not cost the update that came in before or after it.
        assert any(answer.status == 200 for answer in answers)
        assert all(answer.status == 200 or answer.problem == "replayed" for answer in answers)

    async with serve(
        settings, str(tmp_path / "c.sqlite"), items=items, learn=noting(sums)
    ) as served:
        players = [await served.player() for _ in range(DEVICES)]
        await asyncio.gather(*(play(player, row) for row, player in enumerate(players)))
        assert (await served.app[COORDINATOR].release(None)).version == 2
    assert len(sums) == 1
    assert sums[0].devices == DEVICES
    assert _counted(sums[0], DEVICES) == [1.0] * DEVICES


@pytest.mark.spec("7.5", "7.8")
async def test_over_several_rounds_no_cell_is_counted_twice_within_b(
    tmp_path: Path, sums: list[RoundSum]
) -> None:
    size, cohort, rounds = 12, 4, 6
    settings = small_settings(updates=cohort, separation=2, cap=6, over_selection=1.5)
    async with serve(settings, str(tmp_path / "c.sqlite"), learn=noting(sums)) as served:
        players = [await served.player() for _ in range(size)]

        async def greedy(player: Player, row: int) -> None:
            """Asks again and again, and takes part whenever it is let in."""
            for _ in range(5000):  # far more than it takes, so that a busy machine is no failure
                if len(sums) >= rounds:
                    return
                answer = await player.ask()
                if answer.status != 200:
                    await asyncio.sleep(0.005)
                    continue
                offer = player.offer_in(answer)  # asking again could be too late by now
                await player.post(offer.round, encode(player.update(offer, one_cell(row))))

        await asyncio.gather(*(greedy(player, row) for row, player in enumerate(players)))
    assert len(sums) >= rounds
    table = np.array([_counted(total, size) for total in sums])  # (rounds, devices)
    assert set(np.unique(table)) <= {0.0, 1.0}
    assert np.all(table[1:] + table[:-1] <= 1.0)  # never in two consecutive rounds
    assert table.sum(axis=0).max() <= 6
    assert np.all(table.sum(axis=1) == cohort)


@pytest.mark.spec("5.2")
async def test_an_update_above_the_clip_is_clipped_by_the_coordinator(
    tmp_path: Path, sums: list[RoundSum]
) -> None:
    settings = small_settings(updates=2, clip=2.0)
    async with serve(settings, str(tmp_path / "c.sqlite"), learn=noting(sums)) as served:
        for row, value in ((0, 1000.0), (1, 1.0)):
            await (await served.player()).join(one_cell(row, value))
    assert _counted(sums[0], 3)[:2] == pytest.approx([2.0, 1.0], abs=1e-5)


@pytest.mark.spec("5.2")
async def test_a_row_above_the_row_clip_is_clipped_by_the_coordinator(
    tmp_path: Path, sums: list[RoundSum]
) -> None:
    plain = small_settings(updates=2, clip=30.0)
    rule = msgspec.structs.replace(plain.privacy, row_clip=0.5)
    settings = msgspec.structs.replace(plain, privacy=rule)
    async with serve(settings, str(tmp_path / "c.sqlite"), learn=noting(sums)) as served:
        for row, value in ((0, 20.0), (1, 0.25)):
            await (await served.player()).join(one_cell(row, value))
    assert _counted(sums[0], 3)[:2] == pytest.approx([0.5, 0.25], abs=1e-5)


@pytest.mark.spec("5.3")
async def test_noise_reaches_every_row_and_is_the_same_for_the_same_key_and_step(
    tmp_path: Path, sums: list[RoundSum]
) -> None:
    settings = small_settings(updates=2, noise=0.5, clip=1.0)
    async with serve(settings, str(tmp_path / "c.sqlite"), learn=noting(sums)) as served:
        for row in (0, 1):
            await (await served.player()).join(one_cell(row))
        coordinator = served.app[COORDINATOR]
        key = task_noise_key(coordinator.keyring.noise, coordinator.task)
        sets = await coordinator.store.update_sets()
    total = sums[0]
    assert len(total.rows) == 12
    assert np.all(total.values != 0)
    corner = 1 + packed_size(DIM)
    drawn = release_noise(key, 1, corner + 12 * DIM, 0.5, sets=sets)
    cells = np.zeros((12, DIM))
    cells[[0, 1], 0] = 1.0
    np.testing.assert_allclose(total.values - drawn[corner:].reshape(12, DIM), cells, atol=1e-6)


@pytest.mark.spec("5.3")
async def test_the_sum_of_the_published_method_is_noised_alike(
    tmp_path: Path, sums: list[RoundSum]
) -> None:
    plain = small_settings(updates=2, noise=0.5, clip=1.0)
    bands = msgspec.structs.replace(plain.privacy, coefficients=(1.0, 0.75))
    settings = msgspec.structs.replace(plain, method=PaperMethod(dim=DIM), privacy=bands)
    async with serve(settings, str(tmp_path / "c.sqlite"), learn=noting(sums)) as served:
        for row in range(4):  # two rounds, so that the bands reach back
            await (await served.player()).join(one_cell(row))
        coordinator = served.app[COORDINATOR]
        key = task_noise_key(coordinator.keyring.noise, coordinator.task)
        sets = await coordinator.store.update_sets()
    corner = 1 + packed_size(DIM)
    for step, total in enumerate(sums, 1):
        drawn = release_noise(key, step, corner + 12 * DIM, 0.5, (1.0, 0.75), sets)
        cells = np.zeros((12, DIM))
        cells[[2 * step - 2, 2 * step - 1], 0] = 1.0
        exact = total.values - drawn[corner:].reshape(12, DIM)
        np.testing.assert_allclose(exact, cells, atol=1e-6)
    assert len(sums) == 2


async def test_an_empty_share_counts_as_a_device_and_moves_nothing(
    tmp_path: Path, sums: list[RoundSum]
) -> None:
    empty = RowUpdate(np.zeros(0, np.int64), np.zeros((0, DIM)), np.zeros(packed_size(DIM)))
    async with serve(
        small_settings(updates=2), str(tmp_path / "c.sqlite"), learn=noting(sums)
    ) as served:
        for _ in range(2):
            await (await served.player()).join(empty)
        assert (await served.app[COORDINATOR].release(None)).version == 2
    assert (sums[0].devices, len(sums[0].rows)) == (2, 0)
