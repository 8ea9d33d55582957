"""The engine's reports of `split` are those that devices make."""

from __future__ import annotations

import numpy as np

from fedrap_core.plan import Plan, Privacy, SolveMethod, Split
from fedrap_core.sparse import RowUpdate, packed_size
from fedrap_core.split.numbers import Terms, to_numbers
from fedrap_core.split.proof import R
from fedrap_simulation.data.interactions import Histories
from fedrap_simulation.engine.solve_kernels import round_reports, uniform_at
from fedrap_simulation.engine.solve_rounds import Bands, Schedule, sum_shares

ITEMS, DIM, CLIP, SEED = 40, 4, 3.0, 12345
SPLIT = Split(rows=6, peak=0.2, gram_scale=8.0)
METHOD = SolveMethod(dim=DIM)


def test_each_number_is_the_one_that_the_device_would_send() -> None:
    """Also of devices whose update is above the clip, or has more rows than slots."""
    rng, gram = np.random.default_rng(3), packed_size(DIM)
    lengths = [3, 6, 9, 1, 5]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = rng.normal(0.0, 1.0, (starts[-1], DIM)).astype(np.float32)
    triangles = rng.normal(0.0, 0.05, (len(lengths), gram)).astype(np.float32)
    rows[starts[3] :] *= np.float32(0.05)  # short ones, which the clip leaves alone
    terms = Terms(bytes(16), Plan(method=METHOD, privacy=Privacy(clip=CLIP), split=SPLIT), ITEMS)
    expected = []
    for device, count in enumerate(lengths):
        items = np.arange(count)
        update = RowUpdate(
            items, rows[starts[device] : starts[device + 1]].astype(np.float64),
            triangles[device].astype(np.float64),
        )  # fmt: skip
        chance = [uniform_at(np.uint64(SEED + device), at) for at in range(count * DIM + gram)]
        expected.append(to_numbers(update, terms, np.array(chance, dtype=np.float64)))
    scaled = triangles * np.float32(SPLIT.gram_scale)
    round_reports(starts, rows, scaled, CLIP, SPLIT.peak, SPLIT.rows, R, np.uint64(SEED))
    for device, mine in enumerate(expected):
        made = np.zeros((lengths[device], DIM))
        made[mine.rows] = mine.values
        engine = rows[starts[device] : starts[device + 1]] / terms.step
        np.testing.assert_allclose(engine, made, atol=1e-3)
        np.testing.assert_allclose(scaled[device] / terms.step, mine.whole, atol=1e-3)
    assert (np.abs(rows).sum(axis=1) == 0).sum() >= 3  # those that had no slot


def test_a_sum_has_the_bound_and_the_noise_of_two_servers() -> None:
    rng = np.random.default_rng(0)
    histories = Histories(np.array([0, 5, 10]), np.tile(np.arange(5), 2))
    common = rng.normal(0.0, 0.1, (ITEMS, DIM))
    total = sum_shares(histories, common, METHOD, clip=CLIP, int8_seed=1, split=SPLIT)
    assert total.bound == np.sqrt(3.0) * CLIP
    assert total.touches is None
    step = CLIP * SPLIT.peak / R
    np.testing.assert_allclose(total.values / step, np.rint(total.values / step), atol=1e-3)
    schedule = Schedule(clip=CLIP, noise=2.0, split=SPLIT)
    noised = Bands(schedule, 2000, DIM, rng).noised(total)
    assert np.std(noised.values) == np.float64(np.std(noised.values))
    assert abs(float(np.std(noised.values)) / (2.0 * CLIP * np.sqrt(2.0)) - 1.0) < 0.05
    assert abs(float(noised.spread) / (2.0 * CLIP * np.sqrt(2.0)) - 1.0) < 1e-6
    gram = np.std(noised.packed_gram - total.packed_gram)
    assert gram < 2.0 * CLIP  # its numbers were scaled up before they were noised
