"""Public attributes from a catalogue file to a filtered list, over a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from fedrap import FedRap
from fedrap_coordinator.domain.records import NewItem
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.settings import PublicCatalogue
from fedrap_coordinator.store.memory import MemoryStore
from testkit.harness import ITEMS, serve, small_settings


@pytest.mark.spec("11.1", "11.2", "11.3")
async def test_what_is_public_reaches_devices_and_nothing_else(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(
        small_settings(), catalogue=PublicCatalogue(public=("title", "category"))
    )
    async with serve(settings, MemoryStore()) as served:
        store = served.app[COORDINATOR].store
        shelf = ("book", "film")
        said = [
            {"title": f"T {item}", "category": shelf[row % 2], "margin": "7"}
            for row, item in enumerate(ITEMS)
        ]
        await store.import_items([NewItem(*pair) for pair in zip(ITEMS, said, strict=True)])
        with FedRap.open(tmp_path, server=served.url, fetch="anonymous", attributes=True) as device:
            await device.sync_async()
            assert device.attributes("item-3") == {"title": "T item-3", "category": "film"}
            found = await asyncio.to_thread(device.recommend, 20, filter={"category": "book"})
            assert {one.item for one in found} == set(ITEMS[::2])
            assert device.status().enrolled is False
            await store.import_items([NewItem("item-3", {"title": "Another", "category": "book"})])
            await device.sync_async()
            assert device.attributes("item-3") == {"title": "Another", "category": "book"}
        async with served.session.get(f"{served.url}/v1/attributes/{'0' * 64}") as answer:
            assert answer.status == 404
        async with served.session.get(f"{served.url}/v1/attributes/nonsense") as answer:
            assert answer.status == 400


async def test_without_the_setting_nothing_is_told(tmp_path: Path) -> None:
    async with serve(small_settings(), MemoryStore()) as served:
        await served.app[COORDINATOR].store.import_items([NewItem("item-3", {"title": "T"})])
        with FedRap.open(tmp_path, server=served.url, fetch="anonymous", attributes=True) as device:
            await device.sync_async()
            assert device.attributes("item-3") == {}
            assert device.recommend(3, filter={"title": "T"}) == []
