"""An item that nobody stands behind is not recommended by the SDK, and is once it has support."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap import FedRap
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.sparse import RowUpdate, pack_gram
from testkit.harness import DIM, ITEMS, LiveServer, serve, small_settings

PROMOTED = 7


def _settings() -> Settings:
    plain = small_settings(updates=4, clip=2.0, separation=1)
    privacy = msgspec.structs.replace(plain.privacy, row_clip=0.5)
    learning = msgspec.structs.replace(plain.learning, min_support=3.0)
    return msgspec.structs.replace(plain, privacy=privacy, learning=learning)


def _share(rows: list[int], size: float) -> RowUpdate:
    """A share that pushes rows along the first axis, where its user is, too."""
    values = np.zeros((len(rows), DIM))
    values[:, 0] = -size
    user = np.zeros(DIM)
    user[0] = 0.5
    return RowUpdate(np.array(rows), values, pack_gram(np.outer(user, user)))


async def _round(served: LiveServer, shares: list[RowUpdate]) -> None:
    for share in shares:
        await (await served.player()).join(share)


def _names(device: FedRap) -> set[str]:
    return {one.item for one in device.recommend(20)}


@pytest.mark.spec("7.18")
async def test_an_unsupported_item_is_not_recommended_and_is_once_it_has_support(
    tmp_path: Path,
) -> None:
    async with serve(_settings(), MemoryStore()) as served:
        device = await served.device(tmp_path / "one", [ITEMS[0]])
        await device.sync_async()
        assert ITEMS[PROMOTED] in _names(device)  # nothing was learnt: the catalogue
        honest = _share([0, 1, 2], 0.5)
        attack = _share([PROMOTED], 1e3)  # a thousand times the bound still counts one
        await _round(served, [honest, honest, honest, attack])
        await device.sync_async()
        assert device.status().release == 2
        assert _names(device) == {ITEMS[1], ITEMS[2]}
        assert ITEMS[PROMOTED] not in {item for item, _ in device.similar_items(ITEMS[0], 20)}
        await _round(served, [honest, honest, _share([1, PROMOTED], 0.5), attack])
        await device.sync_async()
        assert device.status().release == 3
        assert _names(device) == {ITEMS[1], ITEMS[2], ITEMS[PROMOTED]}
