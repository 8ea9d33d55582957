"""A cut in time: nothing from after the cut is learnt from, and only what is new is asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.evaluation import time_split
from fedrap_simulation.evaluation.compare import bootstrap
from fedrap_simulation.evaluation.metrics import gains, measure
from fedrap_simulation.evaluation.results import Answer, Row
from fedrap_simulation.evaluation.runner import Evaluation, Request
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.evaluation.time_split import CUTS, DAY, cut_at, make_time_split
from fedrap_simulation.methods.baselines.popularity import PopularityRecent
from fedrap_simulation.methods.protocol import no_progress

USERS, ITEMS, SPAN = 20, 180, 100 * DAY


def people(seed: int) -> Interactions:
    """Each user touches 10 to 60 of 180 items, some twice, at any time of a hundred days."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(USERS), rng.integers(10, 61, USERS))
    return Interactions(
        "made",
        tuple(f"u{one}" for one in range(USERS)),
        tuple(f"i{one}" for one in range(ITEMS)),
        user,
        rng.integers(0, ITEMS, len(user)),
        time=np.floor(rng.random(len(user)) * SPAN),
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, CUTS - 1), st.sampled_from(["validation", "test"]))
def test_what_comes_after_the_cut_is_asked_and_never_learnt(
    seed: int, cut_number: int, stage: str
) -> None:
    data = people(seed)
    assert data.time is not None
    split = make_time_split(data, cut_number, days=10.0, least=5)
    task: Task = getattr(split, stage)
    cut = cut_at(data, cut_number) - (10 * DAY if stage == "validation" else 0.0)
    assert task.asked_at == cut
    names = split.users if stage == "test" else None
    first: dict[tuple[int, int], float] = {}
    for user, item, time in zip(data.user, data.item, data.time, strict=True):
        first[user, item] = min(time, first.get((user, item), np.inf))
    past = {pair for pair, time in first.items() if time <= cut}
    known = sorted({user for user, _ in past})
    assert task.users == len(known)
    if names is not None:
        assert names == tuple(data.users[one] for one in known)
    for place, user in enumerate(known):
        mine = task.train.of(place).tolist()
        assert {(user, item) for item in mine} == {pair for pair in past if pair[0] == user}
        times = [first[user, item] for item in mine]
        assert times == sorted(times)
    asked = set(task.asked_users.tolist())
    for place, user in enumerate(known):
        soon = {
            item for (who, item), t in first.items() if who == user and cut < t <= cut + 10 * DAY
        }
        may = len(task.train.of(place)) >= 5 and bool(soon)
        assert (place in asked) == may
        assert (task.targets[place] in soon) if may else task.targets[place] == -1
        assert not soon & set(task.negatives[place].tolist())


def test_later_seeds_cut_later_so_that_settings_are_never_of_the_future() -> None:
    data = people(1)
    cuts = [cut_at(data, seed) for seed in range(CUTS)]
    assert cuts == sorted(cuts)
    assert len(set(cuts)) == CUTS
    with pytest.raises(BadData, match="seeds 0 to 4"):
        cut_at(data, CUTS)


def test_only_who_is_asked_is_measured() -> None:
    task = make_time_split(people(2), 2, least=5).test
    found = measure(PopularityRecent().fit(task, 0, no_progress), task)
    assert len(found.full) == len(task.asked_users) < task.users
    some = task.some(task.asked_users[::-1])
    again = measure(PopularityRecent().fit(some, 0, no_progress), some)
    assert len(again.full) == len(found.full)


def test_recent_popularity_is_of_the_moment_of_the_question() -> None:
    task = make_time_split(people(3), 2, least=5).test
    assert task.times is not None
    assert task.asked_at is not None
    half = 0.02 * float(np.ptp(task.times))
    plain = np.zeros(ITEMS)
    np.add.at(plain, task.train.items, 0.5 ** ((task.asked_at - task.times) / half))
    scores = PopularityRecent(half=0.02).fit(task, 0, no_progress).scores(task.asked_users)
    assert np.allclose(scores, plain[None, :], rtol=1e-4)


