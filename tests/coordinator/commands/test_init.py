"""`fedrap-coordinator init` as an operator types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrap_coordinator.cli import main
from fedrap_coordinator.settings import load

ENOUGH = ["init", "--devices", "20000", "--items", "5000"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_it_writes_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ENOUGH) == 0
    said = capsys.readouterr().err
    assert "guarantee: epsilon 8.0 " in said
    assert "quality: about" in said
    path = tmp_path / "fedrap.toml"
    assert load(path, {}).learning.population == 20_000
    path.write_text("seed = 5")
    assert main(ENOUGH) == 2
    assert "left as it is" in capsys.readouterr().err
    assert path.read_text() == "seed = 5"


def test_it_writes_where_it_is_told(tmp_path: Path) -> None:
    assert main(["--config", "other.toml", *ENOUGH]) == 0
    assert (tmp_path / "other.toml").exists()
    assert not (tmp_path / "fedrap.toml").exists()


def test_without_privacy_it_says_so_and_what_the_app_must_ask_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--devices", "12", "--items", "40", "--no-privacy"]) == 0
    said = capsys.readouterr().err
    assert "no privacy guarantee" in said
    assert "Floor.without_privacy(min_updates=6)" in said
    assert load(tmp_path / "fedrap.toml", {}).privacy.noise == 0.0


def test_too_few_devices_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--devices", "300", "--items", "10000"]) == 2
    assert "It takes about" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_items_may_be_the_file_that_will_be_added(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("id,title\n" + "".join(f"i{n},x\n" for n in range(200)))
    assert main(["init", "--devices", "20000", "--items", "items.csv"]) == 0
    assert load(tmp_path / "fedrap.toml", {}).learning.density == pytest.approx(50 / 200)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["init"], "say --devices N"),
        (["init", "--devices", "9000"], "say --items"),
        (["init", "--devices", "9000", "--items", "none.csv"], "neither a number nor a file"),
        (["init", "--devices", "-3", "--items", "9"], "--devices must be from 2"),
        (["init", "--devices", "9000", "--items", "9", "--epsilon", "nan"], "must be from 0.01"),
    ],
)
def test_what_it_must_know_is_asked_for(
    argv: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_person_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["20,000", "5000"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    assert main(["init"]) == 0
    assert load(tmp_path / "fedrap.toml", {}).learning.population == 20_000
