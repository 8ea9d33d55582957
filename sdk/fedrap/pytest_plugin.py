"""Fixtures for the tests of an app. Asked for by name, in its conftest.py:

    pytest_plugins = ["fedrap.pytest_plugin"]

Not an entry point: pytest would then import the SDK in every run on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedrap import FedRap
from fedrap.testing import FakeCoordinator

ITEMS = [f"item-{number}" for number in range(20)]


@pytest.fixture
def fedrap_items() -> list[str]:
    """The catalogue of `fake_coordinator`; override it with your own items."""
    return list(ITEMS)


@pytest.fixture
def fake_coordinator(fedrap_items: list[str]) -> FakeCoordinator:
    """A coordinator in memory; each five items in a row are alike."""
    return FakeCoordinator(fedrap_items)


@pytest.fixture
def fedrap_device(fake_coordinator: FakeCoordinator, tmp_path: Path) -> Iterator[FedRap]:
    """A device that consented and has a release, with an empty history."""
    with FedRap.open(tmp_path / "fedrap", transport=fake_coordinator, token="test") as device:
        device.consent(train=True, policy="test")
        device.sync()
        yield device
