"""hypothesis over every decoder: noise, and good messages with a few bytes changed."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_core.wire.codec import encode
from tests.core.messages_made import ALL_MESSAGES, any_of
from tests.fuzz.targets import TARGETS, feed


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A good message of any kind, with bytes changed, cut or added."""
    raw = bytearray(encode(draw(any_of(draw(st.sampled_from(ALL_MESSAGES))))))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, max(0, len(raw) - 1)))
        raw[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(raw)


@pytest.mark.spec("1.6")
@pytest.mark.parametrize("name", TARGETS)
def test_noise_gets_an_answer_in_our_own_words(name: str) -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.one_of(st.binary(max_size=400), spoilt(), st.text(max_size=80).map(str.encode)))
    def run(raw: bytes) -> None:
        feed(name, raw)

    run()


def test_memory_does_not_grow_with_what_was_refused() -> None:
    """After a warm-up, 4,000 broken inputs leave less than 64 kB behind."""
    rng = random.Random(7)
    inputs = [rng.randbytes(rng.randrange(300)) for _ in range(200)]

    def round_of_all() -> None:
        for name in TARGETS:
            for raw in inputs[: 4000 // len(TARGETS) // 2]:
                feed(name, raw)

    round_of_all()
    tracemalloc.start()
    try:
        round_of_all()
        before = tracemalloc.get_traced_memory()[0]
        round_of_all()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 64 * 1024


def test_every_function_that_decodes_is_a_target() -> None:
    """Who adds a decoder of the wire names it in targets.py."""
    root = Path(__file__).parents[2] / "core" / "fedrap_core" / "wire"
    said = (Path(__file__).parent / "targets.py").read_text()
    for path in root.glob("*.py"):
        for line in path.read_text().splitlines():
            if line.startswith(("def decode", "def read_", "def open_", "def unpack", "def apply")):
                name = line[4:].partition("(")[0]
                if name != "decode_one_of":  # decode, over several kinds
                    assert name in said, f"{path.name}: {name}"
