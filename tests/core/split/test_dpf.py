"""Keys of one row at one position: what they expand to, compiled or not, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_core.errors import MalformedMessage
from fedrap_core.split import compiled, dpf
from fedrap_core.split.compiled import Way
from fedrap_core.split.dpf import Core, ReportBlocks, Shape, decode_core, encode_core, make_core
from fedrap_core.split.field import P, from_signed, reduce, sub, to_signed
from fedrap_core.split.layout import Layout
from tests.core.split.made import ROUND

SEEDS = (b"seed of a leader", b"seed of a helper")
LARGE = Shape(Layout(ROUND, 100_000, 100), 32)
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
        tags: list[np.ndarray] = []
        columns = dpf.expand(shape, BLOCKS, server, SEEDS[server], core, into, tags.append)
        made.append((columns, np.concatenate(tags)))
        sums.append(into.astype(np.uint64))
        assert (columns <= 2**31 - 1).all()
    exact = np.zeros(sums[0].shape, np.int64)
    exact[np.arange(layout.slots), positions] = values
    assert (to_signed(reduce(sub(*sums))) == exact).all()
    assert (to_signed(reduce(sub(made[0][0], made[1][0]))) == values).all()
    assert (made[0][1] == made[1][1]).all()


# Sizes about the borders of C: eight blocks and four nodes at a time, and some slots in a call.
@pytest.mark.parametrize("way", ["c", "numba"])
@settings(max_examples=40)
@given(
    st.sampled_from([1, 2, 3, 7, 60, 300, 5000]) | st.integers(1, 400),
    st.integers(1, 40),
    st.integers(1, 8),
    st.integers(0, 1),
    st.integers(0, 1000),
)
def test_compiled_it_is_the_same_bit_by_bit(
    way: Way, items: int, width: int, rows: int, server: int, seed: int
) -> None:
    if compiled.usual_expansion(way) != way:
        pytest.skip(f"no {way} here")
    _, expand = compiled.best_expansion(way, LARGE)
    shape = Shape(Layout(ROUND, items, rows), width)
    core, _, _ = some_core(shape, seed)
    core = decode_core(encode_core(core), shape)  # as it comes: some of it at odd addresses
    size = (shape.layout.slots, shape.layout.size, width)
    start = np.random.default_rng(seed).integers(0, P, size, np.uint32, endpoint=True)
    start[0, 0] = P  # stands for 0
    found = []
    for one in (dpf.expand, expand):
        into, tags = start.copy(), list[np.ndarray]()
        columns = one(shape, BLOCKS, server, SEEDS[server], core, into, tags.append)
        found.append([into, columns, np.concatenate(tags)])
    for plain, fast in zip(*found, strict=True):
        assert (plain == fast).all()


def test_what_says_other_numbers_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any) -> np.ndarray:
        columns = dpf.expand(*arguments)
        columns[3, 2] ^= np.uint64(1)
        return columns

    usual = compiled._from_numba
    for made in (wrong, None):
        compiled._from.cache_clear()
        monkeypatch.setattr(compiled, "_from_c", lambda made=made: made)
        monkeypatch.setattr(compiled, "_from_numba", lambda: None)
        assert compiled.best_expansion("c", LARGE) == ("numpy", dpf.expand)
    compiled._from.cache_clear()
    monkeypatch.setattr(compiled, "_from_numba", usual)
    assert compiled.usual_expansion("c") != "c"
    compiled._from.cache_clear()


def test_without_a_compiler_it_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiled, "_SOURCE", str(tmp_path / "expand.c"))  # nothing beside it
    for program in ("", "#!/bin/sh\nexit 1\n", "#!/bin/sh\n: > $5\n"):
        monkeypatch.setenv("PATH", str(tmp_path))
        (tmp_path / "cc").write_text(program)
        (tmp_path / "cc").chmod(0o755 if program else 0o644)
        assert compiled._from_c() is None


def test_small_reports_are_not_worth_a_compiler() -> None:
    assert compiled.best_expansion("c", Shape(Layout(ROUND, 50, 5), 4))[0] == "numpy"
    assert compiled.best_expansion("numpy", LARGE)[0] == "numpy"


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
