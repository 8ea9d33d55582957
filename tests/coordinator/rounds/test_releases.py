"""Versions of C: the first by its seed, the next by one step, and what devices are served."""

from __future__ import annotations

import gzip
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_coordinator.domain.records import Extent, StoredRelease
from fedrap_coordinator.rounds.releases import (
    Model,
    encode_release,
    first_model,
    load_model,
    next_model,
)
from fedrap_coordinator.settings import Settings
from fedrap_core.errors import BrokenModel
from fedrap_core.solve.server_step import RoundSum
from fedrap_core.sparse import pack_gram
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import served_rows, unpack_release
from testkit.harness import DIM, small_settings

TASK = b"t" * 16
SIZE = 6
VIEW = Extent(SIZE, 1)
GROWN = Extent(SIZE + 3, 2)
SETTINGS = small_settings()


def seeded(seed: int) -> Settings:
    return msgspec.structs.replace(SETTINGS, seed=seed)


def a_sum(*rows: int, value: float = 0.5, devices: int = 2) -> RoundSum:
    chosen = np.array(rows, dtype=np.int64)
    return RoundSum(
        chosen, np.full((len(rows), DIM), value), pack_gram(np.eye(DIM)) * devices, devices
    )


def numbers(model: Model) -> tuple[bytes, bytes]:
    return model.common.items.values.tobytes(), model.common.items.scales.tobytes()


@given(st.integers(0, 2**63), st.integers(1, 40))
def test_the_first_release_follows_from_its_seed(seed: int, size: int) -> None:
    one, same = (first_model(TASK, Extent(size, 1), seeded(seed)) for _ in range(2))
    assert one.stored == same.stored
    assert one.common.items.shape == (size, DIM)


def test_another_seed_gives_another_release() -> None:
    assert numbers(first_model(TASK, VIEW, seeded(1))) != numbers(
        first_model(TASK, VIEW, seeded(2))
    )


def test_the_first_release_is_version_1_of_step_0_and_of_nobody() -> None:
    stored = first_model(TASK, VIEW, SETTINGS).stored
    assert (stored.version, stored.step, stored.devices, stored.gram) == (1, 0, 0, None)


def test_version_and_step_grow_by_one_each() -> None:
    model = first_model(TASK, VIEW, SETTINGS)
    for count in range(1, 4):
        model = next_model(TASK, model, a_sum(0, 3), VIEW, SETTINGS)
        assert (model.stored.version, model.stored.step) == (count + 1, count)
        assert model.stored.devices == 2
        message = decode(Release, model.stored.body)
        assert (message.version, message.step, message.task) == (count + 1, count, TASK)


def test_a_step_changes_the_rows_that_were_touched_and_no_other() -> None:
    before = first_model(TASK, VIEW, SETTINGS)
    after = next_model(TASK, before, a_sum(1, 4), VIEW, SETTINGS)
    old, new = (model.common.items.to_float() for model in (before, after))
    changed = np.flatnonzero(np.any(old != new, axis=1))
    np.testing.assert_array_equal(changed, [1, 4])


@pytest.mark.spec("7.3")
def test_new_items_become_rows_of_zeros_after_the_old_ones() -> None:
    before = first_model(TASK, VIEW, SETTINGS)
    grown = next_model(TASK, before, a_sum(0), GROWN, SETTINGS)
    same = next_model(TASK, before, a_sum(0), VIEW, SETTINGS)
    assert grown.common.size == SIZE + 3
    np.testing.assert_array_equal(
        grown.common.items.to_float()[:SIZE], same.common.items.to_float()
    )
    assert not grown.common.items.to_float()[SIZE:].any()
    learnt = next_model(TASK, grown, a_sum(SIZE + 2), GROWN, SETTINGS)
    assert learnt.common.items.to_float()[SIZE + 2].any()


