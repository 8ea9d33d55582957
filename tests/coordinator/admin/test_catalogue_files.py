"""Catalogue files: good ones of each kind, bad lines with their places; where new items start."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_coordinator.admin.catalogue_files import read_items
from fedrap_coordinator.domain.cold_start import start_rows
from fedrap_coordinator.domain.records import NewItem
from fedrap_coordinator.errors import ConfigError

EMMA = NewItem("emma", {"category": "novel", "year": "1815"})
BARE = NewItem("bare")

GOOD = {
    "a.csv": 'item,category,year\nemma,novel,1815\n\n"bare",,\n',
    "a.tsv": "year\tid\tcategory\n1815\temma\tnovel\n\tbare\t\n",
    "a.json": '[\n {"id": "emma", "category": "novel", "year": 1815},\n "bare"\n]',
    "a.jsonl": '{"item_id": "emma", "category": "novel", "year": 1815}\n"bare"\n',
}


@pytest.mark.parametrize("name", GOOD)
def test_every_kind_of_file_gives_the_same_items(name: str) -> None:
    assert read_items(name, GOOD[name]) == [EMMA, BARE]
    assert read_items(name, "\ufeff" + GOOD[name]) == [EMMA, BARE]


def test_plain_text_has_one_id_a_line_and_names_may_come_twice() -> None:
    assert read_items("-", "emma\n\n  bare \nemma") == [NewItem("emma"), BARE]


BAD = [
    ("a.csv", "name,category\nx,y\n", "a.csv:1: the first line names no column item or id"),
    ("a.csv", "item,year\nx,1,2\ny,3\n", "a.csv:2: has 3 cells, the header 2"),
    ("a.csv", 'item,title\n"two\nlines",x\nok,y\n', "a.csv:2: an id has 1 to 200"),
    ("a.csv", 'item,title\nok,"two\nlines"\n,z\n', "a.csv:4: an id has 1 to 200"),
    ("a.csv", 'item\n"x', "not CSV"),
    ("a.csv", "item,item\nx,y\n", "a.csv:1: two columns"),
    ("a.csv", "item,year\nx,1\nx,2\n", "a.csv:3: 'x' has other attributes in line 2"),
    ("a.csv", "item\n", "there is no item in it"),
    ("a.json", '{"id": "x"}', "a.json:1: a JSON file of items is a list"),
    ("a.json", '[\n"x",\n{"name": 1}]', "a.json:3: names no item or id"),
    ("a.json", '["x",\n', "a.json:2: the list has no end"),
    ("a.json", '["x",\n oops]', "a.json:2: not JSON"),
    ("a.json", '[\n\n["x"]]', "a.json:3: an item is an id or an object"),
    ("a.json", '[{"id": "x", "tags": ["a"]}]', "a.json:1: tags: an attribute is a word"),
    ("a.jsonl", '"x"\n{"id": "y", "t": ""}\n', "a.jsonl:2: t: a value has 1 to 500"),
    ("a.txt", "ok\n" + "x" * 201, "a.txt:2: an id has 1 to 200"),
    ("a.json", json.dumps([{"id": "x", **{f"a{n}": n for n in range(33)}}]), "at most 32"),
]


@pytest.mark.parametrize(("name", "text", "says"), BAD, ids=range(len(BAD)))
def test_bad_lines_are_named_and_nothing_is_imported(name: str, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_items(name, text)
    assert says in str(refused.value)


def test_all_bad_lines_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        read_items("a.csv", "item,year\n" + ",1\n" * 15)
    assert str(refused.value).count("an id has") == 10
    assert "and 5 more; nothing was imported" in str(refused.value)


@given(st.sampled_from(["a.csv", "a.tsv", "a.json", "a.jsonl", "a.txt"]), st.text(max_size=300))
def test_any_text_is_items_or_a_clear_error(name: str, text: str) -> None:
    items, said = [], ""
    try:
        items = read_items(name, text)
    except ConfigError as refused:
        said = str(refused)
    assert len({item.id for item in items}) == len(items)
    assert items or name in said


def test_a_new_item_starts_at_the_mean_of_its_likes() -> None:
    common = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 5.0], [0.0, 0.0]])
    alike = [
        (0, "category", "a"), (1, "category", "a"), (2, "maker", "m"), (3, "category", "a"),
        (4, "category", "a"), (4, "title", "only mine"),
        (5, "category", "a"), (5, "maker", "m"),
        (7, "category", "a"),  # beyond this release
    ]  # fmt: skip
    start = start_rows(common, 3, alike)
    assert start.tolist() == [[2.0, 0.0], [1.0, 2.5], [0.0, 0.0]]


def test_without_attributes_new_items_start_at_zero() -> None:
    assert not start_rows(np.ones((3, 2)), 2, []).any()


@pytest.mark.parametrize("seed", range(5))
def test_a_new_item_of_a_known_category_ranks_above_chance_before_any_update(seed: int) -> None:
    """Planted: items of a category lie around its centre, users like one category.

    The mean percentile of new items for users of their category is well above one half, and it is
    exactly one half for the row of zeros that they would get without attributes.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 1, (6, 8))  # (categories, k)
    kind = rng.integers(0, 6, 240)
    common = centres[kind] + rng.normal(0, 0.7, (240, 8))
    fresh = rng.integers(0, 6, 30)
    alike = [(row, "category", str(one)) for row, one in enumerate([*kind, *fresh])]
    start = start_rows(common, 30, alike)
    ranks = []
    for place, one in enumerate(fresh):
        user = centres[one] + rng.normal(0, 0.5, 8)
        ranks.append(float(np.mean(common @ user < start[place] @ user)))
    assert np.mean(ranks) > 0.75
