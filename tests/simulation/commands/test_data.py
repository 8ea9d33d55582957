"""`fedrap-sim data`: what it shows, what it writes, what it refuses."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fedrap_simulation.commands import run
from fedrap_simulation.data.load import load
from fedrap_simulation.evaluation.splits import load_published
from tests.simulation.data.made import pairs, put

MADE = "synthetic:users=20,items=200,seed=3"


def rows_of(path: Path) -> list[list[str]]:
    """All rows of a CSV file, the header first."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_describe_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "user,item,time\na,x,1\na,y,1\na,x,2\nb,x,1\nb,z,5\nb,w,6\n"
    path = put(tmp_path / "a.csv.gz", text)
    assert run(["data", "describe", path, "--json", str(tmp_path / "out.json")]) == 0
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "name": "a",
        "form": "CSV, gzip",
        "interactions": 6,
        "users": 2,
        "items": 4,
        "density": 5 / 8,
        "per_user": {"min": 3, "median": 3.0, "mean": 3.0, "max": 3},
        "per_item": {"min": 1, "median": 1.0, "mean": 1.5, "max": 3},
        "repeat_share": pytest.approx(1 / 6),
        "has_rating": False,
        "has_time": True,
        "shared_time_share": pytest.approx(2 / 6),
        "rare_item_share": 1.0,
    }
    shown = capsys.readouterr().out
    for words in ("CSV, gzip", "62.500%", "16.7%", "33.3%"):
        assert words in shown


def test_describe_without_time_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(tmp_path / "a.csv", "user,item\na,x\n")
    assert run(["data", "describe", path, "--json", str(tmp_path / "out.json")]) == 0
    assert json.loads((tmp_path / "out.json").read_text())["shared_time_share"] is None
    assert "no time" in capsys.readouterr().out


