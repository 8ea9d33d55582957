"""docs/formulas.md names only functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"`((?:core|sdk)/[\w/]+\.py)` `(\w+)` \|$", re.MULTILINE)


def test_every_formula_names_a_function_that_exists() -> None:
    named = NAMED.findall((ROOT / "docs" / "formulas.md").read_text())
    assert len(named) > 25
    for path, function in named:
        tree = ast.parse((ROOT / path).read_text())
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert function in names, f"{path} has no {function}"
