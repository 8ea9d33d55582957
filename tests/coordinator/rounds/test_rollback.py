"""An earlier C returns: versions grow, steps and charges stay, devices follow; old bodies go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.catalogue_actions import CatalogueActions
from fedrap_coordinator.admin.documents import RolledBack
from fedrap_coordinator.domain.records import NewItem
from fedrap_coordinator.domain.rounds import Phase
from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.rounds.releases import load_model
from fedrap_coordinator.settings import Releases, Settings
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.protocol import Store
from fedrap_core.sparse import pack_gram
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Delta, Release
from fedrap_core.wire.releases import (
    MAX_RELEASE_BYTES,
    apply_delta,
    served_rows,
    unpack_release,
)
from testkit.harness import DIM, ITEMS, LiveServer, one_cell, serve, small_settings
from tests.contracts.one_by_one import round_phase

SETTINGS = small_settings(updates=1, separation=1)
KEYRING = fresh_keyring()


def catalogue_actions(store: Store, settings: Settings = SETTINGS) -> CatalogueActions:
    admin = AdminActions(store, settings, SYSTEM, "test", keyring=KEYRING)
    return CatalogueActions(admin)


async def step(served: LiveServer, row: int) -> None:
    player = await served.player()
    cell = one_cell(row)
    await player.join(replace(cell, packed_gram=pack_gram(np.eye(DIM))))
    await served.app[COORDINATOR].advance()


async def model(store: Store, version: int | None = None):  # type: ignore[no-untyped-def]
    stored = await store.release(version)
    assert stored is not None
    return load_model(stored)


@pytest.mark.spec("7.17")
async def test_an_earlier_release_returns_and_rounds_go_on_from_it() -> None:
    store = MemoryStore()
    async with serve(SETTINGS, store, KEYRING) as served:
        for row in range(3):
            await step(served, row)
        waiting = await served.player()
        offer = await waiting.offer()
        done = await catalogue_actions(store).roll_back(2)
        assert done == RolledBack(version=5, restores=2, step=3)
        await served.app[COORDINATOR].advance()
        old, back = await model(store, 2), await model(store)
        assert np.array_equal(old.common.items.values, back.common.items.values)
        assert (back.stored.gram, back.stored.step) == (old.stored.gram, 3)
        assert back.stored.support == old.stored.support is not None
        assert await round_phase(store, offer.round) is Phase.ABANDONED
        again = await waiting.offer()  # the same step, tried again: charged once
        assert (again.step, again.release) == (4, 5)
        known = await store.device(waiting.id)
        assert known is not None
        assert known.participations == 1
        late = await waiting.post(offer.round, b"")
        assert late.status >= 400
        await step(served, 4)
        assert (await model(store)).stored.step == 4
        books = await AdminActions(store, SETTINGS, SYSTEM, "test").ledger()
        assert books.violations == []


async def test_devices_follow_to_the_restored_release(tmp_path: Path) -> None:
    store = MemoryStore()
    async with serve(SETTINGS, store, KEYRING) as served:
        device = await served.device(tmp_path / "device", ITEMS[:3])
        await device.sync_async()
        for row in range(2):
            await step(served, row)
        await device.sync_async()
        assert device.status().release == 3
        await catalogue_actions(store).roll_back(1)
        await served.app[COORDINATOR].advance()
        await device.sync_async()
        assert device.status().release == 4
        answer = await (await served.player()).send("GET", "/v1/releases/latest?have=3", b"", {})
        back = (await model(store)).common
        try:
            delta = decode(Delta, answer.body, MAX_RELEASE_BYTES)
            got = apply_delta((await model(store, 3)).common, delta)
        except Exception:
            got = unpack_release(decode(Release, answer.body, MAX_RELEASE_BYTES))
        assert np.array_equal(got.items.values, back.items.values)


async def test_items_that_came_since_keep_their_rows() -> None:
    store = MemoryStore()
    async with serve(SETTINGS, store, KEYRING) as served:
        await step(served, 0)
        await catalogue_actions(store).import_items(
            [NewItem("item-0", {"category": "c"}), NewItem("new", {"category": "c"})]
        )
        await step(served, 1)
        grown = await model(store)
        assert grown.common.size == len(ITEMS) + 1
        started = grown.common.items.to_float()
        assert np.allclose(started[-1], started[0], atol=0.02)  # where its only like was
        await catalogue_actions(store).roll_back(2)
        back = await model(store)
        assert back.common.size == len(ITEMS) + 1
        assert back.message.catalogue == grown.message.catalogue


async def test_what_cannot_return_is_told_why() -> None:
    settings = msgspec.structs.replace(SETTINGS, releases=Releases(keep=2))
    store = MemoryStore()
    async with serve(settings, store, KEYRING) as served:
        for row in range(3):
            await step(served, row)
        with pytest.raises(Refusal, match="is the latest"):
            await catalogue_actions(store, settings).roll_back(4)
        with pytest.raises(Refusal, match="release 1 is not kept; kept are 3 to 4"):
            await catalogue_actions(store, settings).roll_back(1)


@pytest.mark.spec("2.5")
async def test_a_device_with_a_dropped_version_gets_the_whole() -> None:
    settings = msgspec.structs.replace(SETTINGS, releases=Releases(keep=2))
    async with serve(settings, MemoryStore()) as served:
        for row in range(3):
            await step(served, row)
        player = await served.player()
        whole = await player.send("GET", "/v1/releases/latest?have=1", b"", {})
        assert decode(Release, whole.body, MAX_RELEASE_BYTES).version == 4
        gone = await player.send("GET", "/v1/releases/1", b"", {})
        assert gone.problem == "not-found"
        kept = await player.send("GET", "/v1/releases/3", b"", {})
        assert "immutable" in kept.headers["Cache-Control"]
        same = await player.send("GET", "/v1/releases/3", b"", {"If-None-Match": '"c3"'})
        assert (same.status, same.body) == (304, b"")


async def test_what_was_withheld_stays_so_and_items_that_came_since_wait() -> None:
    learning = msgspec.structs.replace(SETTINGS.learning, min_support=0.03)
    settings = msgspec.structs.replace(SETTINGS, learning=learning)
    store = MemoryStore()
    async with serve(settings, store, KEYRING) as served:
        await step(served, 0)
        await catalogue_actions(store, settings).import_items([NewItem("new")])
        await step(served, 1)
        await catalogue_actions(store, settings).roll_back(2)
        back = await model(store)
        shown = served_rows(back.message.withheld, back.common.size)
        assert np.flatnonzero(shown).tolist() == [0]