def test_convert_reads_one_form_and_writes_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path / "ratings.dat", "1::2::5::9\n1::3::4::8\n2::2::1::7\n")
    out = tmp_path / "data" / "ml-1m" / "ratings.csv.gz"
    assert run(["data", "convert", path, "--out", str(out), "--min-interactions", "2"]) == 0
    assert "2 interactions of 1 users with 2 items" in capsys.readouterr().err.replace("\n", " ")
    assert pairs(load("ml-1m", tmp_path / "data")) == [("1", "2"), ("1", "3")]
    assert run(["data", "convert", path, "--out", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["data", "convert", path, "--out", str(out), "--force"]) == 0
    assert len(load("ml-1m", tmp_path / "data")) == 3


def test_convert_once_counts_users_after_repeats_are_gone(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "user,item\na,x\na,x\nb,x\nb,y\n")
    out = tmp_path / "out.csv"
    arguments = ["data", "convert", path, "--out", str(out), "--once", "--min-interactions", "2"]
    assert run(arguments) == 0
    assert pairs(load(str(out))) == [("b", "x"), ("b", "y")]


@pytest.mark.parametrize("kind", ["last", "random"])
def test_split_files_fit_together(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "split"
    assert run(["data", "split", MADE, "--out", str(out), "--kind", kind, "--seed", "7"]) == 0
    said = json.loads((out / "split.json").read_text())
    data = load(MADE)
    parts = {name: rows_of(out / f"{name}.csv") for name in ("train", "validation", "test")}
    header = ["user_id", "item_id", "timestamp"] if kind == "last" else ["user_id", "item_id"]
    assert all(rows[0] == header for rows in parts.values())
    found = {name: [(row[0], row[1]) for row in rows[1:]] for name, rows in parts.items()}
    # Nothing twice, nothing lost: no test item can be in its user's train.
    assert sorted(found["train"] + found["validation"] + found["test"]) == sorted(pairs(data))
    assert [user for user, _ in found["test"]] == list(data.users)
    negatives = {row[0]: row[1:] for row in rows_of(out / "negatives.csv")[1:]}
    touched = set(pairs(data))
    for user in data.users:
        assert len(set(negatives[user])) == 99
        assert not {(user, item) for item in negatives[user]} & touched
    assert (said["kind"], said["seed"], said["users"]) == (kind, 7, 20)
    assert {name: said[name] for name in found} == {name: len(one) for name, one in found.items()}
    if kind == "last":
        newest = dict(pairs(data))  # of each user the last one stays
        assert dict(found["test"]) == newest
        again = load(str(out / "train.csv"))
        assert again.time is not None


def test_the_seed_decides_a_random_split(tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        out = str(tmp_path / name)
        assert run(["data", "split", MADE, "--out", out, "--kind", "random", "--seed", seed]) == 0
    tests = [(tmp_path / name / "test.csv").read_bytes() for name in "abc"]
    assert tests[0] == tests[1]
    assert tests[0] != tests[2]


def test_split_with_repeats_writes_what_may_be_learnt_before_the_test(tmp_path: Path) -> None:
    text = ["user,item,time", *(f"other{place},item{place},1" for place in range(120))]
    for day, basket in enumerate(["tea milk", "tea jam", "milk jam", "tea"]):
        text += [f"me,{item},{day}" for item in basket.split()]
    path = put(tmp_path / "a.csv", "\n".join(text))
    out = tmp_path / "split"
    arguments = ["data", "split", path, "--out", str(out), "--kind", "repeat"]
    assert run([*arguments, "--min-interactions", "0"]) == 0
    assert [row[:2] for row in rows_of(out / "test.csv")[1:]] == [["me", "tea"]]
    asked = rows_of(out / "validation.csv")[1][1]
    assert asked in ("milk", "jam")
    learnt = [row[1] for row in rows_of(out / "train.csv")[1:]]
    assert sorted(learnt) == ["jam", "milk", "tea", "tea"]
    before_test = [row[1] for row in rows_of(out / "train_for_test.csv")[1:]]
    assert sorted(before_test) == ["jam", "jam", "milk", "milk", "tea", "tea"]
    assert json.loads((out / "split.json").read_text())["repeats"] is True


def test_split_files_of_one_set_serve_as_a_published_split(tmp_path: Path) -> None:
    folder = tmp_path / "ml-1m"
    convert = ["data", "convert", MADE, "--out", str(folder / "ratings.csv.gz")]
    assert run(convert) == 0
    first, second = tmp_path / "first", tmp_path / "second"
    there = ["--data-dir", str(tmp_path)]
    assert run(["data", "split", "ml-1m", "--out", str(first), "--kind", "random", *there]) == 0
    put(folder / "ncf_test.csv.gz", (first / "test.csv").read_bytes())
    put(folder / "ncf_negatives.csv.gz", (first / "negatives.csv").read_bytes())
    assert load_published("ml-1m", tmp_path) is not None
    assert run(["data", "split", "ml-1m", "--out", str(second), "--kind", "ncf", *there]) == 0
    asked = [row[:2] for row in rows_of(second / "test.csv")[1:]]
    assert asked == rows_of(first / "test.csv")[1:]
    assert (second / "negatives.csv").read_bytes() == (first / "negatives.csv").read_bytes()
    fewer = ["--kind", "ncf", "--min-interactions", "35", "--force", *there]
    assert run(["data", "split", "ml-1m", "--out", str(second), *fewer]) == 0
    kept = [row[:2] for row in rows_of(second / "test.csv")[1:]]
    assert 0 < len(kept) < len(asked)
    assert all(row in asked for row in kept)


def test_split_refuses_what_the_data_does_not_have_and_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path / "a.csv", "user,item\n" + "".join(f"u,{one}\n" for one in range(20)))
    out = str(tmp_path / "split")
    assert run(["data", "split", path, "--out", out, "--kind", "last"]) == 2
    assert "has no time" in capsys.readouterr().err
    assert run(["data", "split", path, "--out", out, "--kind", "ncf"]) == 2
    assert "no published test items" in capsys.readouterr().err
    assert not (tmp_path / "split" / "split.json").exists()
    assert run(["data", "split", MADE, "--out", out]) == 0
    assert run(["data", "split", MADE, "--out", out]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["data", "split", MADE, "--out", out, "--force"]) == 0


def test_a_broken_file_ends_the_command_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path / "a.csv", "user,item\n1,\n")
    assert run(["data", "describe", path]) == 2
    assert capsys.readouterr().err == (
        f"fedrap-sim: {path}, line 2: the item id is empty. Fill it in or delete the line\n"
    )


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    path = put(tmp_path / "a.csv", "user,item\n1,2\n")
    assert run(["data", "describe", path]) == 2
    assert "pip install 'fedrap-simulation[science]'" in capsys.readouterr().err


def test_the_other_commands_do_not_import_pyarrow() -> None:
    code = "import sys, fedrap_simulation.commands; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
