"""Time and randomness come in by argument: no module of the coordinator fetches its own."""

from __future__ import annotations

import ast
from pathlib import Path

import fedrap_coordinator

ROOT = Path(fedrap_coordinator.__file__).parent
FETCHES = {"time", "random", "secrets", "uuid", "datetime"}


def _fetched(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names} & FETCHES
        elif isinstance(node, ast.ImportFrom) and node.module in FETCHES:
            found.add(node.module)
        elif isinstance(node, ast.Attribute) and node.attr == "urandom":
            found.add("os.urandom")
    return found


def test_only_the_sources_know_the_machines_clock_and_its_randomness() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in sorted(ROOT.rglob("*.py"))
        if (names := _fetched(path))
    }
    # The log and the page write down times that records have; they ask no clock.
    # A certificate has dates, of the time that the sources gave.
    assert found == {
        "admin/health.py": {"datetime"},
        "commands/helper.py": {"datetime"},
        "logs.py": {"datetime"},
        "sources.py": {"time", "random", "os.urandom"},
    }
    for name in ("admin/health.py", "logs.py", "commands/helper.py"):
        assert ".now(" not in (ROOT / name).read_text(encoding="utf-8")
