"""The dashboard has words for every problem that there is, and is made of its own files alone."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from fedrap_core.wire import problems


def test_the_dashboard_translates_exactly_the_problems_of_the_wire() -> None:
    words = resources.files("fedrap_coordinator.http").joinpath("static", "words.js").read_text()
    table = words.partition("const REASONS = {")[2].partition("};")[0]
    found = re.findall(r'^  "([a-z-]+)": "[^"]+",$', table, flags=re.MULTILINE)
    assert len(found) == len(set(found)) == table.strip().count("\n") + 1
    assert set(found) == set(problems.ALL)


def test_the_dashboard_is_free_of_npm() -> None:
    """No package is installed, fetched or built into it."""
    root = Path(__file__).parents[3]
    assert not [*root.glob("package*.json"), *root.glob("coordinator/**/package*.json")]
    assert not [*root.glob("**/static/**/node_modules")]
    for file in resources.files("fedrap_coordinator.http").joinpath("static").iterdir():
        text = file.read_text("utf-8")
        loaded = re.findall(r"""(?:from|import|import\(|src=|href=|url\()\s*["']([^"']+)""", text)
        assert all(re.fullmatch(r"[./]*[a-z]+\.(js|css|svg)|#.*", one) for one in loaded), loaded