def test_the_running_gram_matrix_is_kept_with_the_release() -> None:
    first = next_model(TASK, first_model(TASK, VIEW, SETTINGS), a_sum(0), VIEW, SETTINGS)
    assert first.stored.gram is not None
    kept = np.frombuffer(first.stored.gram, dtype="<f8").reshape(DIM, DIM)
    np.testing.assert_allclose(kept, np.eye(DIM), atol=1e-12)
    again = next_model(TASK, load_model(first.stored), a_sum(2), VIEW, SETTINGS)
    assert again.stored == next_model(TASK, first, a_sum(2), VIEW, SETTINGS).stored


def test_a_stored_release_loads_to_the_same_model() -> None:
    made = next_model(TASK, first_model(TASK, VIEW, SETTINGS), a_sum(5), VIEW, SETTINGS)
    loaded = load_model(made.stored)
    assert numbers(loaded) == numbers(made)
    assert (loaded.message.model, loaded.encoded) == (made.message.model, loaded.encoded)
    assert loaded.common.version == 2


@pytest.mark.spec("2.5", "7.2")
def test_what_is_served_compressed_is_what_is_served_plain() -> None:
    model = first_model(TASK, Extent(50, 7), SETTINGS)
    assert gzip.decompress(model.encoded.gzipped) == model.encoded.body == model.stored.body
    assert encode_release(model.stored).gzipped == model.encoded.gzipped  # no time of day inside
    message = decode(Release, model.encoded.body)
    assert message.model == model.message.model
    assert (unpack_release(message).size, message.catalogue) == (50, 7)


@pytest.mark.spec("7.4")
def test_a_release_tells_devices_how_to_score() -> None:
    message = decode(Release, first_model(TASK, VIEW, SETTINGS).stored.body)
    assert message.scoring == SETTINGS.scoring


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_a_sum_that_gives_no_usable_c_is_refused(value: float) -> None:
    model = first_model(TASK, VIEW, SETTINGS)
    with pytest.raises(BrokenModel):
        next_model(TASK, model, a_sum(0, 1, value=value), VIEW, SETTINGS)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_triangle_that_is_not_finite_is_refused(value: float) -> None:
    model = first_model(TASK, VIEW, SETTINGS)
    total = replace(a_sum(0), packed_gram=np.full(DIM * (DIM + 1) // 2, value))
    with pytest.raises(BrokenModel):
        next_model(TASK, model, total, VIEW, SETTINGS)


def test_a_stored_release_with_another_hash_is_not_loaded() -> None:
    stored = first_model(TASK, VIEW, SETTINGS).stored
    message = decode(Release, stored.body)
    other = bytes([message.values[0] ^ 1]) + message.values[1:]
    changed = encode(msgspec.structs.replace(message, values=other))
    with pytest.raises(BrokenModel, match="hash"):
        load_model(StoredRelease(1, 0, 0, changed, None))


def test_rows_that_few_devices_stand_behind_are_withheld_until_more_do() -> None:
    learning = msgspec.structs.replace(SETTINGS.learning, min_support=3.0)
    settings = msgspec.structs.replace(SETTINGS, learning=learning)
    first = first_model(TASK, VIEW, settings)
    assert first.message.withheld == b""  # it has learnt nothing, the catalogue's order counts
    total = replace(a_sum(1, 4, value=1.0), bound=1.0)  # |row| is 2: two devices at the least
    once = next_model(TASK, first, total, VIEW, settings)
    assert not served_rows(once.message.withheld, SIZE).any()
    twice = next_model(TASK, load_model(once.stored), total, GROWN, settings)
    served = served_rows(twice.message.withheld, SIZE + 3)
    assert np.flatnonzero(served).tolist() == [1, 4]
    assert twice.stored.support is not None
    third = next_model(TASK, load_model(twice.stored), total, GROWN, settings)  # with new rows
    assert third.stored.support is not None
    assert np.frombuffer(third.stored.support)[[1, 4, SIZE]].tolist() == [6.0, 6.0, 0.0]
    everything = next_model(TASK, load_model(twice.stored), total, GROWN, SETTINGS)
    assert everything.message.withheld == b""
