"""Places of items, and rows into slots."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.split.dpf import Shape
from fedrap_core.split.layout import TABLES, Layout, assign_slots
from fedrap_core.split.proof import Circuit
from tests.core.split.made import ROUND


@given(st.integers(1, 400), st.integers(1, 30))
def test_every_item_has_a_place_of_its_own_in_every_table(items: int, rows: int) -> None:
    layout = Layout(ROUND, items, rows)
    slots, positions = layout.places(np.arange(items))
    for table in range(TABLES):
        assert len(set(zip(slots[table], positions[table], strict=True))) == items
        assert set(slots[table] // layout.table_slots) == {table}
    assert positions.max() < layout.size


@given(st.integers(2, 400), st.data())
def test_a_device_finds_its_items_where_the_servers_do(items: int, data: st.DataObject) -> None:
    layout = Layout(ROUND, items, 5)
    some = np.array(data.draw(st.lists(st.integers(0, items - 1), max_size=8)), dtype=np.int64)
    slots, positions = layout.places(np.arange(items))
    mine, here = layout.places(some)
    assert (mine == slots[:, some]).all()
    assert (here == positions[:, some]).all()


def test_another_round_has_other_places() -> None:
    one = Layout(ROUND, 1000, 20).places(np.arange(1000))[0]
    other = Layout(bytes(16), 1000, 20).places(np.arange(1000))[0]
    assert np.mean(one == other) < 0.2


@given(st.lists(st.lists(st.integers(0, 8), min_size=3, max_size=3), max_size=9))
def test_no_two_rows_share_a_slot_and_each_is_in_one_of_its_own(choices: list[list[int]]) -> None:
    placed = assign_slots(choices, 9)
    taken = [slot for slot in placed if slot >= 0]
    assert len(taken) == len(set(taken))
    assert all(s < 0 or s in mine for s, mine in zip(placed, choices, strict=True))
    # nobody loses its slot to one that comes later
    assert assign_slots(choices[:-1], 9).count(-1) == placed[:-1].count(-1)


def test_no_row_is_lost_among_as_many_as_the_plan_has() -> None:
    rng, lost = np.random.default_rng(3), 0
    layout = Layout(ROUND, 5000, 100)
    for _ in range(100):
        slots, _ = layout.places(rng.choice(5000, 100, replace=False))
        lost += assign_slots(slots.T.tolist(), layout.slots).count(-1)
    assert lost == 0


@pytest.mark.parametrize(
    ("items", "dim", "rows", "limit", "known"),
    [  # sizes that an independent prototype of the protocol has
        (50, 16, 5, 1154, (9, 17, 5, 3, 94, 2, 1596, 292)),
        (1700, 32, 100, 9384, (129, 40, 6, 8, 582, 3, 33218, 1105)),
        (32000, 32, 100, 9384, (129, 745, 10, 8, 582, 3, 41603, 1105)),
        (100000, 64, 200, 35185, (258, 1163, 11, 17, 1094, 3, 120422, 2202)),
        (1000000, 32, 100, 9384, (129, 23256, 15, 8, 582, 3, 52084, 1105)),
    ],
)
def test_known_sizes(items: int, dim: int, rows: int, limit: int, known: tuple[int, ...]) -> None:
    layout = Layout(ROUND, items, rows)
    circuit = Circuit(layout.slots * dim + dim * (dim + 1) // 2, limit)
    assert known == (
        layout.slots, layout.size, layout.depth, circuit.calls, circuit.wires, circuit.digits,
        Shape(layout, dim).core_bytes, circuit.proof_words,
    )  # fmt: skip
