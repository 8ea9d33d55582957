"""`fedrap-coordinator` as an operator types it: good input, bad input, exit codes."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import json
import socket
import sqlite3
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from fedrap_coordinator.cli import main
from fedrap_coordinator.domain.records import StoredRelease
from fedrap_coordinator.domain.rounds import Round
from fedrap_coordinator.settings import load
from fedrap_coordinator.store.sql import SqlStore

INIT = ["init", "--devices", "20000", "--items", "5000"]
COMMANDS = ["init", "check-config", "serve", "items", "tokens", "status", "keys", "devices"]
COMMANDS += ["issuers", "admin", "audit", "privacy", "rounds", "releases", "quality", "export"]
COMMANDS += ["backup", "maintain", "rollout"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedrap.toml").write_text("seed = 0  # all else as it is by default")


def status(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said on stderr: one line and no traceback."""
    said = capsys.readouterr().err.strip()
    assert said
    assert "Traceback" not in said
    assert "\n" not in said
    return said


def test_a_call_from_a_wrong_folder_makes_no_second_database(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "fedrap.toml").unlink()
    for command in (["status"], ["serve"], ["tokens", "3"]):
        assert main(command) == 2
        assert "no fedrap.toml in this folder: name one with --config" in sentence(capsys)
    assert main(["--config", "", "serve"]) == 2
    assert "Is a directory" in sentence(capsys)
    assert list(tmp_path.iterdir()) == []


def test_from_another_folder_a_config_means_the_same_database(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "fedrap.toml").write_text("seed = 1")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert main(["--config", "../site/fedrap.toml", "tokens", "2"]) == 0
    assert (tmp_path / "site" / "fedrap.sqlite").exists()
    assert list((tmp_path / "other").iterdir()) == []


def test_maintain_gives_the_room_of_what_is_gone_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["tokens", "1"]) == 0
    path = tmp_path / "fedrap.sqlite"
    for old in (False, True):  # as it is made now, and as 0.1 made it
        with contextlib.closing(sqlite3.connect(path)) as db:
            if old:
                db.execute("PRAGMA auto_vacuum=NONE")
                db.execute("VACUUM")
            db.execute("CREATE TABLE large (body BLOB)")
            db.execute("INSERT INTO large VALUES (zeroblob(3000000))")
            db.execute("DROP TABLE large")
            db.commit()
        capsys.readouterr()
        assert main(["maintain", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["bytes_after"] < 1_000_000
        assert path.stat().st_size == said["bytes_after"]
    assert main(["status"]) == 0  # and nothing else is gone
    assert "tokens" in capsys.readouterr().out


def test_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("fedrap-coordinator 0.")


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n    {command} " in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert command in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv", [[], ["unknown"], ["tokens"], ["tokens", "many"], ["items", "eat"]]
)
def test_a_wrong_command_line_exits_with_2_and_shows_the_usage(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2
    assert "usage: fedrap-coordinator" in capsys.readouterr().err


def test_check_config_prints_the_settings_in_force(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["check-config"]) == 0
    assert json.loads(capsys.readouterr().out)["round"]["min_updates"] == 1250
    (tmp_path / "fedrap.toml").unlink()
    main(INIT)
    capsys.readouterr()
    monkeypatch.setenv("FEDRAP__PRIVACY__CAP", "77")
    assert main(["check-config"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["round"]["min_updates"], shown["privacy"]["cap"]) == (2500, 77)
    expected = load(tmp_path / "fedrap.toml", {})
    assert shown["scoring"]["tau"] == expected.scoring.tau


@pytest.mark.spec("7.3")
def test_items_are_added_and_retired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "items.txt").write_text("a\n\n  b  \nc\na\n", encoding="utf-8")
    assert main(["items", "add", "items.txt"]) == 0
    assert "3 items added" in sentence(capsys)
    assert main(["items", "add", "items.txt"]) == 0
    assert "0 items added" in sentence(capsys)
    (tmp_path / "gone.txt").write_text("b\nnever there\n", encoding="utf-8")
    assert main(["items", "retire", "gone.txt"]) == 0
    assert "1 items retired" in sentence(capsys)
    assert status(capsys)["items"] == 3


def test_items_may_come_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("x\ny\n"))
    assert main(["items", "add", "-"]) == 0
    assert status(capsys)["items"] == 2


def test_tokens_are_printed_once_and_kept_as_digests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tokens", "3"]) == 0
    tokens = capsys.readouterr().out.split()
    assert len(set(tokens)) == 3
    assert status(capsys)["unused_tokens"] == 3
    for path in tmp_path.glob("fedrap.sqlite*"):
        assert not any(token.encode() in path.read_bytes() for token in tokens)


async def test_status_shows_the_open_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'fedrap.sqlite'}")
    await store.open()
    await store.open_round(Round(b"r" * 16, 4, 4, 0.0), b"")
    await store.close()
    assert await asyncio.to_thread(main, ["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "devices": 0,
        "unused_tokens": 0,
        "items": 0,
        "releases": 0,
        "latest": None,
        "round": {"step": 4, "phase": "collecting", "assigned": 0, "accepted": 0},
    }


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--config", "none.toml", "status"], "does not exist"),
        (["--config", ".", "check-config"], "directory"),
        (["--config", "bad.toml", "check-config"], "min_update"),
        (["--config", "url.toml", "status"], "must be a URL"),
        (["--config", "mysql.toml", "status"], "not supported"),
        (["--config", "nowhere.toml", "tokens", "1"], "cannot be opened"),
        (["--config", "no/such/folder/x.toml", *INIT], "no/such/folder"),
        (["items", "add", "none.txt"], "none.txt"),
        (["items", "add", "binary.txt"], "binary.txt"),
        (["items", "add", "long.txt"], "long.txt:2: an id has 1 to 200 characters"),
        (["tokens", "0"], "from 1 to 1,000,000"),
        (["tokens", "1000001"], "from 1 to 1,000,000"),
    ],
)
def test_bad_input_exits_with_2_and_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    (tmp_path / "bad.toml").write_text("[round]\nmin_update = 3")
    (tmp_path / "url.toml").write_text("database = 'nonsense'")
    (tmp_path / "mysql.toml").write_text("database = 'mysql://host/db'")
    (tmp_path / "nowhere.toml").write_text("database = 'sqlite:////no/such/folder/x.sqlite'")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "long.txt").write_text("short\n" + "x" * 201)
    assert main(argv) == 2
    said = sentence(capsys)
    assert said.startswith("fedrap-coordinator: ")
    assert says in said


