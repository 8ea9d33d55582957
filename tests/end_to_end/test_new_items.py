"""New items get a release without a round: when nobody has a slot, and when the task is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrap_coordinator.domain.records import NewItem
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.store.memory import MemoryStore
from testkit.harness import ITEMS, one_cell, serve, small_settings


@pytest.mark.parametrize("over", [True, False])
async def test_new_and_retired_items_reach_devices_without_a_round(
    tmp_path: Path, over: bool
) -> None:
    settings = small_settings(updates=1, separation=1, total=1 if over else 100)
    async with serve(settings, str(tmp_path / "c.sqlite")) as served:
        coordinator = served.app[COORDINATOR]
        await coordinator.store.import_items([NewItem("item-3", {"category": "tea"})])
        await (await served.player()).join(one_cell(3))
        await coordinator.advance()
        assert coordinator.is_over is over
        before = coordinator.model
        assert before is not None
        device = await served.device(tmp_path / "device", ["item-1"])
        await device.sync_async()
        await coordinator.store.import_items([NewItem("new", {"category": "tea"})])
        await coordinator.store.retire_items(["item-5"])
        await coordinator._driver.publish_items()
        after = coordinator.model
        assert after is not None
        assert (after.stored.version, after.stored.step) == (before.stored.version + 1, 1)
        rows = after.common.items.to_float()
        assert len(rows) == len(ITEMS) + 1
        assert rows[12] == pytest.approx(rows[3], abs=0.01)
        await device.sync_async()
        assert device.status().release == after.stored.version
        listed = {one.item for one in device.recommend(20)}
        assert "item-5" not in listed
        audit = (await coordinator.store.audit_rows(0, 100))[-1].entry
        assert (audit.who, audit.action) == ("coordinator", "publish-items")
        await coordinator._driver.publish_items()
        assert coordinator.model is after  # nothing is new
        if not over:
            await (await served.player()).join(one_cell(12))
            await coordinator.advance()
            assert coordinator.model is not None
            assert coordinator.model.stored.step == 2


async def test_a_round_that_somebody_has_a_slot_in_is_not_given_up_for_items() -> None:
    async with serve(small_settings(updates=2, separation=1), MemoryStore()) as served:
        coordinator = served.app[COORDINATOR]
        player = await served.player()
        assert (await player.ask()).status == 200
        round_, model = coordinator.round, coordinator.model
        assert round_ is not None
        assert model is not None
        await coordinator.add_items(["new"])
        assert coordinator.round is not None
        assert coordinator.round.id == round_.id
        assert coordinator.model is model
