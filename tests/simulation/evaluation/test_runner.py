"""`fedrap-sim evaluate` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedrap_coordinator.privacy.recipe import DECOYS, FEW_DECOYS, FEW_TARGETS, TARGETS
from fedrap_simulation.commands import run
from fedrap_simulation.data.load import load
from fedrap_simulation.evaluation.time_split import VALIDATIONS, make_time_split
from fedrap_simulation.methods.protocol import no_progress
from fedrap_simulation.methods.registry import make_method

DATA = "synthetic:users=80,items=150,seed=2"
SMALL = ["--set", "fedrap.schedule.rounds=4", "--set", "fedrap.method.dim=8"]


def evaluate(out: Path, *more: str, method: str = "popularity,fedrap") -> dict[str, Any]:
    path = out / "result.json"
    assert run(["evaluate", "--data", DATA, "--method", method, "--json", str(path), *more]) == 0
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def test_a_result_says_what_was_asked_and_what_came_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = evaluate(tmp_path, "--seeds", "2", "--no-tune", "--against", "popularity", *SMALL)
    assert [(row["method"], row["seed"]) for row in found["rows"]] == [
        ("popularity", 0), ("fedrap", 0), ("popularity", 1), ("fedrap", 1),
    ]  # fmt: skip
    for row in found["rows"]:
        assert row["dataset"] == "synthetic"
        assert row["protocol"] == "clean"
        assert row["leaky"] is False
        assert 0 <= row["ndcg10_full"] <= row["hr10_full"] <= 1
        assert 0 <= row["ndcg10"] <= row["hr10"] <= 1
        assert 0 < row["coverage"] <= 1
        assert 0 <= row["gini"] < 1
        by_popularity = [row[f"ndcg10_{name}"] for name in ("head", "middle", "tail")]
        by_activity = [row[f"ndcg10_{name}"] for name in ("few", "some", "many")]
        assert min(by_popularity) <= row["ndcg10_full"] <= max(by_popularity)
        assert min(by_activity) <= row["ndcg10_full"] <= max(by_activity)
        assert row["seconds"] >= 0
    ours = found["rows"][-1]
    assert ours["rounds"] == 4
    assert ours["bytes_up"] > 0
    assert ours["bytes_down"] > 0
    assert ours["zeros"] > 0.4
    assert ours["settings"]["schedule"]["rounds"] == 4
    popularity, fedrap = found["means"]
    assert popularity["against"] is None
    assert fedrap["against"]["method"] == "popularity"
    assert fedrap["against"]["low"] <= fedrap["against"]["high"]
    assert "fedrap" in capsys.readouterr().out


def test_a_second_run_takes_answers_from_the_cache(tmp_path: Path) -> None:
    more = ["--no-tune", "--cache", str(tmp_path / "cache"), *SMALL]
    first = evaluate(tmp_path, *more)
    kept = sorted((tmp_path / "cache").iterdir())
    assert len(kept) == 2
    again = evaluate(tmp_path, *more)
    assert again["rows"] == first["rows"]  # seconds included: nothing was computed
    kept[0].write_bytes(b"half a file")
    mended = evaluate(tmp_path, *more)
    assert [row["hr10"] for row in mended["rows"]] == [row["hr10"] for row in first["rows"]]


def test_the_leaky_protocol_is_called_leaky_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = evaluate(tmp_path, "--protocol", "paper", method="popularity")
    assert found["leaky"] is True
    assert all(row["leaky"] for row in found["rows"])
    said = capsys.readouterr()
    assert "LEAKY" in said.out
    assert "LEAKY" in said.err


def test_settings_are_chosen_on_validation_and_told(tmp_path: Path) -> None:
    found = evaluate(tmp_path, *SMALL, method="fedrap,ease")
    scoring = found["rows"][0]["settings"]["scoring"]
    assert scoring["tau"] in (1.0, 2.0, 4.0)
    assert found["rows"][0]["seconds_tuning"] > 0
    assert found["rows"][1]["settings"]["ridge"] > 0


def test_settings_that_follow_from_sizes_are_told_as_they_were_in_force(tmp_path: Path) -> None:
    changes = ["--set", "sequence.schedule.rounds=3", "--set", "sequence.method.dim=8"]
    (row,) = evaluate(tmp_path, *changes, method="sequence")["rows"]
    told, found = row["settings"]["method"], row["settings"]["in_force"]["method"]
    assert (told["targets"], told["decoys"]) == (TARGETS, DECOYS)
    assert (found["targets"], found["decoys"]) == (FEW_TARGETS, FEW_DECOYS)  # a small catalogue
    assert found["dim"] == 8  # set by hand
    assert row["settings"]["in_force"]["learning"]["rounds"] == row["rounds"] == 3


def test_in_time_settings_are_chosen_again_at_each_cut(tmp_path: Path) -> None:
    name = "drifting:users=150,items=300,days=120"
    out = tmp_path / "result.json"
    asked = ["--data", name, "--split", "time", "--days", "20", "--method", "popularity-recent"]
    assert run(["evaluate", *asked, "--seeds", "2", "--json", str(out)]) == 0
    data, chosen = load(name, None), []
    for seed in (0, 1):
        split = make_time_split(data, seed, days=20.0, validations=VALIDATIONS)
        method = make_method("popularity-recent", {})
        chosen.append(method.tune(split.validation, seed, no_progress).settings)
    assert chosen[0] != chosen[1]
    assert [row["settings"] for row in json.loads(out.read_bytes())["rows"]] == chosen


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "fedrep"], "did you mean fedrap?"),
        (["--method", "fedrap", "--set", "fedrap.round=3"], "it has"),
        (["--method", "fedrap", "--set", "rounds=3"], "METHOD.SETTING=VALUE"),
        (["--method", "fedrap", "--set", "ease.ridge=3"], "not among the methods"),
        (["--method", "fedrap", "--set", "fedrap.method.dim=0"], "method.dim"),
        (["--method", "fedrap", "--against", "ease"], "not among the methods"),
        (["--method", "fedrap", "--seeds", "0"], "at least one seed"),
        (["--method", ","], "at least one name"),
        (["--method", "popularity", "--split", "repeat"], "buys anything twice"),
        (["--method", "popularity", "--split", "ncf"], "--split last"),
    ],
)
def test_a_wrong_word_says_what_would_be_right(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["evaluate", "--data", DATA, *arguments]) != 0
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("noise", ["banded", "independent"])
def test_a_promise_is_in_every_row_of_who_can_make_one(tmp_path: Path, noise: str) -> None:
    more = ["--epsilon", "3", "--delta", "1e-6", "--noise", noise]
    found = evaluate(tmp_path, *more, method="fedrap,c-only,popularity")
    ours, alone, popularity = found["rows"]
    for row in (ours, alone):
        assert row["epsilon"] == pytest.approx(3.0, rel=1e-6)
        schedule = row["settings"]["schedule"]
        assert schedule["noise"] > 0
        assert row["settings"]["delta"] == 1e-6
        assert len(schedule["coefficients"]) == (2 if noise == "banded" else 1)
        assert row["seconds_tuning"] < 1
    assert popularity["epsilon"] is None


def test_a_promise_of_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "--data", DATA, "--method", "fedrap", "--epsilon", "0"]) != 0
    assert "--epsilon wants a number above 0" in capsys.readouterr().err
