"""An operator changes settings while a round is open: what its devices were promised holds."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fedrap import Floor
from fedrap_coordinator.admin.export import statement_of
from fedrap_coordinator.http.dashboard import MONITOR
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.sources import SYSTEM
from fedrap_core.privacy.accounting import gaussian_epsilon
from testkit.harness import one_cell, serve, small_settings


async def test_a_smaller_minimum_is_of_the_next_round(tmp_path: Path) -> None:
    """With the new minimum the open round would end too early, and be abandoned for nothing."""
    path, keyring = str(tmp_path / "fedrap.sqlite"), fresh_keyring()
    async with serve(small_settings(updates=2, separation=1), path, keyring) as served:
        before = served.app[COORDINATOR].round
    async with serve(small_settings(updates=1, separation=1), path, keyring) as served:
        coordinator = served.app[COORDINATOR]
        await (await served.player()).join(one_cell(0))
        await coordinator.advance()
        assert before is not None
        assert coordinator.round is not None
        assert (coordinator.round.id, coordinator.round.accepted) == (before.id, 1)
        await (await served.player()).join(one_cell(1))
        await coordinator.advance()
        assert coordinator.model is not None
        assert (coordinator.model.stored.step, coordinator.model.stored.devices) == (1, 2)
        await (await served.player()).join(one_cell(2))
        await coordinator.advance()
        assert coordinator.model.stored.devices == 1


async def test_steps_without_noise_are_without_a_guarantee_for_good(tmp_path: Path) -> None:
    """Six steps at noise 0, then six at 0.8: whoever is asked says that epsilon is unbounded."""
    path, keyring = str(tmp_path / "fedrap.sqlite"), fresh_keyring()
    open_, noised = (
        small_settings(updates=1, separation=1, noise=noise, cap=20) for noise in (0.0, 0.8)
    )
    floor = Floor.without_privacy(min_updates=1)
    async with serve(open_, path, keyring) as served:
        early = await served.player()
        device = await served.device(tmp_path / "device", ["item-1"], floor=floor)
        for _ in range(6):
            await early.join(one_cell(0))
            await served.app[COORDINATOR].advance()
        assert (await device.run_round_async()).joined
    async with serve(noised, path, keyring, change_policy=True) as served:
        assert served.app[MONITOR].gauges()["epsilon_promised"] == math.inf  # from the start on
        await (await served.player()).join(one_cell(1))  # the open round keeps its rule
        await served.app[COORDINATOR].advance()
        late = await served.player()
        for _ in range(6):
            await late.join(one_cell(1))
            await served.app[COORDINATOR].advance()
        again = await served.device(tmp_path / "device", [], floor=floor)
        assert (await again.run_round_async()).joined
        assert again.status().epsilon == math.inf
        async with served.session.get(f"{served.url}/v1/privacy") as answer:
            public = await answer.json()
        store = served.app[COORDINATOR].store
        shell = await statement_of(store, noised, SYSTEM)
        page = await served.app[MONITOR].document()
        gauges = served.app[MONITOR].gauges()
        records = {one.id: one for one in await store.devices(b"", 10)}
    for document in (public, shell, page.privacy):
        assert (document["epsilon"], document["spent"]["epsilon"]) == (None, None)
        assert "steps were made under other rules" in " ".join(document["assumptions"])
    assert (gauges["epsilon_promised"], gauges["epsilon_spent"]) == (math.inf, math.inf)
    assert records[early.id].spent == math.inf
    assert records[late.id].spent == pytest.approx(6 / 0.8**2)  # who came later has a guarantee


async def test_what_was_spent_under_one_noise_stays_under_another(tmp_path: Path) -> None:
    path, keyring = str(tmp_path / "fedrap.sqlite"), fresh_keyring()
    async with serve(
        small_settings(updates=1, separation=1, noise=1.0, cap=4), path, keyring
    ) as served:
        player = await served.player()
        for _ in range(3):
            await player.join(one_cell(0))
            await served.app[COORDINATOR].advance()
    quieter = small_settings(updates=1, separation=1, noise=2.0, cap=4)
    async with serve(quieter, path, keyring, change_policy=True) as served:
        await (await served.player()).join(one_cell(1))  # the open round keeps its rule
        await served.app[COORDINATOR].advance()
        store, rule = served.app[COORDINATOR].store, served.app[COORDINATOR].plan.privacy
        stated = await statement_of(store, quieter, SYSTEM)
    assert rule.noise == 2.0
    spent = gaussian_epsilon(math.sqrt(3.0), rule.delta)
    to_come = gaussian_epsilon(math.sqrt(3.0 + 1 / 4.0), rule.delta)
    assert stated["spent"]["epsilon"] == pytest.approx(spent)
    assert stated["epsilon"] == pytest.approx(to_come)
