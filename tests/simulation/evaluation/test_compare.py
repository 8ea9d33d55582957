"""Differences between methods, user by user."""

from __future__ import annotations

import numpy as np

from fedrap_simulation.evaluation.compare import bootstrap, means
from fedrap_simulation.evaluation.results import Answer, Ranks, Row


def answer(method: str, seed: int, ranks: Ranks) -> Answer:
    row = Row(
        method=method, dataset="made", split="last", protocol="clean", leaky=False, seed=seed,
        users=len(ranks), items=1000, hr10=float(seed), ndcg10=0.0, hr10_full=0.0, ndcg10_full=0.0,
        hr20_full=0.0, ndcg20_full=0.0, mrr_full=0.0, coverage=0.0, gini=0.0,
        ndcg10_head=0.5, ndcg10_middle=None if seed == 3 else 0.2, ndcg10_tail=None,
        ndcg10_few=0.1, ndcg10_some=0.2, ndcg10_many=0.3, seconds=0.0, seconds_tuning=0.0, rounds=0,
        bytes_up=0.0, bytes_down=0.0, zeros=None, settings={},
    )  # fmt: skip
    return Answer(row, ranks, ranks)


def ranks(seed: int, high: int) -> Ranks:
    return np.random.default_rng(seed).integers(0, high, 400)


def test_a_real_difference_excludes_zero_and_luck_does_not() -> None:
    base = ranks(0, 60)
    better = bootstrap([answer("a", 0, base // 2)], [answer("b", 0, base)], "b", 500)
    luck = bootstrap([answer("a", 0, ranks(1, 60))], [answer("b", 0, base)], "b", 500)
    assert better is not None
    assert luck is not None
    assert 0 < better["low"] < better["ndcg10_full"] < better["high"]
    assert luck["low"] < 0 < luck["high"]


def test_only_seeds_that_both_have_are_compared() -> None:
    ours = [answer("a", seed, ranks(seed, 40)) for seed in (0, 1, 2)]
    theirs = [answer("b", seed, ranks(seed, 40)) for seed in (1, 2, 3)]
    found = bootstrap(ours, theirs, "b", 100)
    assert found is not None
    assert found["seeds"] == 2
    assert found["ndcg10_full"] == 0.0
    assert bootstrap(ours[:1], theirs, "b", 100) is None


def test_mean_and_deviation_are_over_the_seeds() -> None:
    answers = [answer("a", seed, ranks(seed, 40)) for seed in (1, 2, 3)]
    (one,) = means(answers, None)
    assert one.seeds == 3
    assert one.mean["hr10"] == 2.0
    assert one.deviation["hr10"] == 1.0
    assert one.against is None
    assert one.mean["ndcg10_head"] == 0.5
    assert not {"ndcg10_middle", "ndcg10_tail"} & set(one.mean)  # some seed has no such target
