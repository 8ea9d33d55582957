"""Budgets that renew, over a real socket: one date to come back; K or total raised on the way."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fedrap import Floor
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.policy_actions import PolicyActions
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.plan import DAY, Privacy
from testkit.harness import serve, small_settings

START = 1_700_000_000.0
FREE = Floor.without_privacy(separation=1, min_updates=1, window_days=1.0)


@pytest.mark.spec("7.5")
async def test_a_spent_device_has_one_date_and_on_it_a_slot(tmp_path: Path) -> None:
    rule = Privacy(cap=1, separation=1, window_days=30.0)
    settings = msgspec.structs.replace(small_settings(updates=1), privacy=rule)
    now = [START]
    async with serve(settings, str(tmp_path / "c.sqlite"), clock=lambda: now[0]) as served:
        device = await served.device(
            tmp_path / "device", ["item-1"], floor=FREE, clock=lambda: now[0]
        )
        assert (await device.run_round_async()).joined
        now[0] += 10 * DAY
        told = await device.run_round_async()
        assert told.blocked_by == "budget-spent"
        assert told.retry_after is not None
        assert 20 * DAY <= told.retry_after <= 22 * DAY
        now[0] += 15 * DAY  # before its date it asks nobody
        assert (await device.run_round_async()).blocked_by == "budget-spent"
        now[0] = START + 10 * DAY + told.retry_after + 1
        assert (await device.run_round_async()).joined
        assert device.status().rounds == 2
        stated = device.status().privacy
        assert stated is not None
        assert stated.window_days == 30.0
        states = await served.app[COORDINATOR].store.device_states(3, rule, now[0])
        assert (states.spent, dict(states.charged)) == (1, {2: 1})


async def test_raising_k_or_total_shows_its_price_and_lets_everybody_on(tmp_path: Path) -> None:
    """Spent, new and merely offline devices go on, or are told exactly why not."""
    rule = Privacy(cap=1, separation=1, noise=2.0, window_days=365.0)
    settings = msgspec.structs.replace(small_settings(updates=2, total=1), privacy=rule)
    store, now = MemoryStore(), [START]
    floor = Floor(separation=1, min_updates=2, max_epsilon=3.0)
    async with serve(settings, store, clock=lambda: now[0]) as served:
        coordinator = served.app[COORDINATOR]

        async def device(name: str, floor: Floor = floor):  # type: ignore[no-untyped-def]
            return await served.device(
                tmp_path / name, ["item-1"], floor=floor, clock=lambda: now[0]
            )

        strict = await device("strict", Floor(separation=1, min_updates=2, max_epsilon=2.1))
        spent, offline = await device("spent"), await device("offline")
        for one in (spent, strict):
            assert (await one.run_round_async()).joined
        assert coordinator.is_over
        for one in (spent, offline):
            assert (await one.run_round_async()).blocked_by == "task-over"

        admin = PolicyActions(AdminActions(store, settings, Sources(lambda: now[0]), "ann"))
        asked = await admin.change({"total": 3, "cap": 2}, take=False)
        assert asked.effect[0].startswith(
            "epsilon of a device that takes part as often as it may (2 times in any 365 days) goes"
            " from 2.0 to 2.9"
        )
        assert any("2 devices that had spent" in one for one in asked.effect)
        assert any("over several such windows" in one for one in asked.effect)
        await admin.change({"total": 3, "cap": 2}, take=True)
        await coordinator.advance()
        now[0] += 20 * DAY  # devices come back on the date that they were told
        fresh = await device("fresh")
        # The floor of each says by itself whether the higher price is too high.
        assert (await strict.run_round_async()).blocked_by == "floor-epsilon"
        for one in (fresh, offline):  # a second round, then a third
            assert (await one.run_round_async()).joined
        assert (await spent.run_round_async()).joined
        assert (await (await device("another")).run_round_async()).joined
        assert coordinator.is_over
        assert spent.status().epsilon == pytest.approx(2.94, abs=0.01)


@pytest.mark.spec("7.19")
async def test_who_took_part_rests_by_its_own_ledger_and_then_has_a_slot(tmp_path: Path) -> None:
    rule = Privacy(cap=10, separation=1, spread_days=30.0)
    settings = msgspec.structs.replace(small_settings(updates=1), privacy=rule)
    now = [START]
    async with serve(settings, str(tmp_path / "c.sqlite"), clock=lambda: now[0]) as served:
        device = await served.device(
            tmp_path / "device", ["item-1"], floor=FREE, clock=lambda: now[0]
        )
        assert (await device.run_round_async()).joined
        now[0] += DAY
        report = await device.run_round_async()
        assert report.blocked_by == "told-to-wait"
        assert report.retry_after == pytest.approx(2 * DAY, abs=60)
        store = served.app[COORDINATOR].store
        assert not [one for counts in (await store.refusals(5)).values() for one in counts]
        assert (await store.device_states(3, rule, now[0])).resting == 1
        now[0] += 2 * DAY + 60
        assert (await device.run_round_async()).joined


@pytest.mark.spec("7.16")
@pytest.mark.spec("7.19")
async def test_a_device_that_comes_too_early_is_told_the_one_date(tmp_path: Path) -> None:
    rule = Privacy(cap=10, separation=1, spread_days=30.0)
    settings = msgspec.structs.replace(small_settings(updates=1), privacy=rule)
    now = [START]
    async with serve(settings, MemoryStore(), clock=lambda: now[0]) as served:
        coordinator = served.app[COORDINATOR]
        early = await served.device(tmp_path / "d", ["item-1"], floor=FREE, clock=lambda: now[0])
        assert (await early.run_round_async()).joined
        early._state._entries = ()  # one that keeps no ledger of its own
        now[0] += DAY
        told = await early.run_round_async(wait=30.0)  # not worth waiting for
        assert told.blocked_by == "too-soon"
        assert told.retry_after is not None
        assert 2 * DAY - 60 <= told.retry_after <= 2 * DAY + 60
        assert coordinator.model is not None
        now[0] += told.retry_after + 1
        assert (await early.run_round_async()).joined
