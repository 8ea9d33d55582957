"""`fedrap`: a device on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedrap import FedRap, Floor
from fedrap.cli import main
from fedrap.testing import FakeCoordinator
from fedrap_core.plan import Plan

Run = Callable[..., tuple[int, Any, str]]
Say = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine has set must not change what a test sees."""
    for name in ("FEDRAP_STORE", "FEDRAP_SERVER", "FEDRAP_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on a store of its own; gives exit code, JSON of stdout, stderr."""

    def command(*arguments: str) -> tuple[int, Any, str]:
        code = main(["--store", str(tmp_path / "store"), "--json", *arguments])
        shown = capsys.readouterr()
        return code, json.loads(shown.out) if shown.out else None, shown.err

    return command


@pytest.fixture
def say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command for people; gives exit code and all that is shown."""

    def command(*arguments: str) -> tuple[int, str]:
        code = main(["--store", str(tmp_path / "store"), *arguments])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    return command


@pytest.fixture
def taught(tmp_path: Path) -> None:
    """The store after one round with a fake coordinator that promises nothing."""
    items, alike = ["tea", "mug", "pot", "book", "lamp"], [["tea", "mug", "pot"]]
    fake = FakeCoordinator(items, alike=alike, plan=Plan())
    floor = Floor.without_privacy(min_updates=2)
    with FedRap.open(tmp_path / "store", transport=fake, token="t", floor=floor) as device:
        device.consent(train=True, policy="test")
        device.record("tea")
        assert device.run_round().joined


def test_what_is_recorded_is_counted_and_stays(run: Run) -> None:
    assert run("record", "item-1", "item-2", "--weight", "2", "--kind", "like")[0] == 0
    code, status, _ = run("status")
    assert code == 0
    assert (status["interactions"], status["consented"], status["release"]) == (2, False, None)
    assert status["epsilon"] == 0.0
    assert status["blocked_by"] == "no-consent"


def test_init_makes_a_store_and_remembers_the_server(run: Run, tmp_path: Path) -> None:
    code, made, _ = run("--server", "http://127.0.0.1:9", "init")
    assert (code, made["server"]) == (0, "http://127.0.0.1:9")
    assert (tmp_path / "store" / "app" / "store.sqlite").exists()
    run("consent", "yes")
    run("record", "a")
    assert run("status")[1]["blocked_by"] == "no-token"
    assert run("--token", "t", "join")[1]["blocked_by"] == "unreachable"
    assert run("init")[1]["server"] == "http://127.0.0.1:9"


def test_the_environment_names_store_server_and_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDRAP_STORE", str(tmp_path / "there"))
    monkeypatch.setenv("FEDRAP_SERVER", "http://127.0.0.1:9")
    assert main(["init"]) == 0
    shown = capsys.readouterr().out
    assert str(tmp_path / "there") in shown
    assert "http://127.0.0.1:9" in shown


def test_consent_is_given_and_taken_back(run: Run) -> None:
    run("consent", "yes")
    assert run("status")[1]["consented"]
    run("consent", "no")
    assert not run("status")[1]["consented"]


def test_joining_without_a_server_says_what_is_missing(run: Run, say: Say) -> None:
    run("consent", "yes")
    code, report, _ = run("join")
    assert (code, report["joined"], report["blocked_by"]) == (1, False, "no-server")
    code, shown = say("join")
    assert code == 1
    assert "fedrap --server URL init" in shown


def test_recommending_before_the_first_sync_gives_an_empty_list(run: Run, say: Say) -> None:
    assert run("recommend", "-n", "3")[:2] == (0, [])
    assert "no catalogue" in say("recommend")[1]


@pytest.mark.usefixtures("taught")
def test_recommendations_are_lines_for_people_and_values_for_machines(run: Run, say: Say) -> None:
    assert [one["item"] for one in run("recommend", "-n", "2")[1]] == ["mug", "pot"]
    shown = say("recommend", "-n", "2", "--explain")[1]
    assert "mug" in shown
    assert "from tea" in shown
    assert {one["item"] for one in run("similar", "tea", "-n", "2")[1]} == {"mug", "pot"}
    assert "mug" in say("similar", "tea")[1]
    assert "Nothing is known of cup" in say("similar", "cup")[1]


@pytest.mark.usefixtures("taught")
def test_an_epsilon_without_bound_is_null_and_unbounded(run: Run, say: Say) -> None:
    assert run("status")[1]["epsilon"] is None
    assert "epsilon unbounded" in say("status")[1]


@pytest.mark.usefixtures("taught")
def test_status_shows_the_guarantee_of_the_last_round_and_on_what_it_rests(
    run: Run, say: Say
) -> None:
    stated = run("status")[1]["privacy"]
    assert (stated["separation"], stated["cap"]) == (2, 10)
    assert stated["assumptions"] == ["noise is 0: there is no privacy guarantee"]
    shown = say("status")[1]
    for words in ("guarantee     epsilon unbounded", "unit", "adjacency", "the aggregator process"):
        assert words in shown


def test_status_guarantees_nothing_before_the_first_round(run: Run, say: Say) -> None:
    assert run("status")[1]["privacy"] is None
    assert "guarantee" not in say("status")[1]


def test_json_may_stand_before_or_behind_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--json", "status"], ["status", "--json"]):
        assert main(["--store", str(tmp_path), *arguments]) == 0
        assert json.loads(capsys.readouterr().out)["interactions"] == 0


def test_an_export_is_a_file_that_names_its_size(run: Run, tmp_path: Path) -> None:
    run("record", "item-1")
    file = tmp_path / "mine.zip"
    code, made, _ = run("export", str(file))
    assert (code, made["size_bytes"]) == (0, file.stat().st_size)


def test_erasing_asks_twice_and_leaves_nothing(run: Run, say: Say, tmp_path: Path) -> None:
    run("--server", "http://127.0.0.1:9", "init")
    run("record", "item-1")
    code, _, said = run("erase")
    assert code == 2
    assert "--yes" in said
    assert run("status")[1]["interactions"] == 1
    code, shown = say("erase", "--yes")
    assert code == 0
    assert shown.startswith("Erased.")
    assert not [one for one in (tmp_path / "store").rglob("*") if one.is_file()]
    assert run("status")[1]["interactions"] == 0


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
    for command in (
        "init", "record", "import", "recommend", "similar", "consent", "join", "status", "export",
        "erase",
    ):  # fmt: skip
        assert command in shown
