"""Every MUST of the protocol is named by a test, and the tables say what the code says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedrap_core.wire import messages, problems
from fedrap_core.wire.messages import Message

ROOT = Path(__file__).parent.parent
SPEC = (ROOT / "spec" / "PROTOCOL.md").read_text(encoding="utf-8")


def _clauses() -> set[str]:
    return set(re.findall(r"^- \*\*(\d+\.\d+)\*\*", SPEC, re.MULTILINE))


def _named() -> Iterator[tuple[str, str]]:
    """(clause, test) of every `@pytest.mark.spec(...)` in the tests."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.spec":
                    for argument in mark.args:
                        assert isinstance(argument, ast.Constant)
                        yield str(argument.value), f"{path.name}::{node.name}"


def test_every_clause_is_named_by_a_test() -> None:
    assert sorted(_clauses() - {clause for clause, _ in _named()}) == []


def test_no_test_names_a_clause_that_is_not_there() -> None:
    assert sorted(test for clause, test in _named() if clause not in _clauses()) == []


def test_every_numbered_clause_says_must() -> None:
    for text in re.split(r"^(?=- \*\*\d+\.\d+\*\*)", SPEC, flags=re.MULTILINE)[1:]:
        clause = text.split("\n\n")[0]
        assert "MUST" in clause, clause


@pytest.mark.spec("8.1")
def test_the_table_of_problems_is_the_code() -> None:
    rows = re.findall(r"^\| ([a-z-]+) \| (\d{3}) \| (\w+) \|", SPEC, re.MULTILINE)
    written = {(code, int(status), family) for code, status, family in rows}
    assert written == {
        (problem.code, problem.status, problem.family.value) for problem in problems.ALL.values()
    }


def test_every_message_has_its_table_with_all_its_fields() -> None:
    kinds = [
        kind
        for kind in vars(messages).values()
        if isinstance(kind, type) and issubclass(kind, Message) and kind is not Message
    ]
    assert len(kinds) >= 9
    for kind in kinds:
        tag = kind.__struct_config__.tag
        section = re.search(rf"^### {tag} —.*?(?=^##)", SPEC, re.MULTILINE | re.DOTALL)
        assert section, tag
        cells = re.findall(r"^\| ([a-z_, ]+) \|", section[0], re.MULTILINE)
        written = {name.strip() for cell in cells for name in cell.split(",")} - {"field"}
        assert written == set(kind.__struct_fields__), tag
