"""Who is asked what: nothing of the answer is in what may be learnt from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.evaluation.splits import Published, SplitKind, make_split

USERS, ITEMS = 12, 160


def people(seed: int, *, times: int = 1000, timed: bool = True) -> Interactions:
    """Each user has 10 to 30 of 160 items; with few `times` most of them share theirs."""
    rng = np.random.default_rng(seed)
    user, item = [], []
    for one in range(USERS):
        mine = rng.permutation(ITEMS)[: rng.integers(10, 31)]
        user += [one] * len(mine)
        item += mine.tolist()
    order = rng.permutation(len(user))
    time = rng.integers(0, times, len(user)).astype(np.float64)
    return Interactions(
        "made",
        tuple(f"u{one}" for one in range(USERS)),
        tuple(f"i{one}" for one in range(ITEMS)),
        np.array(user)[order],
        np.array(item)[order],
        time=time if timed else None,
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([3, 1000]), st.booleans())
def test_what_is_asked_is_never_in_what_may_be_learnt(seed: int, times: int, timed: bool) -> None:
    data = people(seed, times=times, timed=timed)
    split = make_split(data, seed)
    assert split.kind == ("last" if timed else "random")
    whole = [set(data.item[data.user == one].tolist()) for one in range(USERS)]
    for user in range(USERS):
        early, late = split.validation.train.of(user), split.test.train.of(user)
        asked, later = split.validation.targets[user], split.test.targets[user]
        assert late.tolist() == [*early.tolist(), asked]
        assert {*late.tolist(), later} == whole[user]
        assert len(late) + 1 == len(whole[user])
        negatives = split.test.negatives[user]
        assert len(set(negatives.tolist())) == 99
        assert not whole[user] & set(negatives.tolist())


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31))
def test_a_history_is_in_the_order_of_time_and_the_newest_is_the_test(seed: int) -> None:
    data = people(seed, times=5)
    assert data.time is not None
    when = {(u, i): t for u, i, t in zip(data.user, data.item, data.time, strict=True)}
    split = make_split(data, seed)
    for user in range(USERS):
        line = [*split.test.train.of(user).tolist(), int(split.test.targets[user])]
        times = [when[user, item] for item in line]
        assert times == sorted(times)


def test_equal_times_are_put_in_an_order_by_the_seed() -> None:
    data = people(1, times=1)
    targets = [make_split(data, seed).test.targets.tolist() for seed in (0, 0, 1)]
    assert targets[0] == targets[1] != targets[2]


def test_the_protocols_differ_in_what_a_sampler_may_not_draw_and_in_nothing_else() -> None:
    data = people(2)
    clean = make_split(data, 0).test
    leaky = make_split(data, 0, protocol="paper").test
    assert np.array_equal(clean.targets, leaky.targets)
    assert np.array_equal(clean.train.items, leaky.train.items)
    for user in range(USERS):
        assert clean.targets[user] not in clean.barred.of(user)
        assert leaky.targets[user] in leaky.barred.of(user)


def test_people_with_few_interactions_are_left_out() -> None:
    data = people(3)
    counts = np.bincount(data.user)
    split = make_split(data, 0, least=20)
    assert split.users == tuple(f"u{one}" for one in np.flatnonzero(counts >= 20))


@pytest.mark.parametrize(
    ("kind", "timed", "least", "words"),
    [
        ("last", False, 10, "--split random"),
        ("repeat", False, 10, "--split random"),
        (None, True, 99, "--min-interactions"),
        ("ncf", True, 10, "--split last"),
        ("repeat", True, 10, "buys anything twice"),
    ],
)
def test_what_cannot_be_split_says_what_to_do(
    kind: SplitKind | None, timed: bool, least: int, words: str
) -> None:
    with pytest.raises(BadData, match=words):
        make_split(people(4, timed=timed), 0, kind=kind, least=least)


def test_a_published_split_is_taken_as_it_is() -> None:
    data = people(5)
    last = make_split(data, 0)
    tests = {name: data.items[last.test.train.of(u)[0]] for u, name in enumerate(last.users)}
    negatives = {
        name: [data.items[one] for one in last.test.negatives[u]]
        for u, name in enumerate(last.users)
    }
    split = make_split(data, 0, kind="ncf", published=Published(tests, negatives))
    for user, name in enumerate(split.users):
        assert data.items[split.test.targets[user]] == tests[name]
        assert split.test.targets[user] not in split.test.train.of(user)
    assert np.array_equal(split.test.negatives, last.test.negatives)


def baskets(repeats: int = 3) -> Interactions:
    """Each user buys the same three items and one new one in each of six baskets."""
    user, item, time = [], [], []
    for one in range(4):
        for basket in range(6):
            for bought in [*(10 * one + place for place in range(repeats)), 50 + 6 * one + basket]:
                user.append(one)
                item.append(bought)
                time.append(float(basket))
    names = tuple(f"i{one}" for one in range(200))
    return Interactions(
        "baskets",
        tuple(f"u{one}" for one in range(4)),
        names,
        np.array(user),
        np.array(item),
        time=np.array(time),
    )


def test_what_is_bought_again_is_asked_from_the_newest_basket_and_repeats_stay() -> None:
    split = make_split(baskets(), 1, kind="repeat")
    assert split.test.repeats
    for user in range(4):
        newest = {*(10 * user + place for place in range(3)), 50 + 6 * user + 5}
        assert int(split.test.targets[user]) in newest
        assert len(split.test.train.of(user)) == 5 * 4
        assert len(split.validation.train.of(user)) == 4 * 4
        assert 50 + 6 * user + 5 not in split.test.train.of(user)
