"""Rounds of everybody: against the reference, whatever the number of threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numba
import numpy as np
import pytest

from fedrap_core.aggregate import Accumulator
from fedrap_core.paper.averaging import Averaging, average_step
from fedrap_core.paper.objective import LocalModel
from fedrap_core.paper.problem import PaperProblem, PaperResult, plan_schedule
from fedrap_core.paper.training import train_local
from fedrap_core.paper.variants import make_variant
from fedrap_core.plan import PaperMethod, Privacy
from fedrap_core.solve.server_step import Learner
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Histories
from fedrap_simulation.data.load import load
from fedrap_simulation.engine import paper_rounds as rounds_module
from fedrap_simulation.engine.paper_devices import Rules, draw_for, new_desk
from fedrap_simulation.engine.paper_draws import gather_batch, list_samples, shuffle
from fedrap_simulation.engine.paper_rounds import (
    PaperDevices,
    as_items,
    count_negatives,
    first_devices,
    make_rules,
    paper_rounds,
)
from fedrap_simulation.evaluation.splits import make_split
from fedrap_simulation.evaluation.task import Task

SEED = 5
BASE = PaperMethod(dim=8, epochs=4, rate=100.0, user_rate=0.3, apart=0.05, sparse=0.05, reach=3.0)


def small_task(users: int = 30) -> Task:
    return make_split(load(f"synthetic:users={users},items=150,seed=2"), 0).test


def drawn_steps(
    task: Task, rules: Rules, device: int
) -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The engine's own draws of one device: rows, and w and l of every step over them."""
    length = int(task.train.lengths[device])
    desk = new_desk(task.items, 1, length * (1 + rules.negatives))
    count, total = draw_for(desk, as_items(task.train), as_items(task.barred), rules, device)
    list_samples(count, desk.positive, desk.negative, desk.samples)
    parts = -(-total // rules.batch)
    weights, liked = [], []
    for _ in range(len(rules.rates)):
        if parts > 1:
            shuffle(desk.samples[:total], desk.stream)
        for part in np.array_split(desk.samples[:total], parts):
            used = gather_batch(part, desk.place, desk.chosen, desk.weights, desk.liked)
            row = np.zeros((2, count))
            row[0, desk.chosen[:used]] = desk.weights[:used]
            row[1, desk.chosen[:used]] = desk.liked[:used]
            weights.append(row[0])
            liked.append(row[1])
    return desk.rows[:count].copy(), np.array(weights), np.array(liked)


def reference_round(
    task: Task, people: PaperDevices, method: PaperMethod, step: int, device: int
) -> tuple[PaperProblem, PaperResult]:
    """What the core makes of the engine's draws."""
    rules = make_rules(method, SEED, step)
    rows, weights, liked = drawn_steps(task, rules, device)
    assert len(np.unique(rows)) == len(rows)
    model, none = people.model, np.zeros((len(weights), 0))
    common = model.common[rows].astype(np.float64)
    user, bias = model.user[device].astype(np.float64), float(model.bias[device])
    schedule = plan_schedule(method, step, len(weights))
    nothing, no_rows = np.zeros((0, method.dim)), np.zeros(0, dtype=np.int64)
    if method.personal:
        personal = model.personal[device, rows].astype(np.float64)
        start = LocalModel(user, bias, personal, common, nothing)
        problem = PaperProblem(
            rows, no_rows, start, weights, liked, none, none, schedule, method.common
        )
    else:
        start = LocalModel(user, bias, nothing, nothing, common)
        problem = PaperProblem(
            no_rows, rows, start, none, none, weights, liked, schedule, method.common
        )
    return problem, train_local(problem)


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("fedrap", 2048),
        ("fedrap", 40),
        ("fedrap-c", 40),
        ("fedrap-d", 2048),
        ("fedrap-l2", 40),
        ("centrap", 2048),
    ],
)
def test_two_rounds_of_everybody_agree_with_the_reference(name: str, batch: int) -> None:
    task = small_task()
    method = msgspec.structs.replace(make_variant(name, BASE).method, batch=batch)
    before = first_devices(task, method, SEED, alike=False)
    for step, after in enumerate(paper_rounds(task, method, SEED, alike=False), start=1):
        sums = Accumulator(task.items, method.dim, 1e9)
        for device in range(task.users):
            problem, wanted = reference_round(task, before, method, step, device)
            sums.add(wanted.update)
            model = after.model
            np.testing.assert_allclose(model.user[device], wanted.user, rtol=1e-3, atol=1e-4)
            assert model.bias[device] == pytest.approx(wanted.bias, rel=1e-3, abs=1e-4)
            if method.personal:
                mine = model.personal[device].copy()
                np.testing.assert_allclose(
                    mine[problem.own_rows], wanted.personal, rtol=1e-3, atol=1e-4
                )
                mine[problem.own_rows] = before.model.personal[device, problem.own_rows]
                np.testing.assert_array_equal(mine, before.model.personal[device])
        learner = Learner(before.model.common.astype(np.float64))
        wanted_common = average_step(learner, sums.total(0.0, b"", step), method, Averaging(), step)
        np.testing.assert_allclose(after.model.common, wanted_common.common, rtol=1e-3, atol=1e-4)
        if step == 2:
            break
        before = PaperDevices(type(after.model)(*(part.copy() for part in after.model)), step)


