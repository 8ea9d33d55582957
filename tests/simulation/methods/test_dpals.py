"""DPALS against its plain definition, and the unit of its noise against one user more."""

from __future__ import annotations

import numpy as np
import pytest

from fedrap_core.privacy.accounting import charged_epsilon
from fedrap_simulation.data.interactions import Histories, make_histories
from fedrap_simulation.methods.baselines.dpals import (
    DpAls,
    add_up,
    draw_some,
    sensitivity,
    solve_units,
)

SIZE, DIM = 9, 3


def some_histories(users: int = 7) -> Histories:
    rng = np.random.default_rng(5)
    lengths = rng.integers(1, 7, users)
    items = np.concatenate([rng.permutation(SIZE)[:n] for n in lengths])
    return make_histories(np.repeat(np.arange(users), lengths), items, users)


def test_users_are_weighted_least_squares_of_length_one() -> None:
    items = np.random.default_rng(1).normal(size=(SIZE, DIM))
    histories = some_histories()
    found = solve_units(histories, items, 4.0, 0.3, 2.0)
    for user in range(len(histories)):
        own = histories.of(user)
        weight = np.full(SIZE, 0.3)
        weight[own] += 4.0
        wanted = np.zeros(SIZE)
        wanted[own] = 4.0
        system = items.T @ (weight[:, None] * items) + 2.0 * np.eye(DIM)
        plain = np.linalg.solve(system, items.T @ wanted)
        np.testing.assert_allclose(found[user], plain / np.linalg.norm(plain), rtol=1e-9)


def test_items_without_noise_are_the_solution_of_their_users() -> None:
    histories = some_histories()
    users = solve_units(histories, np.random.default_rng(2).normal(size=(SIZE, DIM)), 4, 0.3, 2)
    method = DpAls(dim=DIM, most=50, alpha=4.0, w0=0.3, ridge=2.0)
    found = method._item_step(histories, users, SIZE, np.random.default_rng(0))
    for item in range(SIZE):
        holders = [user for user in range(len(histories)) if item in histories.of(user)]
        mine = users[holders]
        system = 4.0 * mine.T @ mine + 0.3 * users.T @ users + 2.0 * np.eye(DIM)
        plain = np.linalg.solve(system, 4.0 * mine.sum(axis=0))
        np.testing.assert_allclose(found[item], plain, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("most", [1, 3, 20])
def test_one_user_moves_the_sums_by_no_more_than_the_unit_of_the_noise(most: int) -> None:
    histories = some_histories()
    drawn = draw_some(histories, most, np.random.default_rng(3))
    assert drawn.lengths.tolist() == np.minimum(histories.lengths, most).tolist()
    users = solve_units(histories, np.random.default_rng(4).normal(size=(SIZE, DIM)), 4, 0.3, 2)
    whole = add_up(drawn, users, SIZE)
    for left_out in range(len(histories)):
        others = np.delete(np.arange(len(histories)), left_out)
        rest = add_up(drawn.some(others), users[others], SIZE)
        moved = np.sqrt(sum(np.sum((a - b) ** 2) for a, b in zip(whole, rest, strict=True)))
        assert moved <= sensitivity(most) + 1e-9


def test_draws_are_items_of_the_history_without_repeats() -> None:
    histories = some_histories()
    drawn = draw_some(histories, 2, np.random.default_rng(1))
    for user in range(len(histories)):
        mine = drawn.of(user).tolist()
        assert len(set(mine)) == len(mine)
        assert set(mine) <= set(histories.of(user).tolist())


def test_a_guarantee_is_what_its_noise_is_charged() -> None:
    method = DpAls(steps=3).private(4.0, 1e-6, banded=True)
    assert method.epsilon == pytest.approx(4.0, rel=1e-6)
    assert charged_epsilon(3, method.noise, 1e-6) == pytest.approx(4.0, rel=1e-6)
    assert DpAls().epsilon is None
