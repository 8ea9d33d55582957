"""Several tasks as an operator makes them: a file each, commands by file, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fedrap_coordinator.cli import main
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.settings import load
from fedrap_coordinator.tasks import tasks_of

INIT = ["init", "--devices", "400", "--items", "50", "--no-privacy"]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A main file and one of a second task, as `init` writes them; the main one lists the other."""
    monkeypatch.chdir(tmp_path)
    assert main(INIT) == 0
    assert main([*INIT, "--task", "music"]) == 0
    with (tmp_path / "fedrap.toml").open("a", encoding="utf-8") as file:
        file.write('\n[tasks]\nmusic = "music.toml"\n')
    return tmp_path


def test_a_command_means_the_task_of_its_file(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "songs.txt").write_text("one\ntwo\nthree\n")
    (site / "films.txt").write_text("one\n")
    assert main(["items", "add", "films.txt"]) == 0
    assert main(["--config", "music.toml", "items", "add", "songs.txt"]) == 0
    assert main(["--config", "music.toml", "tokens", "2"]) == 0
    shown = {}
    for file in ("fedrap.toml", "music.toml"):
        capsys.readouterr()
        assert main(["--config", file, "status", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        shown[file] = (said["items"], said["unused_tokens"])
    assert shown == {"fedrap.toml": (1, 0), "music.toml": (3, 2)}
    assert [one.name for one in site.glob("*.sqlite")] == ["fedrap.sqlite"]
    assert (site / "keys" / "authority.key").read_bytes() != (
        site / "keys-music" / "authority.key"
    ).read_bytes()
    assert main(["check-config"]) == 0


@pytest.mark.parametrize(
    ("line", "other", "said"),
    [
        ('task = "music"', 'task = "songs"', 'must say task = "music"'),
        ('task = "music"', "", 'must say task = "music"'),
        ('keys = "keys-music"', 'keys = "keys"', "has the keys of main"),
        ('audience = "fedrap-music"', 'audience = "fedrap"', "is also that of main"),
        ("sqlite:///fedrap.sqlite", "sqlite:///music.sqlite", "another database"),
        ('task = "music"', 'task = "music"\ntasks = { a = "b" }', "only the main one"),
        ('task = "music"', 'task = "Music"', r"task"),
    ],
)
def test_tasks_that_would_share_what_they_must_not_are_refused(
    site: Path, capsys: pytest.CaptureFixture[str], line: str, other: str, said: str
) -> None:
    assert tasks_of(load(site / "fedrap.toml", os.environ), os.environ)
    text = (site / "music.toml").read_text()
    assert line in text
    (site / "music.toml").write_text(text.replace(line, other, 1))
    with pytest.raises(ConfigError, match=said):
        tasks_of(load(site / "fedrap.toml", os.environ), os.environ)
    assert main(["serve"]) == 2
    assert main(["check-config"]) == 2
    assert said in capsys.readouterr().err


def test_the_file_of_one_of_several_is_not_served_alone(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--config", "music.toml", "serve"]) == 2
    assert "serve the file that lists it" in capsys.readouterr().err
    assert main([*INIT, "--task", "Not a name"]) == 2
    assert "small letters and digits" in capsys.readouterr().err
    (site / "fedrap.toml").write_text('[tasks]\nmain = "music.toml"\n')
    assert main(["serve"]) == 2
    assert "main is the name" in capsys.readouterr().err
