"""Settings of the whole suite."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fedrap_coordinator.store import engine
from testkit.postgres import postgres_url

# No deadline: the machine may be busy, and a test must fail for its promise, not for its time.
settings.register_profile(
    "fedrap", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fedrap")

# What a failing power supply would lose is not what these tests are about; a kill -9 loses nothing.
engine.SYNCHRONOUS = "NORMAL"

# Loggers that `serve` of coordinator and helper sends to stderr, and nowhere else.
CONFIGURED = ("fedrap_coordinator", "fedrap_aggregator", "aiohttp.server")

# The longest files, longest first: whoever runs files side by side begins with them, so that none
# of them is left over at the end, when the other cores have nothing to do.
LONG = (
    "test_conformance.py", "test_reproduce.py", "test_scenarios_run.py", "test_process.py",
    "test_fault_walk.py", "methods/test_contract.py", "test_accountants.py", "test_stores_agree.py",
    "evaluation/test_runner.py", "test_solve_engine.py", "test_canary_audit.py", "test_fork.py",
    "test_idle_sockets.py", "test_compute.py", "test_paper_methods.py", "test_demo.py",
    "test_operator_page.py", "test_kill.py", "test_three_processes.py", "test_databases_fail.py",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="only the tests of `make soak`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = bool(config.getoption("--long"))
    others = [item for item in items if ("long" in item.keywords) != wanted]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if ("long" in item.keywords) == wanted]

    def place(item: pytest.Item) -> int:
        path = item.path.as_posix()
        return next((at for at, name in enumerate(LONG) if path.endswith(f"/{name}")), len(LONG))

    items.sort(key=place)


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """What a command of a test does to the logs of its process is over with that test."""
    loggers = [logging.getLogger(name) for name in CONFIGURED]
    before = [(one.handlers[:], one.level, one.propagate) for one in loggers]
    yield
    for one, (handlers, level, propagate) in zip(loggers, before, strict=True):
        one.handlers[:], one.level, one.propagate = handlers, level, propagate


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    return postgres_url()
