"""`sequence` and `fedrap-sequence`: how scores are mixed, and what is chosen by vote."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrap_coordinator.privacy import recipe
from fedrap_core.plan import SequenceScoring
from fedrap_core.sequence.server_step import SequenceLearning
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.methods.protocol import no_progress
from fedrap_simulation.methods.registry import make_method
from fedrap_simulation.methods.sequence import BETAS, KAPPAS, METHOD, SOLVE_ALONE, Parts, Sequence

from .planted import OURS, planted_split

ALONE, MIXED = OURS


def test_both_parts_and_popularity_add_up() -> None:
    solved = np.array([[1.0, 2.0]], dtype=np.float32)
    matched = np.array([[0.5, -0.5]], dtype=np.float32)
    bias = np.array([2.0, 4.0], dtype=np.float32)
    parts = Parts(solved, matched, bias)
    scoring = SequenceScoring(solve=10.0, kappa=0.5)
    assert parts.mixed(scoring).tolist() == [[11.5, 21.5]]
    assert parts.mixed(SOLVE_ALONE).tolist() == solved.tolist()
    assert Parts(None, matched, bias).mixed(scoring).tolist() == [[1.5, 1.5]]


def test_kappa_and_beta_are_chosen_among_what_there_is() -> None:
    told: list[float] = []
    task = planted_split().validation
    assert isinstance(MIXED, Sequence)
    chosen = MIXED.tune(task, 0, lambda share, _words: told.append(share))
    assert chosen.scoring == SOLVE_ALONE or (
        chosen.scoring.solve in BETAS and chosen.scoring.kappa in KAPPAS
    )
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert chosen.settings["solve"]["schedule"] == chosen.settings["schedule"]


def test_a_sequence_part_that_learnt_nothing_is_not_mixed_in() -> None:
    assert isinstance(MIXED, Sequence)
    idle = replace(MIXED, learning=SequenceLearning(rate=1e-9, kernel_rate=1e-9))
    chosen = idle.tune(planted_split().validation, 0, no_progress)
    assert chosen.scoring == SOLVE_ALONE


def test_without_order_there_is_one_flat_kernel() -> None:
    task = replace(planted_split().validation, ordered=False)
    assert isinstance(ALONE, Sequence)
    fitted = ALONE.fit(task, 1, no_progress)
    assert fitted.items.kernels.shape[0] == 1
    assert np.isfinite(fitted.scores(np.arange(5))).all()


def test_what_init_derives_follows_the_data_unless_it_is_said() -> None:
    task = planted_split().validation
    assert isinstance(ALONE, Sequence)
    follows = replace(ALONE, capacity=True)
    assert ALONE._for(task).dim == follows._for(task).dim == 16  # set by hand
    grown = replace(follows, method=METHOD)._for(task)
    assert (grown.dim, grown.targets, grown.decoys, grown.longest) == (64, 38, 1, 200)
    assert grown.dropout == 0.2  # 19 touches of a usual item
    thin = task.some(np.arange(30))
    assert replace(follows, method=METHOD)._for(thin).dropout == 0.5


def test_where_there_is_much_to_learn_both_parts_have_more_and_smaller_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = planted_split().validation
    usual = make_method("fedrap-sequence", {})
    assert isinstance(usual, Sequence)
    assert usual._schedule(task) == usual.schedule == usual._solve(task).schedule
    assert usual._solve(task).learning == usual.solve.learning
    monkeypatch.setattr(recipe, "AMPLE", 1.0)
    monkeypatch.setattr(recipe, "CROWD", 2)
    assert task.users >= 80
    small = usual._schedule(task)
    turns = task.users // (task.users // 40)
    assert (small.turns, small.rounds, small.int8) == (turns, 10 * turns, True)
    assert usual._solve(task).schedule == small
    assert usual._solve(task).learning.eta == pytest.approx(2.0 / turns, abs=1e-4)
    by_hand = replace(usual, schedule=replace(usual.schedule, rounds=30))
    assert by_hand._schedule(task).rounds == 30
    assert replace(usual, capacity=False)._schedule(task) == usual.schedule


def test_settings_are_reached_by_name() -> None:
    made = make_method("fedrap-sequence", {"method.targets": "100", "schedule.rounds": "40"})
    assert isinstance(made, Sequence)
    assert made.mixed
    assert made.method.targets == 100
    assert made.settings["solve"]["schedule"]["rounds"] == 40
    within = make_method(
        "fedrap-trend", {"ours.schedule.rounds": "40", "ours.solve.method.dim": "8"}
    )
    assert within.settings["ours"]["schedule"]["rounds"] == 40
    assert within.settings["ours"]["solve"]["method"]["dim"] == 8
    with pytest.raises(BadData, match=r"ours\.solve\.nothing"):
        make_method("fedrap-trend", {"ours.solve.nothing": "1"})
    with pytest.raises(BadData, match=r"method\.dropout=1\.5"):
        make_method("sequence", {"method.dropout": "1.5"})