def test_a_port_that_is_taken_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("FEDRAP__SERVE__PORT", str(taken.getsockname()[1]))
        monkeypatch.setattr("fedrap_coordinator.commands.serve.configure_logs", lambda: None)
        assert main(["serve"]) == 2
    said = capsys.readouterr().err
    assert "address already in use" in said
    assert "Traceback" not in said


def test_a_missing_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "sqlalchemy" else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert main(["status"]) == 2
    assert "pip install fedrap-coordinator" in sentence(capsys)


def test_a_roll_out_is_begun_looked_at_and_halted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["rollout", "status"]) == 0
    assert "nothing was rolled out yet" in capsys.readouterr().out
    assert main(["rollout", "start"]) == 2
    assert "nothing was learnt yet" in sentence(capsys)
    assert main(["rollout", "halt"]) == 2
    assert "no roll-out goes on" in sentence(capsys)

    async def learn() -> None:
        store = SqlStore(f"sqlite:///{tmp_path / 'fedrap.sqlite'}")
        await store.open()
        await store.add_release(StoredRelease(2, 1, 9, b"numbers", None), None)
        await store.close()

    asyncio.run(learn())
    assert main(["rollout", "start", "--change", "ridge"]) == 2
    assert "NAME=VALUE is expected" in sentence(capsys)
    assert main(["rollout", "start", "--share", "0.05", "--share", "0.5"]) == 0
    said = capsys.readouterr().out
    assert "next, waiting" in said
    assert "5.000%" in said
    assert main(["rollout", "start"]) == 2
    assert "goes on" in sentence(capsys)
    assert main(["rollout", "promote"]) == 2
    assert "nothing is staged" in sentence(capsys)
    assert main(["rollout", "halt", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["stages"][1]["share"]) == ("halted", 0.5)
    assert main(["audit"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["action"], row["outcome"]) for row in rows[-3:]] == [
        ("rollout-start", "done"), ("rollout-start", "refused"), ("rollout-halt", "done"),
    ]  # fmt: skip
