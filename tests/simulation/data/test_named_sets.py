"""Names lead to files in the data folder, or to the owners of what is not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedrap_simulation.data.columns import ALIASES, Role
from fedrap_simulation.data.errors import BadData, MissingData
from fedrap_simulation.data.load import load
from fedrap_simulation.data.named import NAMED
from fedrap_simulation.evaluation.splits import load_published
from tests.simulation.data.made import pairs, put, times

ROWS = "user,item,rating,timestamp\n1,2,3,4\n1,3,3,5\n"
NEGATIVES = ",".join(f"n{place}" for place in range(99))


@pytest.mark.parametrize(
    "name", ["ml-100k", "amazon-sports", "amazon-video", "tafeng", "qb-article"]
)
def test_a_name_leads_to_its_folder(tmp_path: Path, name: str) -> None:
    put(tmp_path / name / "ratings.csv.gz", ROWS)
    data = load(name, tmp_path)
    assert (data.name, pairs(data), times(data)) == (name, [("1", "2"), ("1", "3")], [4, 5])


def test_every_purchase_of_ta_feng_lies_beside_the_ratings(tmp_path: Path) -> None:
    put(tmp_path / "tafeng" / "transactions.csv.gz", ROWS + "1,2,1,9\n")
    data = load("tafeng-transactions", tmp_path)
    assert (data.name, len(data)) == ("tafeng-transactions", 3)


def test_lastfm_has_no_time_whatever_its_file_says(tmp_path: Path) -> None:
    path = put(tmp_path / "lastfm-2k" / "ratings.csv.gz", ROWS)
    assert times(load("lastfm-2k", tmp_path)) is None
    assert times(load(path)) == [4, 5]  # the file itself is read as it is


def test_the_folder_comes_from_the_environment_and_else_is_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "there" / "ml-1m" / "ratings.csv.gz", ROWS)
    put(tmp_path / "data" / "ml-1m" / "ratings.csv.gz", ROWS + "2,2,3,4\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDRAP_DATA", raising=False)
    assert len(load("ml-1m")) == 3
    monkeypatch.setenv("FEDRAP_DATA", str(tmp_path / "there"))
    assert len(load("ml-1m")) == 2
    assert len(load("ml-1m", tmp_path / "data")) == 3


def test_a_file_of_that_name_is_taken_before_the_named_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "data" / "ml-1m" / "ratings.csv.gz", ROWS)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ml-100k").mkdir()  # a folder is no file of interactions
    put(tmp_path / "data" / "ml-100k" / "ratings.csv.gz", ROWS)
    assert len(load("ml-100k", tmp_path / "data")) == 2
    put(tmp_path / "ml-1m", "user,item\n9,9\n")
    assert pairs(load("ml-1m", tmp_path / "data")) == [("9", "9")]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ml-100k", ["grouplens.org", "usage licence", "u.data"]),
        ("ml-1m", ["grouplens.org", "usage licence", "data convert ratings.dat"]),
        ("amazon-video", ["jmcauley.ucsd.edu/data/amazon", "research", "--min-interactions 10"]),
        ("lastfm-2k", ["grouplens.org/datasets/hetrec-2011", "non-commercial", "user_artists.dat"]),
        ("tafeng", ["RecSys wiki", "ta-feng-grocery-dataset", "research", "--once"]),
        ("tafeng-transactions", ["ta-feng-grocery-dataset", "tafeng/transactions.csv.gz"]),
        ("qb-article", ["Tenrec", "agreement", "QB-article.csv"]),
    ],
)
def test_a_missing_set_says_who_offers_it_and_what_to_put_where(
    tmp_path: Path, name: str, words: list[str]
) -> None:
    with pytest.raises(MissingData) as caught:
        load(name, tmp_path)
    source = NAMED[name]
    said = str(caught.value)
    for word in [*words, str(tmp_path / (source.folder or name) / source.file)]:
        assert word in said


def _publish(folder: Path, negatives: str) -> None:
    put(folder / "ml-1m" / "ncf_test.csv.gz", "user,item,timestamp\n1,3,5\n")
    put(folder / "ml-1m" / "ncf_negatives.csv.gz", f"user,{NEGATIVES}\n{negatives}\n")


def test_published_test_items_and_negatives_come_with_their_ids(tmp_path: Path) -> None:
    items = [f"0{place}" for place in range(99)]
    _publish(tmp_path, ",".join(["1", *items]))
    published = load_published("ml-1m", tmp_path)
    assert published is not None
    assert (published.tests, published.negatives) == ({"1": "3"}, {"1": items})


def test_where_nothing_was_published_there_is_nothing(tmp_path: Path) -> None:
    assert load_published("ml-100k", tmp_path) is None
    assert load_published("my.csv", tmp_path) is None


def test_broken_published_files_are_refused(tmp_path: Path) -> None:
    _publish(tmp_path, "1,2,3")
    with pytest.raises(BadData, match=r"ncf_negatives\.csv\.gz, line 2: a user and 99 items"):
        load_published("ml-1m", tmp_path)
    row = ",".join(str(place) for place in range(100))
    _publish(tmp_path, f"{row}\n{row}")
    with pytest.raises(BadData, match=r"ncf_negatives\.csv\.gz, line 3: user 0 comes twice"):
        load_published("ml-1m", tmp_path)
    _publish(tmp_path, row)
    with pytest.raises(MissingData, match="no negatives of user 1"):
        load_published("ml-1m", tmp_path)
    (tmp_path / "ml-1m" / "ncf_test.csv.gz").unlink()
    with pytest.raises(MissingData, match="belong together"):
        load_published("ml-1m", tmp_path)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("ml-100k", (100_000, 943, 1_682)),
        ("ml-1m", (1_000_209, 6_040, 3_706)),
        ("amazon-video", (23_181, 1_372, 7_957)),
        ("lastfm-2k", (92_780, 1_874, 17_612)),
        ("amazon-sports", (296_337, 35_598, 18_357)),
        ("citeulike-a", (204_986, 5_551, 16_980)),
        ("tafeng", (687_410, 20_256, 23_554)),
        ("tafeng-transactions", (817_741, 32_266, 23_812)),
    ],
)
def test_the_real_sets_have_the_counts_of_their_owners(
    name: str, counts: tuple[int, int, int]
) -> None:
    if not os.environ.get("FEDRAP_DATA"):
        pytest.skip("FEDRAP_DATA is not set; the sets may not be shipped with the tests")
    data = load(name)
    assert (len(data), len(data.users), len(data.items)) == counts


def test_the_page_about_data_has_every_name_alias_and_command() -> None:
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    for name, source in NAMED.items():
        assert f"| `{name}` | `{source.folder or name}/{source.file}` |" in page
        original = source.original.split()[0]
        options = f" {source.options}" if source.options else ""
        target = f"data/{source.folder or name}/{source.file}"
        assert f"\nfedrap-sim data convert {original} --out {target}{options}\n" in page
    roles: tuple[Role, ...] = ("user", "item", "rating", "time")
    for role in roles:
        (row,) = [line for line in page.split("\n") if line.startswith(f"| {role}")]
        assert row.endswith(f"| {', '.join(ALIASES[role])} |")
