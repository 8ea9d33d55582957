"""A history from a CSV file: all of it, or a sentence with the number of the broken line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fedrap.cli import main
from fedrap.cli.csv_history import BrokenHistory, read_history
from fedrap.results import Interaction

NOW = 1_700_000_000.0


def read(folder: Path, text: str) -> list[Interaction]:
    file = folder / "history.csv"
    file.write_text(text, encoding="utf-8")
    return read_history(file, NOW)


def test_a_list_of_items_is_a_history_of_taps_that_happened_now(tmp_path: Path) -> None:
    assert read(tmp_path, "item\na\nb\n") == [
        Interaction("a", "view", 1.0, NOW),
        Interaction("b", "view", 1.0, NOW),
    ]


@pytest.mark.parametrize(
    "header",
    [
        "item,weight,timestamp,kind",
        "item_id,rating,at,kind",
        "itemId,rating,time,event",
        "\ufeffITEM_ID, Weight ,TIMESTAMP,Kind",
    ],
)
def test_columns_have_the_names_that_people_use(tmp_path: Path, header: str) -> None:
    found = read(tmp_path, f"{header}\na,4.5,100,like\nb,,,\n")
    assert found == [Interaction("a", "like", 4.5, 100.0), Interaction("b", "view", 1.0, NOW)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_delimiter_is_that_of_the_header(tmp_path: Path, delimiter: str) -> None:
    text = "title,item,rating\nAn,a,2\n".replace(",", delimiter)
    assert read(tmp_path, text) == [Interaction("a", "view", 2.0, NOW)]


def test_the_oldest_comes_first_and_equal_times_keep_their_order(tmp_path: Path) -> None:
    found = read(tmp_path, "item,at\nc,30\na,10\nb,10\n")
    assert [one.item for one in found] == ["a", "b", "c"]


def test_a_time_may_be_a_date(tmp_path: Path) -> None:
    found = read(
        tmp_path, "item,at\na,1970-01-02\nb,1970-01-02T01:00:00+01:00\nc,1970-01-03T00:00:00Z\n"
    )
    assert [one.at for one in found] == [86_400.0, 86_400.0, 172_800.0]


def test_quotes_blank_lines_and_gzip_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "history.csv.gz"
    file.write_bytes(gzip.compress(b'item\r\n"a, b"\r\n\r\nc\r\n'))
    assert [one.item for one in read_history(file, NOW)] == ["a, b", "c"]


@pytest.mark.parametrize(
    ("text", "line", "wrong"),
    [
        ("", 1, "empty"),
        ("name,rating\na,1\n", 1, "no column item, item_id, itemId"),
        ("item,item_id\na,b\n", 1, "two columns for item"),
        ("item,rating\na,1\nb\n", 3, "1 columns where the header has 2"),
        ("item\na\n" + "x" * 201 + "\n", 3, "1 to 200 characters"),
        ("item,rating\na,1\n,2\n", 3, "1 to 200 characters"),
        ('item\na\n"b\nc"\n', 4, "no line break"),
        ("item,rating\na,many\n", 2, "'many' is not a number"),
        ("item,rating\na,0\n", 2, "above 0"),
        ("item,rating\na,nan\n", 2, "above 0"),
        ("item,at\na,yesterday\n", 2, "'yesterday' is neither"),
        ("item,at\na,1700000000000\n", 2, "milliseconds"),
        ("item,at\na,nan\n", 2, "1970 and 2100"),
        ("user,item\n1,a\n1,b\n2,a\n", 4, "another user"),
        ('item\n"a\n', 2, "unexpected end"),
    ],
)  # fmt: skip
def test_a_broken_line_is_named_with_what_is_wrong(
    tmp_path: Path, text: str, line: int, wrong: str
) -> None:
    with pytest.raises(BrokenHistory, match=wrong) as broken:
        read(tmp_path, text)
    assert broken.value.line == line
    assert str(broken.value).startswith(f"line {line}: ")


def test_text_that_is_not_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "latin.csv"
    file.write_bytes(b"item\na\n\xe9t\xe9\n")
    with pytest.raises(BrokenHistory, match="line 3: the text is not UTF-8"):
        read_history(file, NOW)


def test_the_command_keeps_all_lines_or_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "history.csv"
    store = ["--store", str(tmp_path / "store"), "--json"]
    file.write_text("item,weight\na,1\nb,2\nc,-1\n", encoding="utf-8")
    assert main([*store, "import", str(file)]) == 2
    assert "line 4: a weight lies above 0" in capsys.readouterr().err
    assert main([*store, "status"]) == 0
    assert json.loads(capsys.readouterr().out)["interactions"] == 0
    file.write_text("item,weight\na,1\nb,2\n", encoding="utf-8")
    assert main([*store, "import", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == {"imported": 2, "interactions": 2}
    assert main([*store, "import", str(tmp_path / "absent.csv")]) == 2
