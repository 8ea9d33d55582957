"""An operator changes settings while a round is open: what its devices were promised holds."""

from __future__ import annotations

from pathlib import Path

from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
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
