"""Settings of the whole suite."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fedrap_coordinator.store import engine

# No deadline: the machine may be busy, and a test must fail for its promise, not for its time.
settings.register_profile(
    "fedrap", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fedrap")

# What a failing power supply would lose is not what these tests are about; a kill -9 loses nothing.
engine.SYNCHRONOUS = "NORMAL"

JAVA = Path(__file__).parent / "android"


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `-n`, a file stays in one process; so does all that needs the one Java build."""
    for item in items:
        group = JAVA if JAVA in item.path.parents else item.path
        item.add_marker(pytest.mark.xdist_group(group.name))
