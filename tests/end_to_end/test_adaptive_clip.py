"""A clip that adapts, from the bit in a sealed share to the next round's plan, over real HTTP."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap import Floor
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.settings import Settings
from fedrap_core.plan import Adapt, Plan, Privacy
from fedrap_core.privacy.accounting import charged_epsilon
from fedrap_core.privacy.mechanisms import adapted_clip, release_noise, task_noise_key
from fedrap_core.sparse import RowUpdate
from fedrap_core.wire.codec import decode_value, encode_value
from testkit.harness import LiveServer, one_cell, serve, small_settings
from tests.sdk.made import PLAN, MadeCoordinator, a_device

ADAPT = Adapt(quantile=0.5, rate=0.4, noise=0.3)


def _settings(noise: float = 1.0, clip: float = 2.0, **more: object) -> Settings:
    plain = small_settings(updates=2, noise=noise, clip=clip)
    rule = msgspec.structs.replace(plain.privacy, adapt=ADAPT, **more)
    return msgspec.structs.replace(plain, privacy=rule)


def _voting(fits: int) -> RowUpdate:
    made = one_cell(0)
    return RowUpdate(made.rows, made.values, made.packed_gram, fits)


async def _clip_in_force(served: LiveServer) -> float:
    offer = await (await served.player()).offer()
    async with served.session.get(served.url + "/v1/privacy") as answer:
        stated = await answer.json()
    found = decode_value(Plan, offer.plan).privacy.clip
    assert stated["clip"] == found
    return found


@pytest.mark.parametrize(
    ("votes", "sum_of_bits"), [((1, 1), 1.0), ((-1, -1), -1.0), ((1, -1), 0.0)]
)
@pytest.mark.parametrize("coefficients", [(1.0,), (1.0, 0.75)], ids=["independent", "banded"])
@pytest.mark.spec("5.6")
async def test_the_next_clip_follows_the_noised_sum_of_the_bits(
    tmp_path: Path,
    votes: tuple[int, int],
    sum_of_bits: float,
    coefficients: tuple[float, ...],
) -> None:
    settings = _settings(coefficients=coefficients)
    async with serve(settings, str(tmp_path / "c.sqlite")) as served:
        assert await _clip_in_force(served) == 2.0
        for fits in votes:
            await (await served.player()).join(_voting(fits))
        coordinator = served.app[COORDINATOR]
        key = task_noise_key(coordinator.keyring.noise, coordinator.task)
        sets = await coordinator.store.update_sets()
        drawn = float(release_noise(key, 1, 1, ADAPT.noise, coefficients, sets)[0])
        expected = adapted_clip(2.0, ADAPT, sum_of_bits + drawn, 2)
        assert await _clip_in_force(served) == pytest.approx(expected, rel=1e-12)


@pytest.mark.spec("5.6")
async def test_the_clip_survives_a_restart_and_bounds_the_next_round(tmp_path: Path) -> None:
    path, settings = str(tmp_path / "c.sqlite"), _settings(noise=0.0)
    async with serve(settings, path) as served:
        keyring = served.app[COORDINATOR].keyring
        for _ in range(2):
            await (await served.player()).join(_voting(1))  # all fit: S shrinks
    async with serve(settings, path, keyring) as served:
        clip = await _clip_in_force(served)
        assert clip == pytest.approx(2.0 * np.exp(-0.4 * 0.5), rel=5e-3)  # three digits
        for _ in range(2):
            await (await served.player()).join(_voting(-1))
        assert await _clip_in_force(served) == pytest.approx(2.0)


async def test_a_clip_that_does_not_adapt_stays(tmp_path: Path) -> None:
    async with serve(small_settings(updates=2, clip=2.0), str(tmp_path / "c.sqlite")) as served:
        for _ in range(2):
            await (await served.player()).join(_voting(-1))
        assert await _clip_in_force(served) == 2.0


@pytest.mark.parametrize(("clip", "fits"), [(1e-3, -1), (99.0, 1)])
@pytest.mark.spec("5.2", "5.5", "5.6")
def test_a_device_clips_rows_and_whole_sends_its_bit_and_charges_all_of_it(
    tmp_path: Path, clip: float, fits: int
) -> None:
    rule = Privacy(
        clip=clip, row_clip=0.01, noise=2.0, coefficients=(1.0, 0.75), separation=2, cap=4,
        adapt=Adapt(noise=1.0),
    )  # fmt: skip
    coordinator = MadeCoordinator(plan=encode_value(msgspec.structs.replace(PLAN, privacy=rule)))
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().joined
        _, share = coordinator.opened(coordinator.sent[0][1])
        assert share.fits == fits
        assert np.all(np.linalg.norm(share.values, axis=1) <= 0.01 * 1.02)  # int8 rounding
        assert share.norm() <= clip * 1.02
        status = device.status()
        assert status.epsilon == pytest.approx(charged_epsilon(1, rule.charged_noise, rule.delta))
        assert status.epsilon > charged_epsilon(1, rule.noise, rule.delta)
        assert status.privacy is not None
        assert status.privacy.epsilon == pytest.approx(
            charged_epsilon(4, rule.charged_noise, rule.delta)
        )


@pytest.mark.parametrize(("floor", "joins"), [(1.13, True), (1.14, False), (1.9, False)])
@pytest.mark.spec("5.5")
def test_the_floor_holds_against_what_is_charged_and_not_against_z(
    tmp_path: Path, floor: float, joins: bool
) -> None:
    """z = 2 with |c| = 1.25 and a bit of noise 1 is worth 2/(1.25·sqrt 2) = 1.131."""
    rule = Privacy(noise=2.0, coefficients=(1.0, 0.75), adapt=Adapt(noise=1.0))
    coordinator = MadeCoordinator(plan=encode_value(msgspec.structs.replace(PLAN, privacy=rule)))
    with a_device(
        tmp_path, coordinator, floor=Floor.without_privacy(min_noise=floor, min_updates=2)
    ) as device:
        report = device.run_round()
        assert report.joined is joins
        assert joins or report.blocked_by == "floor-noise"
