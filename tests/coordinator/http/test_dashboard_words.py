"""The dashboard has words for every problem that there is, and for none that there is not."""

from __future__ import annotations

import re
from importlib import resources

from fedrap_core.wire import problems


def test_the_dashboard_translates_exactly_the_problems_of_the_wire() -> None:
    words = resources.files("fedrap_coordinator.http").joinpath("static", "words.js").read_text()
    table = words.partition("const REASONS = {")[2].partition("};")[0]
    found = re.findall(r'^  "([a-z-]+)": "[^"]+",$', table, flags=re.MULTILINE)
    assert len(found) == len(set(found)) == table.strip().count("\n") + 1
    assert set(found) == set(problems.ALL)
