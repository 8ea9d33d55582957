"""What is written is read back: ids to the letter, numbers to the bit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.load import load
from fedrap_simulation.data.write import SUFFIXES, write_interactions
from tests.simulation.data.made import interactions, pairs, ratings, times

ids = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
    st.text(',;"\t|: \r\n0aé', min_size=1, max_size=6),
    st.integers(0, 999).map(lambda number: f"{number:05d}"),
).filter(lambda one: not one.isspace())
numbers = st.floats(allow_nan=False, allow_infinity=False)
rows = st.lists(st.tuples(ids, ids, numbers, numbers), min_size=1, max_size=12)


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(rows=rows, rated=st.booleans(), timed=st.booleans())
def test_convert_keeps_every_id_rating_and_time(
    suffix: str, rows: list[tuple[str, str, float, float]], rated: bool, timed: bool
) -> None:
    if ".inter" in suffix:  # knows no quotes, so there ids are of one piece
        clean = str.maketrans("\t\r\n", "___")
        rows = [(user.translate(clean), item.translate(clean), a, b) for user, item, a, b in rows]
    data = interactions(
        [(user, item) for user, item, _, _ in rows],
        [rating for *_, rating, _ in rows] if rated else None,
        [time for *_, time in rows] if timed else None,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"out{suffix}"
        write_interactions(data, path)
        back = load(str(path))
        assert [one.name for one in Path(folder).iterdir()] == [path.name]
    assert pairs(back) == pairs(data)
    assert (back.users, back.items) == (data.users, data.items)
    assert (ratings(back), times(back)) == (ratings(data), times(data))


def test_whole_numbers_are_written_without_a_point(tmp_path: Path) -> None:
    write_interactions(interactions([("u", "i")], [4.0], [978300760.0]), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == (
        "user_id,item_id,rating,timestamp\nu,i,4,978300760\n"
    )


def test_the_same_interactions_give_the_same_packed_bytes(tmp_path: Path) -> None:
    data = interactions([("u", "i"), ("v", "i")])
    for name in ("a.csv.gz", "b.csv.gz"):
        write_interactions(data, tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_inter_refuses_an_id_that_it_could_not_give_back(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"'a\\tb' has a tab or line break"):
        write_interactions(interactions([("a\tb", "i")]), tmp_path / "a.inter")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"must end in one of \.csv"):
        write_interactions(interactions([("u", "i")]), tmp_path / "a.xlsx")


def test_nothing_is_written_over_without_force(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("precious")
    data = interactions([("u", "i")])
    with pytest.raises(BadData, match="--force"):
        write_interactions(data, path)
    assert path.read_text() == "precious"
    write_interactions(data, path, force=True)
    assert path.read_text() == "user_id,item_id\nu,i\n"


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("precious")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_interactions(interactions([("u", "i")]), path, force=True)
    assert [one.name for one in tmp_path.iterdir()] == ["a.csv"]
    assert path.read_text() == "precious"
