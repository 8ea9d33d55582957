"""A real coordinator for the examples, in a thread, as another machine would be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from fedrap_coordinator.store.memory import MemoryStore
from tests.harness import serve, small_settings


@dataclass(frozen=True)
class Address:
    """Where a coordinator is, and tokens for it."""

    url: str
    tokens: list[str]


@contextmanager
def running(items: list[str]) -> Iterator[Address]:
    """A coordinator with these items; two updates make a release."""
    ready: list[Address] = []
    started, over = threading.Event(), threading.Event()

    async def run() -> None:
        async with serve(small_settings(updates=2), MemoryStore(), items=items) as served:
            ready.append(Address(served.url, [await served.token() for _ in range(8)]))
            started.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert started.wait(20)
        yield ready[0]
    finally:
        over.set()
        thread.join(20)


@pytest.fixture
def coordinator_with() -> Iterator[Callable[[list[str]], Address]]:
    """Starts a coordinator with the given items; all end with the test."""
    with ExitStack() as stack:
        yield lambda items: stack.enter_context(running(items))


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a server named, examples use the one in memory."""
    for name in ("FEDRAP_SERVER", "FEDRAP_TOKEN", "FEDRAP_TOKENS"):
        monkeypatch.delenv(name, raising=False)
