"""The opponents that use order, against their plain definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrap_simulation.methods.baselines.ease import Ease
from fedrap_simulation.methods.baselines.ials import Ials
from fedrap_simulation.methods.baselines.recency import (
    EASE_RECENCY,
    IALS_RECENCY,
    ITEMKNN_RECENCY,
    Fading,
    weigh,
)
from fedrap_simulation.methods.baselines.slist import WINDOW, Slist
from fedrap_simulation.methods.baselines.stan import Stan
from fedrap_simulation.methods.baselines.transitions import (
    MARKOV,
    NEGLIGIBLE,
    Transitions,
    count_transitions,
)
from fedrap_simulation.methods.blend import BlendFitted
from fedrap_simulation.methods.protocol import no_progress

from ..evaluation.test_metrics import Given
from .planted import by_hand, planted_split

NOBODY = np.zeros(1, dtype=np.int64)


def test_a_history_fades_and_an_item_that_comes_twice_counts_by_its_newest() -> None:
    task = by_hand([(0, 3), (0, 1), (0, 3), (0, 2)], 1, 4, NOBODY)
    found = weigh(task, Fading(tau=2.0, floor=0.2)).toarray()[0]
    expected = [0.2 + 0.8 * np.exp(-age / 2.0) for age in (2, 0, 1)]
    np.testing.assert_allclose(found, [0.0, *expected], rtol=1e-6)


def test_without_order_every_item_counts_one() -> None:
    task = replace(by_hand([(0, 3), (0, 1)], 1, 4, NOBODY), ordered=False)
    assert weigh(task, Fading(tau=0.5, floor=0.0)).toarray().tolist() == [[0.0, 1.0, 0.0, 1.0]]


def test_transitions_are_counted_within_a_user_by_distance() -> None:
    task = by_hand([(0, 0), (0, 1), (0, 2), (1, 2), (1, 0)], 2, 3, np.zeros(2, dtype=np.int64))
    near = np.exp(-1 / 1.0)
    expected = np.zeros((3, 3))
    expected[0, 1] = expected[1, 2] = expected[2, 0] = 1.0
    expected[0, 2] = near
    np.testing.assert_allclose(count_transitions(task, 1.0).toarray(), expected, rtol=1e-6)


def test_transitions_score_as_the_formula_says() -> None:
    task = planted_split().test
    rule = Transitions(reach=1.5, tau=2.0, smooth=4.0, blend=0.3, discount=0.2)
    far = int(np.ceil(1.5 * np.log(1 / NEGLIGIBLE)))
    table = np.zeros((task.items, task.items))
    for user in range(task.users):
        mine = task.train.of(user)
        for late in range(len(mine)):
            for early in range(max(0, late - far), late):
                table[mine[early], mine[late]] += np.exp(-(late - early - 1) / 1.5)
    share = task.counts() / task.users
    users = np.array([3, 60])
    expected = []
    for user in users:
        newest: dict[int, int] = {}
        for age, item in enumerate(task.train.of(int(user))[::-1]):
            newest.setdefault(int(item), age)
        row = sum(
            np.exp(-age / 2.0) * table[item] / (table[item].sum() + 4.0)
            for item, age in newest.items()
            if np.exp(-age / 2.0) >= NEGLIGIBLE
        )
        expected.append((row + 0.3 * share) / np.maximum(share, 1 / task.users) ** 0.2)
    found = rule.fit(task, 0, no_progress).scores(users)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


def test_markov_looks_at_the_last_item_alone() -> None:
    task = by_hand([(0, 0), (0, 1), (1, 1), (1, 2), (2, 0), (2, 1)], 3, 3, np.zeros(3, int))
    scores = replace(MARKOV, blend=0.0).fit(task, 0, no_progress).scores(np.array([0, 2]))
    assert np.argmax(scores[0]) == 2
    np.testing.assert_array_equal(scores[0], scores[1])


def test_slist_is_the_ridge_regression_of_the_next_item() -> None:
    task, tau, ridge = planted_split().test, 2.0, 15.0
    past, following = [], []
    for user in range(task.users):
        mine = task.train.of(user)
        for place in range(len(mine)):
            row = np.zeros(task.items)
            reach = min(WINDOW, int(np.ceil(tau * np.log(100.0))))
            for back in range(1, min(place, reach) + 1):
                row[mine[place - back]] += np.exp(-(back - 1) / tau)
            past.append(row)
            following.append(np.eye(task.items)[mine[place]])
    s, y = np.array(past), np.array(following)
    weights = np.linalg.solve(s.T @ s + ridge * np.eye(task.items), s.T @ y)
    users = np.array([0, 9, 101])
    expected = weigh(task, Fading(tau, 0.0))[users].toarray() @ weights
    found = Slist(ridge=ridge, tau=tau).fit(task, 0, no_progress).scores(users)
    known = task.counts() > 0
    np.testing.assert_allclose(found[:, known], expected[:, known], rtol=1e-2, atol=1e-4)


def test_stan_is_the_sum_over_the_nearest_histories() -> None:
    pairs = [(0, 0), (0, 1), (1, 1), (1, 2), (1, 3), (2, 0), (2, 4), (3, 5)]
    task = by_hand(pairs, 4, 6, np.zeros(4, dtype=np.int64))
    scores = Stan(neighbours=2, tau=1.0, near=2.0).fit(task, 0, no_progress).scores(np.array([0]))
    like1, like2 = 1.0 / np.sqrt(3), np.exp(-1.0) / np.sqrt(2)  # share 1, the newest; share 0
    expected = [like2, like1, like1 * np.exp(-0.5), like1 * np.exp(-1.0), like2 * np.exp(-0.5), 0.0]
    np.testing.assert_allclose(scores[0], expected, rtol=1e-5)


def test_recency_over_nothing_that_fades_is_the_model_itself() -> None:
    task, users = planted_split().test, np.arange(20)
    flat = Fading(tau=1e9, floor=1.0)
    for recent in (EASE_RECENCY, ITEMKNN_RECENCY):
        plain = recent.inner.fit(task, 0, no_progress).scores(users)
        faded = replace(recent, fading=flat).fit(task, 0, no_progress).scores(users)
        np.testing.assert_allclose(faded, plain, rtol=1e-4, atol=1e-5)
    model = Ials(factors=8, epochs=30)
    recent = replace(IALS_RECENCY, inner=model, fading=flat)
    plain = model.fit(task, 0, no_progress).scores(users)
    faded = recent.fit(task, 0, no_progress).scores(users)
    assert np.corrcoef(plain.ravel(), faded.ravel())[0, 1] > 0.99


@pytest.mark.parametrize("method", [Transitions(), replace(EASE_RECENCY, inner=Ease(20.0))])
def test_tuning_brings_no_less_than_it_started_with(method: Transitions) -> None:
    from fedrap_simulation.methods.tuning import quality

    task = planted_split().validation
    tuned = method.tune(task, 0, no_progress)
    assert quality(tuned.fit(task, 0, no_progress), task) >= quality(
        method.fit(task, 0, no_progress), task
    )


def test_a_blend_adds_both_in_units_of_their_own_spread() -> None:
    ours, counts = (np.random.default_rng(seed).random((2, 5), dtype=np.float32) for seed in (1, 2))
    found = BlendFitted(Given(ours), Given(counts), 0.4).scores(np.arange(2))
    logs = np.log(counts + 1e-4 * counts.max(axis=1, keepdims=True))
    parts = [(one - one.mean(axis=1)[:, None]) / one.std(axis=1)[:, None] for one in (ours, logs)]
    np.testing.assert_allclose(found, parts[0] + 0.4 * parts[1], rtol=1e-3, atol=1e-4)
