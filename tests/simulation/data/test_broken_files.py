"""A broken file is refused with its name, the line, what is wrong and what to do."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.load import load
from tests.simulation.data.made import put

GOOD = "user,item,rating,timestamp\n1,2,3,4\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (GOOD + "\n1,2,3\n", 4, ["3 columns", "header has 4", "'1,2,3'", "delete it"]),
        (GOOD + "1,2,3,4,5\n", 3, ["5 columns", "header has 4"]),
        (GOOD + "   \n", 3, ["1 columns"]),
        (GOOD + "1;2;3;4\n", 3, ['separated by ";"', 'before by ","', "one separator"]),
        (GOOD + "1\t2\t3\t4\n", 3, ["separated by a tab"]),
        (GOOD + ",2,3,4\n", 3, ["user id is empty", "Fill it in"]),
        (GOOD + "1,  ,3,4\n", 3, ["item id is empty"]),
        (GOOD + '1,"",3,4\n', 3, ["item id is empty"]),
        (GOOD + "1,2,good,4\n", 3, ['rating "good" is not a finite number']),
        (GOOD + "1,2,NaN,4\n", 3, ["rating is NaN"]),
        (GOOD + "1,2,inf,4\n", 3, ['rating "inf"']),
        (GOOD + "1,2,1e999,4\n", 3, ['rating "1e999"']),
        (GOOD + "1,2,1_0,4\n", 3, ['rating "1_0"']),
        (GOOD + "1,2,,4\n", 3, ["rating is empty", "whole column out"]),
        (GOOD + "1,2,3,yesterday\n", 3, ['time "yesterday" is not']),
        (GOOD + "1,2,3,2000-11-01\n", 3, ['time "2000-11-01"']),
        ("user,item,time\n1,2,2000-11-01\n1,2,2000-13-01\n", 3, ['"2000-13-01"', "ISO dates"]),
        ("user,item,time\n1,2,2000-11-01\n1,2,975000000\n", 3, ['"975000000"', "in all lines"]),
        ("user,item,time\n1,2,11/1/2000\n", 2, ['"11/1/2000"', "2000-11-01"]),
        ("user,item,time\n1,2,2000-11-01\n1,2,\n", 3, ["time is empty"]),
        ('user,item\n"two\nlines",2\n\n3,\n', 5, ["item id is empty"]),
        ('user,item\n1,2\n3,"4\n5,6\n', 3, ["quote is opened"]),
        ("1::2::3::4\n1::2::3\n", 2, ["3 columns", "first line has 4"]),
        ("1::2::3::4\n1:2:3:4\n", 2, ["1 columns", "first line has 4"]),
        ("user_id:token\titem_id:token\n1\t2\n1\t\n", 3, ["item id is empty"]),
        ("user_id,item_id,click\n1,2,1\n1,2,maybe\n", 3, ['click "maybe"']),
        ("who,what\nx,y\n", 1, ["user and the item", "found: who, what", "user_id", "movie_id"]),
        ("user,thing,rating\nx,y,1\n", 1, ["no column for the item", "found: user, thing, rating"]),
        ("1,2,978300760\n", 1, ["looks like a time", "header"]),
    ],
)
def test_the_line_and_the_reason_are_said(
    tmp_path: Path, text: str, line: int, words: list[str]
) -> None:
    path = put(tmp_path / "ratings.csv", text)
    with pytest.raises(BadData) as caught:
        load(path)
    said = str(caught.value)
    assert said.startswith(f"{path}, line {line}: ")
    for word in words:
        assert word in said


def test_a_faulty_line_is_found_far_inside_a_large_packed_file(tmp_path: Path) -> None:
    lines = [f"{row % 977},{row % 313},3,{row}" for row in range(200_000)]
    lines[150_000] = "1,2,3"
    path = put(tmp_path / "big.csv.gz", "user,item,rating,time\n" + "\n".join(lines) + "\n")
    with pytest.raises(BadData, match=r"big\.csv\.gz, line 150002: 3 columns"):
        load(path)


def test_bytes_that_are_not_utf8_are_found(tmp_path: Path) -> None:
    path = put(tmp_path / "latin.csv", b"user,item\n1,2\nJos\xe9,3\n")
    with pytest.raises(BadData, match=r"latin\.csv, line 3: byte 0xe9 is not UTF-8.*iconv"):
        load(path)


def test_a_gzip_file_cut_short_is_refused_with_the_last_line(tmp_path: Path) -> None:
    noise = random.Random(1)
    rows = "".join(f"{noise.random()},{noise.random()}\n" for _ in range(2000))
    whole = gzip.compress(f"user,item\n{rows}".encode())
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        BadData, match=r"cut\.csv\.gz, line (\d+): the gzip data ends too"
    ) as caught:
        load(str(path))
    line = int(str(caught.value).split("line ")[1].split(":")[0])
    assert 500 < line < 1500


def test_a_gzip_file_with_a_changed_byte_is_refused(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(GOOD.encode()))
    whole[-6] ^= 0xFF  # in the checksum
    path = tmp_path / "changed.csv.gz"
    path.write_bytes(whole)
    with pytest.raises(BadData, match=r"changed\.csv\.gz, line \d+: the gzip data is broken"):
        load(str(path))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"user,item\n\n", "no interaction below"),
        (b"PK\x03\x04rest", "zip archive; unpack"),
        (b"PAR1 and nothing else", "Parquet file can't be read"),
        (b"user_id,item_id,click\n1,2,0\n", "no row has a click"),
    ],
)
def test_files_without_anything_to_read_are_refused(tmp_path: Path, raw: bytes, words: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(raw)
    with pytest.raises(BadData) as caught:
        load(str(path))
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"user": ["1", None], "item": ["2", "3"]}, "row 2: the user id is empty"),
        ({"user": [1.5, 2.0], "item": ["2", "3"]}, "user ids in column user are of type double"),
        ({"user": ["1", "1"], "thing": ["2", "3"]}, "no column for the item"),
        ({"user": ["1"] * 2, "item": ["2"] * 2, "rating": [1.0, None]}, "row 2: the rating is"),
        ({"user": ["1"] * 2, "item": ["2"] * 2, "time": ["1", "x"]}, 'row 2: the time "x"'),
        ({"user": ["1"] * 2, "item": ["2"] * 2, "rating": [[1], [2]]}, "rating is of type list"),
        ({"user": pa.array([], "string"), "item": pa.array([], "string")}, "no interaction"),
    ],
)
def test_broken_parquet_is_refused_with_the_row(
    tmp_path: Path, columns: dict[str, list[object]], words: str
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(BadData) as caught:
        load(str(path))
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_a_folder_and_a_path_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="is a folder; give the file"):
        load(str(tmp_path))
    with pytest.raises(BadData, match=r"no file .*nothing\.csv, and no set of that name.*ml-100k"):
        load(str(tmp_path / "nothing.csv"))
