"""The stores that the contract suites run over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.protocol import Store
from fedrap_coordinator.store.sql import SqlStore
from testkit.postgres import postgres_url


@pytest_asyncio.fixture(params=["memory", "sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore()
    if request.param == "sqlite":
        made = SqlStore(f"sqlite:///{tmp_path / 'store.sqlite'}")
    elif request.param == "postgresql":
        made = SqlStore(postgres_url())
    await made.open()
    yield made
    await made.close()
