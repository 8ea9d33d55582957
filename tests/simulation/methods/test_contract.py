"""What every baseline promises, whatever it is made of."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedrap_simulation.methods.baselines.popularity import Popularity
from fedrap_simulation.methods.protocol import Method, no_progress
from fedrap_simulation.methods.tuning import quality

from .planted import ALL, FEDERATED, OURS, TUNED, by_hand, fit_once, named, planted_split


@pytest.mark.parametrize("method", ALL, ids=named)
def test_scores_every_item_for_the_users_asked_for_in_their_order(method: Method) -> None:
    task = planted_split().test
    fitted, _ = fit_once(method)
    users = np.array([7, 2, 150])
    scores = fitted.scores(users)
    assert scores.shape == (3, task.items)
    assert scores.dtype == np.float32
    assert np.isfinite(scores).all()
    alone = fitted.scores(np.array([150]))
    np.testing.assert_allclose(alone[0], scores[2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ALL, ids=named)
def test_same_seed_same_scores_and_the_answers_are_not_read(method: Method) -> None:
    task = planted_split().test
    everyone = np.arange(task.users)
    first = fit_once(method)[0].scores(everyone)
    other = replace(
        task, targets=np.roll(task.targets, 1), negatives=np.roll(task.negatives, 1, axis=0)
    )
    np.random.seed(99)  # nothing may come from the generators that all share
    torch.manual_seed(99)
    np.testing.assert_array_equal(first, method.fit(other, 3, no_progress).scores(everyone))


@pytest.mark.parametrize("method", TUNED, ids=named)
def test_finds_planted_tastes_where_popularity_cannot(method: Method) -> None:
    task = planted_split().test
    popular = quality(fit_once(Popularity())[0], task)
    factor = 1.15 if method in FEDERATED else 1.4
    assert quality(fit_once(method)[0], task) > factor * popular


@pytest.mark.parametrize("method", TUNED, ids=named)
def test_settings_are_not_chosen_by_looking_at_the_test(method: Method) -> None:
    with pytest.raises(ValueError, match="validation task, but this is the test task of planted"):
        method.tune(planted_split().test, 0, no_progress)


@pytest.mark.parametrize("method", ALL, ids=named)
def test_settings_can_be_written_down(method: Method) -> None:
    assert json.loads(json.dumps(method.settings)) == method.settings


@pytest.mark.parametrize("method", ALL, ids=named)
def test_progress_reaches_the_end_and_never_goes_back(method: Method) -> None:
    _, told = fit_once(method)
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.parametrize("method", ALL, ids=named)
def test_only_federated_methods_cost_a_device_something(method: Method) -> None:
    task = planted_split().test
    cost = fit_once(method)[0].cost
    if method in FEDERATED:
        table = 4 * task.items * method.settings["width"]
        assert cost.rounds == method.settings["epochs"]
        assert cost.bytes_up == cost.bytes_down
        assert table <= cost.bytes_up <= 1.2 * table
    elif method in OURS:
        assert cost.rounds == method.settings["schedule"]["rounds"]
        assert 0 < cost.bytes_up < 4 * task.items * method.settings["method"]["dim"]
        assert cost.bytes_down > 2 * task.items * method.settings["method"]["dim"]
    else:
        assert (cost.rounds, cost.bytes_up, cost.bytes_down) == (0, 0.0, 0.0)


@pytest.mark.parametrize("method", ALL, ids=named)
def test_bears_repeated_items_short_histories_and_items_that_nobody_has(method: Method) -> None:
    pairs = [(0, 1), (0, 1), (0, 2), (0, 1), (1, 2), (2, 1), (2, 2), (2, 3), (2, 3)]
    task = replace(by_hand(pairs, 3, 9, np.array([1, 2, 3])), repeats=True)
    scores = method.fit(task, 0, no_progress).scores(np.arange(3))
    assert scores.shape == (3, 9)
    assert np.isfinite(scores).all()
