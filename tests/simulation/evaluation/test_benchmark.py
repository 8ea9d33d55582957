"""`fedrap-sim benchmark`, and methods that are files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrap_simulation.commands import run
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.evaluation.benchmark import BenchmarkRequest, methods_for
from fedrap_simulation.methods.adapter import FileMethod
from fedrap_simulation.methods.protocol import no_progress

from ..methods.planted import planted_split

DATA = "synthetic:users=80"
PAGE = Path(__file__).parents[3] / "docs" / "benchmark.md"


def documented(folder: Path) -> Path:
    """The file that the page about it shows."""
    code = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    path = folder / "mine.py"
    path.write_text(code, encoding="utf-8")
    return path


def benchmark(out: Path, *more: str) -> dict[str, Any]:
    assert run(["benchmark", "--out", str(out), "--seeds", "2", *more]) == 0
    found: dict[str, Any] = json.loads((out / "benchmark.json").read_bytes())
    return found


def test_the_documented_file_stands_on_the_page_beside_the_others(tmp_path: Path) -> None:
    mine = documented(tmp_path)
    more = ("--sets", f"{DATA},ml-1m", "--only", f"popularity,transitions,{mine}")
    found = benchmark(tmp_path, *more, "--data-dir", str(tmp_path))
    assert "ml-1m is not there" in found["missing"]["ml-1m"]
    (made,) = found["sets"]
    assert {line["method"] for line in made["means"]} == {"popularity", "transitions", str(mine)}
    rows = {row["method"]: row for row in made["rows"] if row["seed"] == 0}
    # Counting is counting, whoever does it.
    assert rows[str(mine)]["ndcg10_full"] == pytest.approx(rows["popularity"]["ndcg10_full"])
    assert rows[str(mine)]["settings"]["power"] == 1.0
    assert (
        made["simple"]
        == max(
            (line for line in made["means"] if line["method"] in ("popularity", "transitions")),
            key=lambda line: line["mean"]["ndcg10_full"],
        )["method"]
    )
    page = (tmp_path / "benchmark.md").read_text(encoding="utf-8")
    assert "| mine |" in page
    assert f"**{made['simple']}**" in page
    assert str(tmp_path) not in page
    assert "Left out: ml-1m is not there" in page


def test_a_file_that_changed_is_another_method(tmp_path: Path) -> None:
    mine = documented(tmp_path)
    more = ("--sets", DATA, "--only", f"popularity,{mine}")
    first = benchmark(tmp_path, *more)
    mine.write_text(mine.read_text().replace("return counts**power", "return 0 * counts"))
    second = benchmark(tmp_path, *more)

    def mean(found: dict[str, Any]) -> float:
        (line,) = [one for one in found["sets"][0]["means"] if one["method"] == str(mine)]
        return float(line["mean"]["ndcg10_full"])

    assert mean(second) != mean(first)


def test_a_file_sees_the_training_histories_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "spy.py"
    path.write_text(
        "import numpy as np\n"
        "def fit(*given, **more): return given, more\n"
        "def scores(model, users): return np.zeros((len(users), model[0][1]))\n"
    )
    task = planted_split().test
    fitted = FileMethod.of(str(path)).fit(task, 5, no_progress)
    (train, items, ordered, seed), more = fitted.model
    assert (items, ordered, seed, more) == (task.items, True, 5, {})
    assert [one.tolist() for one in train] == [task.train.of(u).tolist() for u in range(task.users)]
    train[0][:] = 0  # nor can it change them
    assert task.train.of(0).any()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def fit(): ...", "no function 'scores'"),
        ("def scores(): ...", "no function 'fit'"),
        ("1/0", "ZeroDivisionError"),
        ("def fit(*a): ...\ndef scores(*a): ...\nSETTINGS = 3", "a list of dicts"),
        ("def fit(*a): ...\ndef scores(*a): return [[1.0]]", "not \\(2, 240\\)"),
        ("def fit(*a): ...\ndef scores(*a): return 'high'", "an array of numbers"),
    ],
)
def test_a_file_that_is_wrong_says_what_it_lacks(tmp_path: Path, code: str, words: str) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(code)
    with pytest.raises(BadData, match=words):
        FileMethod.of(str(path)).fit(planted_split().test, 0, no_progress).scores(np.arange(2))


def test_who_is_left_out_and_why() -> None:
    user, item = np.repeat(np.arange(4), 3), np.tile(np.arange(3), 4)
    names = tuple("abcd"), tuple(str(one) for one in range(20_000))
    plain = Interactions("made", *names, user, item)
    run_, left = methods_for(plain, BenchmarkRequest())
    assert {"transitions", "popularity-recent", "ease"} <= set(left)
    assert {"popularity", "itemknn", "ials", "fedrap", "fedrap-sequence"} <= set(run_)
    ranked = Interactions("made", *names, user, item, time=np.tile(np.arange(3.0), 4))
    _, left = methods_for(ranked, BenchmarkRequest())
    assert {"popularity-recent", "itemknn-lately", "fedrap-trend"} <= set(left)
    assert "transitions" not in left


def test_without_any_set_it_says_where_they_are_offered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["benchmark", "--sets", "ml-1m", "--data-dir", str(tmp_path)]) == 2
    assert "ml-1m is not there" in capsys.readouterr().err
