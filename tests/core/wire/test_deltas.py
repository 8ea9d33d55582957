"""A delta gives the very C of its version, or is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import BrokenModel
from fedrap_core.model import CommonItems
from fedrap_core.plan import Scoring
from fedrap_core.quantize import QuantizedRows
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Delta, Release
from fedrap_core.wire.releases import apply_delta, model_hash, pack_delta, pack_release
from tests.core.made import quick, random_items, seeds

TASK = bytes(16)


def _pair(seed: int, size: int, more: int, changed: int) -> tuple[CommonItems, CommonItems]:
    """An older C, and a newer one with some rows changed and some more."""
    rng = np.random.default_rng(seed)
    new = CommonItems(5, random_items(rng, size=size + more).items)
    values, scales = new.items.values[:size].copy(), new.items.scales[:size].copy()
    rows = rng.choice(size, changed, replace=False)
    values[rows] = 3
    scales[rows] = 0.5
    return CommonItems(2, QuantizedRows(values, scales)), new


def _release(new: CommonItems) -> Release:
    return pack_release(TASK, 4, new, 1, Scoring())


def _delta() -> tuple[CommonItems, Delta]:
    old, new = _pair(1, 20, 2, 3)
    delta = pack_delta(old, new, _release(new))
    assert delta is not None
    return old, delta


@quick
@given(seeds, st.integers(0, 4), st.integers(0, 6))
@pytest.mark.spec("7.13")
def test_applied_to_the_old_it_gives_the_new_bit_for_bit(
    seed: int, more: int, changed: int
) -> None:
    old, new = _pair(seed, 20, more, changed)
    delta = pack_delta(old, new, _release(new))
    assert delta is not None
    assert len(delta.rows) // 4 <= more + changed
    back = apply_delta(old, decode(Delta, encode(delta)))
    assert back.version == 5
    assert model_hash(back.items) == model_hash(new.items)


def test_the_old_c_stays_as_it_was() -> None:
    old, delta = _delta()
    before = model_hash(old.items)
    apply_delta(old, delta)
    assert model_hash(old.items) == before


def test_where_most_rows_changed_the_whole_is_sent() -> None:
    old, new = _pair(1, 20, 0, 19)
    assert pack_delta(old, new, _release(new)) is None


def test_from_a_larger_c_or_another_dim_there_is_no_delta() -> None:
    _, new = _pair(1, 20, 0, 1)
    smaller = random_items(np.random.default_rng(0), size=3)
    assert pack_delta(new, smaller, _release(smaller)) is None
    other = random_items(np.random.default_rng(0), size=20, dim=3)
    assert pack_delta(other, new, _release(new)) is None


@pytest.mark.spec("7.13")
@pytest.mark.parametrize(
    "change",
    [
        {"since": 3},
        {"dim": 3},
        {"size": 21},
        {"size": 19},
        {"size": 2**31},
        {"model": bytes(32)},
        {"rows": b"abc"},
        {"rows": b""},
        {"scales": b""},
        {"bitmap": b""},
        {"bitmap": bytes(3)},
        {"values": bytes(7)},
        {"values": b""},
        {"rows": np.array([5, 4, 3, 20, 21], dtype="<u4").tobytes()},
        {"rows": np.array([1, 1, 2, 20, 21], dtype="<u4").tobytes()},
        {"rows": np.array([1, 2, 3, 20, 22], dtype="<u4").tobytes()},
        {"rows": np.array([1, 2, 3, 4, 21], dtype="<u4").tobytes()},
    ],
)
def test_a_delta_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    old, delta = _delta()
    with pytest.raises(BrokenModel):
        apply_delta(old, msgspec.structs.replace(delta, **change))


@quick
@given(st.data())
def test_a_damaged_delta_is_refused(data: st.DataObject) -> None:
    old, delta = _delta()
    field = data.draw(st.sampled_from(["rows", "scales", "bitmap", "values"]))
    raw = bytearray(getattr(delta, field))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BrokenModel):
        apply_delta(old, msgspec.structs.replace(delta, **{field: bytes(raw)}))
