"""The whole coordinator over a socket on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.sql import SqlStore
from testkit.harness import one_cell, serve, small_settings


@pytest.mark.spec("7.5", "7.6")
async def test_two_hundred_check_ins_at_once_never_break_the_ledger(database: str) -> None:
    settings = small_settings(updates=20, cap=1, separation=2, over_selection=1.5)
    store = SqlStore(database)
    async with serve(settings, store) as served:
        players = [await served.player() for _ in range(40)]
        answers = await asyncio.gather(*(p.ask() for p in players for _ in range(5)))
        given = sum(answer.status == 200 for answer in answers)
        refused = {answer.problem for answer in answers if answer.status != 200}
        assert refused <= {"no-round", "replayed"}  # five requests of a device may overtake
        round_ = served.app[COORDINATOR].round
        assert round_ is not None
        records = await store.devices(b"", 99)
        charged = sum(record.participations for record in records)
        assert round_.assigned == charged <= 30
        assert given >= charged
        assert max(record.participations for record in records) == 1
        books = await AdminActions(store, settings, Sources(lambda: 1.0), "test").ledger()
        assert (books.devices_charged, books.violations) == (charged, [])


@pytest.mark.spec("7.8", "7.14")
async def test_rounds_are_released_across_a_restart_until_the_budget_is_spent(
    database: str,
) -> None:
    settings = small_settings(updates=2, total=2, separation=1, cap=2)
    keyring = None
    async with serve(settings, SqlStore(database)) as served:
        keyring = served.app[COORDINATOR].keyring
        first, second = await served.player(), await served.player()
        await first.join(one_cell(0))
    async with serve(settings, SqlStore(database), keyring) as served:
        for player in (first, second):
            player._served = served
        await second.join(one_cell(1))  # step 1 is released
        for player in (first, second):
            await player.join(one_cell(2))
        assert (await served.app[COORDINATOR].release(None)).version == 3
        assert served.app[COORDINATOR].round is None
        answer = await first.ask()
        assert (answer.status, answer.problem) == (403, "task-over")
    async with serve(settings, SqlStore(database), keyring) as served:
        first._served = served
        assert (await first.ask()).problem == "task-over"  # a restart opens no other round
