"""Keys of one row at one position: what they expand to, compiled or not, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_core.errors import MalformedMessage
from fedrap_core.split import compiled, dpf
from fedrap_core.split.dpf import Core, ReportBlocks, Shape, decode_core, encode_core, make_core
from fedrap_core.split.field import from_signed, reduce, sub, to_signed
from fedrap_core.split.layout import Layout
from tests.core.split.made import ROUND

SEEDS = (b"seed of a leader", b"seed of a helper")
BLOCKS = ReportBlocks.of(ROUND, b"the report's id.")


def some_core(shape: Shape, seed: int) -> tuple[Core, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    layout = shape.layout
    rows = rng.integers(-31, 32, (layout.slots, shape.width))
    positions = rng.integers(0, layout.size, layout.slots)
    return make_core(shape, BLOCKS, SEEDS, positions, from_signed(rows)), rows, positions


@settings(max_examples=25)
@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 8), st.integers(0, 1000))
def test_two_expansions_differ_by_the_row_at_its_position(
    items: int, width: int, rows: int, seed: int
) -> None:
    shape = Shape(Layout(ROUND, items, rows), width)
    layout = shape.layout
    core, values, positions = some_core(shape, seed)
    core = decode_core(encode_core(core), shape)
    sums, made = [], []
    for server in (0, 1):
        into = np.zeros((layout.slots, layout.size, width), np.uint32)
        leaves = dpf.expand_leaves(shape, BLOCKS, server, SEEDS[server], core)
        made.append(dpf.add_words(shape, BLOCKS, leaves, core, into))
        sums.append(into.astype(np.uint64))
        assert (made[server].columns <= 2**31 - 1).all()
    exact = np.zeros(sums[0].shape, np.int64)
    exact[np.arange(layout.slots), positions] = values
    assert (to_signed(reduce(sub(*sums))) == exact).all()
    assert (to_signed(reduce(sub(made[0].columns, made[1].columns))) == values).all()
    assert (made[0].tags == made[1].tags).all()


@pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")
def test_the_compiled_pass_makes_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "WORTH", 0)
    shape = Shape(Layout(ROUND, 300, 5), 7)
    layout = shape.layout
    core, _, _ = some_core(shape, 1)
    start = np.full((layout.slots, layout.size, 7), 2**31 - 1, np.uint32)  # p stands for 0
    leaves = dpf.expand_leaves(shape, BLOCKS, 1, SEEDS[1], core)
    plain, fast = start.copy(), start.copy()
    one = dpf.add_words(shape, BLOCKS, leaves, core, plain)
    two = compiled.add_words(shape, BLOCKS, leaves, core, fast)
    assert (reduce(plain.astype(np.uint64)) == reduce(fast.astype(np.uint64))).all()
    assert (reduce(one.columns) == reduce(two.columns)).all()
    assert (one.tags == two.tags).all()


def test_without_numba_numpy_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "WORTH", 0)
    monkeypatch.setattr(compiled, "is_available", lambda: False)
    shape = Shape(Layout(ROUND, 40, 3), 4)
    core, _, _ = some_core(shape, 2)
    into = np.zeros((shape.layout.slots, shape.layout.size, 4), np.uint32)
    leaves = dpf.expand_leaves(shape, BLOCKS, 0, SEEDS[0], core)
    compiled.add_words(shape, BLOCKS, leaves, core, into)
    assert into.any()


@pytest.mark.spec("13.4")
@pytest.mark.parametrize("what", ["short", "long", "seed bit", "word", "no tag", "bit at the end"])
def test_corrections_that_no_device_makes_are_refused(what: str) -> None:
    shape = Shape(Layout(ROUND, 50, 5), 4)
    core, _, _ = some_core(shape, 3)
    raw = bytearray(encode_core(core))
    nodes = shape.layout.slots * shape.layout.depth
    words = 16 * nodes + -(-2 * nodes // 8)
    if what == "short":
        raw.pop()
    elif what == "long":
        raw.append(0)
    elif what == "seed bit":
        raw[16] |= 1
    elif what == "word":
        raw[words : words + 4] = b"\xff\xff\xff\x7f"
    elif what == "no tag":
        raw[-32:] = bytes(32)
    else:
        raw[words - 1] |= 0x80
    with pytest.raises(MalformedMessage):
        decode_core(bytes(raw), shape)


def test_one_key_alone_looks_the_same_for_any_row() -> None:
    """Bits of corrections and words are even, whatever is hidden."""
    shape = Shape(Layout(ROUND, 2000, 40), 8)
    rows = np.zeros((shape.layout.slots, 8), np.uint64)
    core = make_core(shape, BLOCKS, SEEDS, np.zeros(shape.layout.slots, np.int64), rows)
    ones = np.unpackbits(np.frombuffer(core.words.tobytes(), np.uint8).reshape(-1, 4), axis=1)
    shares = ones.mean(axis=0)[[i for i in range(32) if i != 24]]  # the highest bit is never set
    assert abs(shares - 0.5).max() < 0.12
    assert abs(core.bits.mean() - 0.5) < 0.1
