"""A few bytes that state many values: what do they cost whoever decodes them?

Version 0.1 made an object of every value before it looked at one: four bodies of 4 MiB took the
coordinator to 1.3 GB, fifteen to 6.5 GB.
"""

from __future__ import annotations

import contextlib
import tracemalloc

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_core.errors import FedRapError, MalformedMessage
from fedrap_core.plan import Plan
from fedrap_core.wire.codec import MAX_DEPTH, MAX_VALUES, check_bounds, decode, decode_value
from fedrap_core.wire.messages import OfferRequest, Update

MIB = 1024 * 1024
BOMBS = {
    "small integers": b"\xdd" + (4 * MIB - 5).to_bytes(4, "big") + b"\x01" * (4 * MIB - 5),
    "empty maps": b"\xdd" + (4 * MIB - 5).to_bytes(4, "big") + b"\x80" * (4 * MIB - 5),
    "empty strings": b"\xdd" + (4 * MIB - 5).to_bytes(4, "big") + b"\xa0" * (4 * MIB - 5),
    "arrays in arrays": b"\x91" * (4 * MIB - 1) + b"\x01",
    "a map of pairs": b"\xdf" + (MIB).to_bytes(4, "big") + b"\xa0\x01" * MIB,
    "an array that is not there": b"\xdd\xff\xff\xff\xff",
    "a map that is not there": b"\xdf\xff\xff\xff\xff",
    "bytes that are not there": b"\x81\xa1v\xc6\xff\xff\xff\xff",
    "an unknown field full of values": b"\x83\xa1v\x01\xa4type\xadoffer-request\xa1x"
    + b"\xdd" + MIB.to_bytes(4, "big") + b"\x01" * MIB,
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.spec("1.7")
def test_a_bomb_is_refused_before_it_costs_anything(name: str) -> None:
    tracemalloc.start()
    try:
        for kind in (OfferRequest, Update):
            with pytest.raises(FedRapError):
                decode(kind, BOMBS[name])
        with pytest.raises(FedRapError):
            decode_value(Plan, BOMBS[name], 8 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
        | st.binary(),
        lambda some: st.lists(some, max_size=5) | st.dictionaries(st.text(), some, max_size=5),
        max_leaves=40,
    )
)  # fmt: skip
def test_whatever_msgpack_writes_has_the_bounds_that_it_has(value: object) -> None:
    def count(one: object) -> tuple[int, int]:
        if not isinstance(one, dict | list):
            return 1, 0
        inside = [count(other) for other in (one.values() if isinstance(one, dict) else one)]
        keys = len(one) if isinstance(one, dict) else 0
        depth = 1 + max((deep for _, deep in inside), default=0)
        return 1 + keys + sum(values for values, _ in inside), depth

    raw, (values, depth) = msgpack.packb(value), count(value)
    check_bounds(raw, values, max(depth, 1))
    if values > 1:
        with pytest.raises(MalformedMessage):
            check_bounds(raw, values - 1, 100)
    for cut in (raw[:-1], raw + b"\x01"):
        with pytest.raises(MalformedMessage):
            check_bounds(cut, 10_000, 100)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=60))
def test_bytes_within_bounds_are_bytes_that_msgpack_reads_or_refuses(raw: bytes) -> None:
    """What passes costs at most MAX_VALUES objects; what msgpack would refuse may pass."""
    try:
        check_bounds(raw)
    except MalformedMessage:
        return
    with contextlib.suppress(ValueError):
        msgpack.unpackb(raw, raw=False, strict_map_key=True)


def test_the_bounds_leave_room_for_the_largest_of_our_messages() -> None:
    assert (MAX_VALUES, MAX_DEPTH) == (1024, 8)
