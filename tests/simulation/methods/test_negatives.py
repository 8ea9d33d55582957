"""The sampler of negatives: never a barred item, every other equally, and the leak in the open."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_simulation.data.interactions import Histories, make_histories
from fedrap_simulation.methods.baselines.negatives import NegativeSampler

from .planted import planted_split


@st.composite
def barred_histories(draw: st.DrawFn) -> tuple[Histories, int]:
    items = draw(st.integers(2, 12))
    some = st.lists(st.integers(0, items - 1), max_size=20).filter(lambda x: len(set(x)) < items)
    each = draw(st.lists(some, min_size=1, max_size=5))
    user = np.repeat(np.arange(len(each)), [len(one) for one in each]).astype(np.int64)
    item = np.array([one for history in each for one in history], dtype=np.int64)
    return make_histories(user, item, len(each)), items


@given(barred_histories(), st.integers(0, 2**32 - 1))
def test_draws_every_free_item_and_no_barred_one(given_: tuple[Histories, int], seed: int) -> None:
    barred, items = given_
    users = np.arange(len(barred))
    drawn = NegativeSampler(barred, items).draw(users, 400, np.random.default_rng(seed))
    for user in users:
        free = set(range(items)) - set(barred.of(int(user)).tolist())
        assert set(drawn[user].tolist()) == free


def test_is_uniform_over_what_is_free() -> None:
    barred = make_histories(np.array([0, 0, 0, 1]), np.array([0, 3, 9, 4]), 2)
    draws = NegativeSampler(barred, 10).draw(np.array([0]), 70_000, np.random.default_rng(1))
    counts = np.bincount(draws[0], minlength=10)
    assert counts[[0, 3, 9]].sum() == 0
    free = counts[[1, 2, 4, 5, 6, 7, 8]]
    assert np.abs(free - 10_000).max() < 5 * np.sqrt(10_000)


def test_each_entry_gets_its_own_users_items() -> None:
    barred = make_histories(np.array([0, 1]), np.array([0, 1]), 2)
    drawn = NegativeSampler(barred, 2).draw(np.array([1, 0, 1]), 2, np.random.default_rng(0))
    assert drawn.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_the_held_out_item_is_drawn_under_clean_and_never_under_paper() -> None:
    for protocol, found in (("clean", True), ("paper", False)):
        task = planted_split("clean" if protocol == "clean" else "paper").test
        sampler = NegativeSampler(task.barred, task.items)
        drawn = sampler.draw(np.arange(task.users), 2_500, np.random.default_rng(2))
        hit = (drawn == task.targets[:, None]).any(axis=1)
        assert hit.all() if found else not hit.any()


def test_says_so_when_nothing_is_left_to_draw() -> None:
    full = make_histories(np.array([0, 1, 1]), np.array([0, 0, 1]), 2)
    sampler = NegativeSampler(full, 2)
    with pytest.raises(ValueError, match="user 1 is barred from every item"):
        sampler.draw(np.array([0, 1]), 1, np.random.default_rng(0))
