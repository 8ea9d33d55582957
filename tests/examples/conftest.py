"""A real coordinator for the examples, in a thread, as another machine would be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from testkit.harness import Address, running


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
