"""The compiled engine of the sequence part gives the numbers of the core."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fedrap_core.plan import SequenceMethod, SequenceScoring
from fedrap_core.sequence.device_share import (
    Draws,
    SequenceUpdate,
    compute_sequence,
    pose_sequence,
)
from fedrap_core.sequence.model import Matrix, SequenceItems
from fedrap_core.sequence.server_step import SequenceLearning, SequenceSum
from fedrap_core.sequence.user import derive_query
from fedrap_simulation.data.interactions import Histories
from fedrap_simulation.engine import sequence_kernels, sequence_rounds
from fedrap_simulation.engine.sequence_rounds import (
    RoundDraws,
    derive_adaptations,
    derive_queries,
    draw_round,
    run_sequence_rounds,
    sequence_upload_bytes,
    sum_sequence,
    windows_of,
)
from fedrap_simulation.engine.solve_kernels import uniform_at
from fedrap_simulation.engine.solve_rounds import Schedule
from tests.core.sequence import made

from .test_solve_engine import DIM, ITEMS, some_histories, taps

ORDERED = SequenceMethod(dim=DIM, targets=6, longest=15, dropout=0.3)
FLAT = SequenceMethod(dim=DIM, targets=6, longest=15, dropout=0.3, ordered=False, decoys=3)


def some_items(seed: int, method: SequenceMethod = ORDERED) -> SequenceItems:
    return made.some_items(seed, method, ITEMS, DIM)


def draws_of(draws: RoundDraws, user: int, count: int, dropout: float) -> Draws:
    """The draws of one device of a round as the core has them."""
    one = draws.some(user, user + 1)
    kept = [[uniform_at(word, p) >= dropout for p in range(count)] for word in one.words]
    shape = (len(one.places), count)
    return Draws(one.places, np.array(kept, dtype=np.bool_).reshape(shape), one.decoys.ravel())


def shares_of(
    histories: Histories, items: SequenceItems, method: SequenceMethod, draws: RoundDraws
) -> list[SequenceUpdate]:
    windows = windows_of(histories, ITEMS, method)
    shares = []
    for user in range(len(histories)):
        drawn = draws_of(draws, user, len(windows.of(user)), method.dropout)
        shares.append(compute_sequence(pose_sequence(taps(histories, user), method, drawn), items))
    return shares


def added(shares: list[SequenceUpdate], part: str, width: int) -> Matrix:
    total = np.zeros((ITEMS, width))
    for share in shares:
        rows = getattr(share, part)
        total[rows.rows] += rows.values
    return total


def summed(
    histories: Histories, method: SequenceMethod, draws: RoundDraws, **how: float
) -> SequenceSum:
    windows = windows_of(histories, ITEMS, method)
    return sum_sequence(windows, some_items(1, method), method, draws, **how)  # type: ignore[arg-type]


def drawn_for(histories: Histories, method: SequenceMethod, seed: int = 5) -> RoundDraws:
    return draw_round(windows_of(histories, ITEMS, method), method, np.random.default_rng(seed))


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("method", [ORDERED, FLAT], ids=["ordered", "without order"])
def test_a_round_sums_to_what_the_core_sums(method: SequenceMethod, repeats: bool) -> None:
    histories = some_histories(3, repeats=repeats)
    draws = drawn_for(histories, method)
    found = summed(histories, method, draws)
    shares = shares_of(histories, some_items(1, method), method, draws)
    near = 2e-5
    inputs, outputs = added(shares, "inputs", DIM), added(shares, "outputs", DIM + 1)
    np.testing.assert_allclose(found.inputs.values, inputs[found.inputs.rows], rtol=1e-4, atol=near)
    np.testing.assert_allclose(
        found.outputs.values, outputs[found.outputs.rows], rtol=1e-4, atol=near
    )
    kernels = sum(share.kernels for share in shares)
    np.testing.assert_allclose(found.kernels, kernels, rtol=1e-4, atol=near)
    for part, rows in (("inputs", found.inputs.rows), ("outputs", found.outputs.rows)):
        known = np.unique(np.concatenate([getattr(share, part).rows for share in shares]))
        np.testing.assert_array_equal(rows, known)
    assert found.devices == len(histories)


@pytest.mark.parametrize("method", [ORDERED, FLAT], ids=["ordered", "without order"])
def test_queries_are_those_of_the_core(method: SequenceMethod) -> None:
    histories, items = some_histories(4, repeats=True), some_items(1, method)
    found = derive_queries(items, histories, method)
    for user in range(len(histories)):
        known = derive_query(items, taps(histories, user), method).query
        np.testing.assert_allclose(found[user], known, rtol=1e-4, atol=1e-5)
    empty = Histories(np.array([0, 0]), np.zeros(0, dtype=np.int64))
    assert not derive_queries(items, empty, method).any()


@pytest.mark.parametrize("longest", [4, 15, 200])
def test_adaptations_are_those_of_the_core(longest: int) -> None:
    histories, items = some_histories(7, repeats=True), some_items(1)
    method = msgspec.structs.replace(ORDERED, longest=longest)
    plain = SequenceScoring(longest=longest)
    far = msgspec.structs.replace(plain, adapt=3.0)
    found = derive_adaptations(items, histories, method)
    assert found.any()
    for user in range(len(histories)):
        history = taps(histories, user)
        with_it, without = (derive_query(items, history, one).query for one in (far, plain))
        np.testing.assert_allclose(3.0 * found[user], with_it - without, rtol=1e-4, atol=1e-5)
    assert not derive_adaptations(items, histories, FLAT).any()


def test_targets_are_drawn_from_all_that_something_predicts() -> None:
    histories = some_histories(6, users=40)
    windows = windows_of(histories, ITEMS, ORDERED)
    draws = drawn_for(histories, ORDERED)
    taken = np.diff(draws.bounds)
    np.testing.assert_array_equal(taken, np.minimum(windows.lengths - 1, ORDERED.targets))
    for user in range(len(windows)):
        places = draws.some(user, user + 1).places
        assert np.all(np.diff(places) > 0)
        assert np.all((places >= 1) & (places < len(windows.of(user))))
    assert np.any(draws.places != drawn_for(histories, ORDERED, seed=6).places)


def test_threads_and_blocks_do_not_change_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    histories = some_histories(7)
    draws = drawn_for(histories, ORDERED)
    known = summed(histories, ORDERED, draws, int8_seed=1)
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        alone = summed(histories, ORDERED, draws, int8_seed=1)
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(known.inputs.values, alone.inputs.values)
    np.testing.assert_array_equal(known.outputs.values, alone.outputs.values)
    whole = summed(histories, ORDERED, draws)
    monkeypatch.setattr(sequence_rounds, "BLOCK_ENTRIES", 20)
    monkeypatch.setattr(sequence_rounds, "CHUNK_CELLS", 3 * ITEMS)
    pieces = summed(histories, ORDERED, draws)
    np.testing.assert_allclose(pieces.inputs.values, whole.inputs.values, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(pieces.outputs.values, whole.outputs.values, rtol=1e-4, atol=1e-6)


def large_round(threads: int) -> SequenceSum:
    """A round large enough for BLAS to take as many threads as it may have."""
    rng = np.random.default_rng(3)
    items = made.some_items(2, SequenceMethod(dim=64), 3000, 64)
    lengths = rng.integers(30, 60, 30)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    windows = Histories(starts, rng.integers(0, 3000, starts[-1]))
    method = SequenceMethod(dim=64, targets=32)
    with threadpool_limits(threads, user_api="blas"):
        return sum_sequence(windows, items, method, draw_round(windows, method, rng), int8_seed=1)


def test_the_threads_of_blas_change_no_bit() -> None:
    """A last digit decides decoys and int8 steps: with it the run would be another one."""
    one, two = large_round(1), large_round(2)
    np.testing.assert_array_equal(one.inputs.values, two.inputs.values)
    np.testing.assert_array_equal(one.outputs.rows, two.outputs.rows)
    np.testing.assert_array_equal(one.outputs.values, two.outputs.values)


def test_every_kernel_of_this_part_is_exact() -> None:
    kernels = [one for one in vars(sequence_kernels).values() if hasattr(one, "targetoptions")]
    own = [one for one in kernels if one.py_func.__module__ == sequence_kernels.__name__]
    assert len(own) == 4
    for kernel in own:
        assert not kernel.targetoptions["fastmath"], kernel


@pytest.mark.long
def test_compiled_just_now_or_long_ago_it_is_the_same_run(tmp_path: Path) -> None:
    """Kernels with leave to reorder gave other bits in the process that compiled them."""
    code = (
        "import hashlib; from tests.simulation.engine.test_sequence_engine import large_round;"
        "print(hashlib.sha256(large_round(1).inputs.values.tobytes()).hexdigest())"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env=environment, check=True, capture_output=True
        ).stdout
        for _ in range(2)
    }
    assert len(found) == 1


def test_int8_uploads_are_unbiased() -> None:
    histories = some_histories(9)
    draws = drawn_for(histories, ORDERED)
    exact = summed(histories, ORDERED, draws)
    drawn = [summed(histories, ORDERED, draws, int8_seed=seed) for seed in range(100)]
    for part in ("inputs", "outputs"):
        values = np.array([getattr(one, part).values for one in drawn])
        spread = np.max(np.std(values, axis=0))
        assert spread > 1e-4
        error = np.abs(values.mean(axis=0) - getattr(exact, part).values)
        assert np.max(error) < 6.0 * spread / np.sqrt(len(drawn))


def test_no_device_adds_more_than_the_clip_although_it_was_rounded() -> None:
    for seed in range(10):
        one = some_histories(seed, users=1)
        total = summed(
            one, ORDERED, drawn_for(one, ORDERED), clip=0.7, row_clip=0.3, int8_seed=seed
        )
        parts = (total.inputs.values, total.outputs.values, total.kernels)
        assert np.sqrt(sum(np.sum(part**2) for part in parts)) <= 0.7 * (1 + 1e-6)


def test_a_clip_that_never_binds_changes_nothing_and_one_that_does_scales_the_whole() -> None:
    one = some_histories(2, users=1)
    draws = drawn_for(one, ORDERED)
    free, wide, tight = (summed(one, ORDERED, draws, clip=clip) for clip in (np.inf, 1e6, 0.5))
    np.testing.assert_array_equal(free.inputs.values, wide.inputs.values)
    norm = shares_of(one, some_items(1), ORDERED, draws)[0].norm()
    np.testing.assert_allclose(
        tight.outputs.values, free.outputs.values * 0.5 / norm, rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(tight.kernels, free.kernels * 0.5 / norm, rtol=1e-4, atol=1e-6)


def test_the_same_seed_gives_the_same_releases_and_what_is_published_is_int8() -> None:
    histories = some_histories(11, users=30)
    learning = SequenceLearning(rounds=4)

    def last(schedule: Schedule, seed: int = 1) -> SequenceItems:
        *_, final = run_sequence_rounds(histories, ITEMS, ORDERED, learning, schedule, seed)
        assert final.step == schedule.rounds
        return final.items

    plain = Schedule(rounds=4, part=0.5)
    np.testing.assert_array_equal(last(plain).outputs, last(plain).outputs)
    assert np.any(last(plain).outputs != last(plain, seed=2).outputs)
    rows = last(plain).outputs
    steps = rows / (np.abs(rows).max(axis=1, keepdims=True) / 127.0)
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-3)
    exact = last(Schedule(rounds=4, part=0.5, int8=False)).outputs
    assert 0 < np.abs(exact - rows).max() < 0.1
    with pytest.raises(ValueError, match="without noise"):
        last(Schedule(rounds=4, part=0.5, noise=1.0))


def test_rounds_in_which_nobody_has_a_target_change_nothing() -> None:
    lonely = Histories(np.array([0, 1, 1]), np.array([3]))
    first, *_, final = run_sequence_rounds(
        lonely, ITEMS, ORDERED, SequenceLearning(), Schedule(rounds=3, part=0.3), 1
    )
    np.testing.assert_array_equal(first.items.outputs, final.items.outputs)


def test_an_upload_has_the_size_of_its_rows() -> None:
    one = Histories(np.array([0, 9]), np.array([1, 2, 3, 4, 5, 5, 6, 7, 8]))
    own = 8 * (8 + DIM) + 5 * (4 + DIM) + 104
    few, most = own + 6 * (9 + DIM), 1.5 * (own + 2 * 6 * (9 + DIM))
    assert few <= sequence_upload_bytes(one, some_items(1), ORDERED) <= most
    sure = replace(some_items(1), bias=np.where(np.arange(ITEMS) == 3, 1e3, 0.0))
    # Every decoy is item 3, which is also a target at times: one row or none beside the six.
    four = msgspec.structs.replace(ORDERED, decoys=4)
    assert sequence_upload_bytes(one, sure, four) <= 1.5 * (own + 7 * (9 + DIM))
