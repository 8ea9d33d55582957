"""Item ids in a few bytes each, against a plain dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core import items
from fedrap_core.errors import MalformedMessage
from fedrap_core.items import ItemIds, is_item_id, join_ids

ids = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1, max_size=20)
lists = st.lists(ids, unique=True, max_size=40)


@given(lists, ids)
def test_every_id_has_its_row_and_no_other_has_one(names: list[str], other: str) -> None:
    found = ItemIds(join_ids(names))
    assert len(found) == len(names)
    assert [found.name(row) for row in range(len(names))] == names
    assert [found.row(name) for name in names] == list(range(len(names)))
    assert found.row(other) == (names.index(other) if other in names else None)


@given(lists, lists)
def test_more_ids_come_behind_those_that_are_there(first: list[str], more: list[str]) -> None:
    fresh = [name for name in more if name not in first]
    found = ItemIds(join_ids(first)).extended(join_ids(fresh))
    assert [found.row(name) for name in first + fresh] == list(range(len(first) + len(fresh)))


def test_ids_across_many_chunks_are_found() -> None:
    names = [f"item-{row}" for row in range(150_000)]
    found = ItemIds(join_ids(names))
    for row in (0, 1, 65_535, 65_536, 131_071, 131_072, 149_999):
        assert found.row(f"item-{row}") == row
        assert found.name(row) == f"item-{row}"
    assert found.row("item-150000") is None
    assert found.row("") is None


def test_ids_that_begin_alike_are_told_apart() -> None:
    names = ["a", "aa", "aaa", "ab", "ba", "é", "e", "\x00", "\x00\x00"]
    found = ItemIds(join_ids(names))
    assert [found.row(name) for name in names] == list(range(len(names)))


def test_names_with_the_same_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "_hash_one", lambda raw: 7)
    monkeypatch.setattr(
        ItemIds, "_hash_chunk", lambda self, start, stop: np.full(stop - start, 7, np.uint32)
    )
    found = ItemIds(join_ids(["one", "two", "three"]))
    assert [found.row(name) for name in ("one", "two", "three", "four")] == [0, 1, 2, None]


@pytest.mark.parametrize("blob", [b"a", b"a\nb", b"\n", b"a\n\nb\n", b"x" * 801 + b"\n"])
def test_what_is_not_a_list_of_ids_is_malformed(blob: bytes) -> None:
    with pytest.raises(MalformedMessage):
        ItemIds(blob)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_ids_or_malformed(blob: bytes) -> None:
    try:
        found = ItemIds(blob)
    except MalformedMessage:
        return
    for row in range(len(found)):
        found.name(row)
    found.row("x")


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("a", True),
        ("x" * 200, True),
        ("", False),
        ("x" * 201, False),
        ("a\nb", False),
        ("\r", False),
    ],
)
def test_an_id_has_1_to_200_characters_and_no_line_break(text: str, fine: bool) -> None:
    assert is_item_id(text) is fine
