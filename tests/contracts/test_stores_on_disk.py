"""What only a store with a file can promise: it outlives its process, and says when it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrap_coordinator.errors import StoreUnavailable
from fedrap_coordinator.store.sql import SqlStore
from tests.contracts.one_by_one import add_update, assign
from tests.contracts.test_stores import TASK, a_release, bodies_of, device_id, enrolled, opened


async def test_everything_survives_closing_and_opening_again(database: str) -> None:
    before, after = SqlStore(database), SqlStore(database)
    await before.open()
    await before.task_id(TASK)
    await enrolled(before, 1, 2)
    await before.use_nonce(device_id(1), 77)
    await before.add_items(["a", "b"])
    await before.retire_items(["b"])
    await before.add_release(a_release(1, 0), None)
    place = await opened(before, 1, 1)
    await assign(before, place, device_id(1), 1, 2, 3)
    await add_update(before, place, device_id(1), b"d", b"sealed", 1.0)
    expected = (await before.current_round(), await before.catalogue(0), await before.counts())
    await before.close()
    await after.open()
    try:
        assert await after.task_id(b"u" * 16) == TASK
        assert not await after.use_nonce(device_id(1), 77)
        found = (await after.current_round(), await after.catalogue(0), await after.counts())
        assert found == expected
        assert await bodies_of(after, place) == [[b"sealed"]]
        assert await assign(after, place, device_id(1), 1, 2, 3) is None
        assert await after.release(None) == a_release(1, 0)
    finally:
        await after.close()


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "mysql://host/db",
        "postgresql://127.0.0.1:1/none?connect_timeout=2",
        "sqlite:////no/such/folder/x",
        "DAMAGED",
    ],
)
async def test_a_database_that_cannot_be_used_says_so(tmp_path: Path, url: str) -> None:
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreUnavailable, match=r"database|not supported"):
        await _open_and_close(url.replace("DAMAGED", f"sqlite:///{damaged}"))


async def _open_and_close(url: str) -> None:
    store = SqlStore(url)
    try:
        await store.open()
    finally:
        await store.close()
