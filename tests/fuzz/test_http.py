"""Raw bytes against the coordinator's HTTP side; atheris goes on from here in `make soak`."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import OfferRequest
from tests.core.messages_made import ALL_MESSAGES, any_of
from tests.fuzz.http_target import HttpTarget
from tests.fuzz.seeds import HTTP_SEEDS


@pytest.fixture(scope="module")
def target() -> Iterator[HttpTarget]:
    made = HttpTarget()
    yield made
    made.close()


@pytest.mark.parametrize("raw", HTTP_SEEDS, ids=lambda raw: repr(raw[:30]))
def test_known_tricks_are_answered_or_hung_up_on(target: HttpTarget, raw: bytes) -> None:
    target.feed(raw)


def test_the_target_gets_where_it_should(target: HttpTarget) -> None:
    """Otherwise nothing below says anything: signed bodies reach their handlers."""
    asked = target.feed(b"\x01" + encode(OfferRequest(release=1)))
    assert [one.status for one in asked] == [200]
    chunked = target.feed(b"\x11" + encode(OfferRequest(release=1)))
    assert [one.status for one in chunked] == [200]
    garbage = target.feed(b"\x01garbage")
    assert [one.status for one in garbage] == [400]
    assert b"urn:fedrap:problem:malformed" in garbage[0].body
    looked = target.feed(b"\x03")
    assert [one.status for one in looked] == [200]
    assert target.feed(b"\x21" + encode(OfferRequest(release=1))) == []  # cut off: no answer


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A seed or a good message behind a good signature, with some bytes changed."""
    if draw(st.booleans()):
        raw = bytearray(draw(st.sampled_from(HTTP_SEEDS)))
    else:
        message = encode(draw(any_of(draw(st.sampled_from(ALL_MESSAGES)))))
        raw = bytearray(bytes([draw(st.integers(0, 255))]) + message)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, max(0, len(raw) - 1)))
        raw[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(raw)


def test_spoilt_requests_are_never_a_500(target: HttpTarget) -> None:
    statuses: Counter[int] = Counter()
    for seed in HTTP_SEEDS:
        statuses.update(one.status for one in target.feed(seed))

    @settings(max_examples=100)
    @given(spoilt())
    def run(raw: bytes) -> None:
        statuses.update(one.status for one in target.feed(raw))

    run()
    assert len(statuses) > 3, statuses  # it came to more than one kind of answer


def test_memory_does_not_grow_with_what_was_refused(target: HttpTarget) -> None:
    rng = random.Random(7)
    inputs = [bytes([rng.randrange(256)]) + rng.randbytes(rng.randrange(600)) for _ in range(60)]
    for raw in inputs:
        target.feed(raw)
    tracemalloc.start()
    try:
        for raw in inputs:
            target.feed(raw)
        before = _in_use()
        for raw in inputs:
            target.feed(raw)
        after = _in_use()
    finally:
        tracemalloc.stop()
    assert after - before < 128 * 1024


def _in_use() -> int:
    """Bytes that somebody still holds; what waits for the collector is not what grows."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