@pytest.mark.parametrize("change", ["no times", "ranks", "no days", "nobody"])
def test_data_that_cannot_be_cut_says_why(change: str) -> None:
    data = people(4)
    days, least = 10.0, 5
    if change == "no times":
        data = Interactions(data.name, data.users, data.items, data.user, data.item)
    elif change == "ranks":
        starts = np.searchsorted(data.user, np.arange(USERS))
        ranks = (np.arange(len(data)) - starts[data.user]).astype(np.float64)
        data = Interactions(data.name, data.users, data.items, data.user, data.item, time=ranks)
    elif change == "no days":
        days = 0.0
    else:
        least = 1000
    with pytest.raises(BadData, match="--"):
        make_time_split(data, 0, days=days, least=least)


def test_evaluate_asks_cut_by_cut_and_compares_question_by_question() -> None:
    methods = ("popularity", "popularity-recent")
    request = Request("made", methods, split="time", seeds=2, least=5, days=10.0)
    answers = list(Evaluation(request, people(5)).run(lambda *_: None))
    rows: list[Row] = [one.row for one in answers]
    assert [row.split for row in rows] == ["time:10"] * 4
    assert [row.users for row in rows] == [len(one.full) for one in answers]
    recent: list[Answer] = [one for one in answers if one.row.method == "popularity-recent"]
    popular = [one for one in answers if one.row.method == "popularity"]
    compared = bootstrap(recent, popular, "popularity", 200)
    assert compared is not None
    assert compared["low"] <= compared["ndcg10_full"] <= compared["high"]


def test_settings_are_chosen_on_cuts_that_roll_back_from_the_first() -> None:
    data = people(6)
    split = make_time_split(data, 0, days=5.0, least=3, validations=6)
    moments = (split.validation, *split.validation.earlier)
    assert len(moments) == 6
    cut = cut_at(data, 0)
    assert [one.asked_at for one in moments] == [cut - back * 5 * DAY for back in range(1, 7)]
    for one in moments:
        assert one.stage == "validation"
        assert one.times is not None
        assert one.asked_at is not None
        assert one.times.max() <= one.asked_at
        alone = one.asked_users
        assert len(alone)
        assert (one.targets[alone] >= 0).all()
    first = make_time_split(data, 0, days=5.0, least=3)  # as it is without
    assert first.validation.earlier == ()
    assert np.array_equal(first.validation.targets, split.validation.targets)
    assert np.array_equal(first.test.targets, split.test.targets)
    assert split.validation.some(split.validation.asked_users).earlier == ()
    early = make_time_split(data, 0, days=10.0, least=10, validations=6)
    assert len(early.validation.earlier) < 5  # there is nothing before the data


def test_no_more_cuts_are_learnt_than_answers_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_split, "ENOUGH", 25)
    split = make_time_split(people(6), 0, days=5.0, least=3, validations=6)
    moments = (split.validation, *split.validation.earlier)
    counts = [len(one.asked_users) for one in moments]
    assert 1 < len(moments) < 6
    assert sum(counts) >= 25 > sum(counts[:-1])


def test_the_best_setting_is_that_of_all_validation_cuts_together() -> None:
    """Recent popularity alone says so: one cut would choose another half-life than all."""
    chosen = set()
    for seed in range(12):
        split = make_time_split(people(seed), 0, days=8.0, least=3, validations=4)
        moments = (split.validation, *split.validation.earlier)
        found = PopularityRecent().tune(split.validation, 0, no_progress)
        every = [PopularityRecent(half=one) for one in (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)]
        every += [PopularityRecent(half=one) for one in (0.3, 1.0)]
        told = [
            np.concatenate(
                [
                    gains(measure(one.fit(task, 0, no_progress), task, top=0).full)
                    for task in moments
                ]
            ).mean()
            for one in every
        ]
        assert found == every[int(np.argmax(told))]
        alone = PopularityRecent().tune(
            split.validation.some(np.arange(split.validation.users)), 0, no_progress
        )
        chosen.add(found == alone)
    assert chosen == {True, False}