def test_the_result_has_the_same_bits_with_one_thread_and_with_all() -> None:
    task = small_task(60)
    results = []
    threads = numba.get_num_threads()
    for count in (1, threads):
        numba.set_num_threads(count)
        steps = paper_rounds(task, BASE, SEED)
        results.append([next(steps).scores(np.arange(60)) for _ in range(2)])
    numba.set_num_threads(threads)
    np.testing.assert_array_equal(results[0], results[1])
    assert not np.array_equal(results[0][0], results[0][1])


def test_negatives_are_never_barred_and_the_held_out_item_only_under_paper() -> None:
    data = load("synthetic:users=40,items=150,seed=2")
    for protocol in ("clean", "paper"):
        task = make_split(data, 0, protocol=protocol).test
        counts = count_negatives(task, BASE, SEED, 40)
        barred = task.barred
        assert not counts[barred.owners, barred.items].any()
        per_round = BASE.negatives * task.train.lengths
        np.testing.assert_array_equal(counts.sum(axis=1), 40 * per_round)
        held_out = counts[np.arange(task.users), task.targets]
        assert held_out.any() == (protocol == "clean")
        free = task.items - barred.lengths
        expected = 40 * per_round / free  # (U,) uniform over what is not barred
        if protocol == "clean":
            error = np.sqrt(expected.sum())
            assert abs(held_out.sum() - expected.sum()) < 4 * error


def test_other_rounds_seeds_and_devices_draw_otherwise() -> None:
    task = small_task()
    one = count_negatives(task, BASE, 1, 1)
    assert not np.array_equal(one, count_negatives(task, BASE, 2, 1))
    assert not np.array_equal(one, count_negatives(task, BASE, 1, 2) - one)
    alike = replace(task, train=task.train.some(np.zeros(2, dtype=np.int64)))
    alike = replace(alike, barred=alike.train)
    counts = count_negatives(alike, BASE, 1, 1)
    assert not np.array_equal(counts[0], counts[1])


def test_who_touched_everything_trains_without_negatives_and_nobody_without_items() -> None:
    task = small_task()
    everything = np.arange(task.items)
    starts = np.full(task.users + 1, task.items + 1)  # the third has one item, the others none
    starts[:3] = 0, 0, task.items
    train = Histories(starts, np.append(everything, 7))
    task = replace(task, train=train, barred=train)
    before = first_devices(task, BASE, SEED, alike=True)
    after = next(paper_rounds(task, BASE, SEED))
    assert after.refused == 0
    np.testing.assert_array_equal(after.model.personal[0], before.model.personal[0])
    assert (after.model.personal[1] != before.model.personal[1]).all(axis=1).all()
    assert count_negatives(task, BASE, SEED, 1).sum(axis=1).tolist()[:4] == [0, 0, 4, 0]


def test_a_round_that_runs_away_changes_nothing() -> None:
    task = small_task()
    wild = msgspec.structs.replace(BASE, rate=1e6, user_rate=1e3)
    before = first_devices(task, wild, SEED, alike=True)
    after = next(paper_rounds(task, wild, SEED))
    assert after.refused == task.users
    for old, new in zip(before.model, after.model, strict=True):
        np.testing.assert_array_equal(old, new)


def test_clipping_bounds_what_one_device_moves_and_noise_has_the_promised_size() -> None:
    task = small_task()
    start = first_devices(task, BASE, SEED, alike=True).model.common
    clipped = next(paper_rounds(task, BASE, SEED, privacy=Privacy(clip=0.5))).model.common
    assert np.linalg.norm(clipped - start) <= 0.5
    noisy = Privacy(clip=0.5, noise=40.0)
    noised = next(paper_rounds(task, BASE, SEED, privacy=noisy)).model.common
    assert np.std(noised - clipped) == pytest.approx(40.0 * 0.5 / task.users, rel=0.1)
    assert (noised != clipped).all()  # on every row, touched or not


def test_the_coordinators_threshold_gives_zeros() -> None:
    task = small_task()
    plain = next(paper_rounds(task, BASE, SEED)).model.common
    sparse = next(paper_rounds(task, BASE, SEED, averaging=Averaging(threshold=5.0))).model.common
    assert np.mean(plain == 0) < 0.05
    assert 0.2 < np.mean(sparse == 0) < 0.9


def test_devices_start_with_the_same_d_or_each_with_its_own() -> None:
    task = small_task()
    same = first_devices(task, BASE, SEED, alike=True).model.personal
    own = first_devices(task, BASE, SEED, alike=False).model.personal
    assert (same == same[0]).all()
    assert not (own[1] == own[0]).any()
    np.testing.assert_array_equal(same[0], own[0])


def test_a_d_that_does_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_module, "SHARE_OF_MEMORY", 1e-9)
    with pytest.raises(BadData, match="30 devices with a D over all"):
        first_devices(small_task(), BASE, SEED, alike=True)
