"""`fedrap`: a device on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedrap.cli import main

Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on a store of its own; gives exit code, JSON of stdout, stderr."""

    def command(*arguments: str) -> tuple[int, Any, str]:
        code = main(["--store", str(tmp_path / "store"), *arguments])
        shown = capsys.readouterr()
        return code, json.loads(shown.out) if shown.out else None, shown.err

    return command


def test_what_is_recorded_is_counted_and_stays(run: Run) -> None:
    assert run("record", "item-1", "item-2")[0] == 0
    code, status, _ = run("status")
    assert code == 0
    assert (status["interactions"], status["consented"], status["release"]) == (2, False, None)
    assert status["epsilon"] == 0.0
    assert status["blocked_by"] == "no-consent"


def test_consent_is_given_and_taken_back(run: Run) -> None:
    run("consent", "yes")
    assert run("status")[1]["consented"]
    run("consent", "no")
    assert not run("status")[1]["consented"]


def test_joining_without_a_server_says_what_is_missing(run: Run) -> None:
    run("consent", "yes")
    code, report, _ = run("join")
    assert (code, report["joined"], report["blocked_by"]) == (1, False, "no-server")


def test_recommending_before_the_first_sync_gives_an_empty_list(run: Run) -> None:
    assert run("recommend", "-n", "3")[:2] == (0, [])


def test_a_bad_item_exits_2_with_a_sentence(run: Run) -> None:
    code, shown, said = run("record", "x" * 201)
    assert (code, shown) == (2, None)
    assert "1 to 200 characters" in said


def test_a_store_that_is_damaged_exits_2_with_a_way_out(run: Run, tmp_path: Path) -> None:
    run("record", "item-1")
    (tmp_path / "store" / "app" / "store.sqlite").write_bytes(b"not a database" * 100)
    code, _, said = run("status")
    assert code == 2
    assert "store.sqlite" in said


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for command in ("consent", "record", "recommend", "join", "status"):
        assert command in shown
