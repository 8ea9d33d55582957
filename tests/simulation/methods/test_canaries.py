"""The canaries are silent under the clean protocol and sing under the leaky one."""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest

from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.data.load import load
from fedrap_simulation.evaluation.metrics import hits, measure
from fedrap_simulation.evaluation.splits import make_split
from fedrap_simulation.evaluation.task import ProtocolName
from fedrap_simulation.methods.baselines.popularity import Popularity
from fedrap_simulation.methods.canaries import (
    LeakCounter,
    Song,
    shuffle_held_out,
    sing,
)
from fedrap_simulation.methods.protocol import no_progress

SYNTHETIC = "synthetic:users=400,items=400,seed=3"
CANARIES = ["personal-only", "leak-counter", "shuffled"]


@cache
def synthetic() -> Interactions:
    return load(SYNTHETIC)


@cache
def songs(protocol: ProtocolName) -> dict[str, Song]:
    return {song.canary: song for song in sing(synthetic(), protocol, seed=1, rounds=30)}


@pytest.mark.parametrize("canary", CANARIES)
def test_under_clean_a_canary_is_as_good_as_a_guess(canary: str) -> None:
    song = songs("clean")[canary]
    assert song.users == 400
    assert song.is_chance, song
    assert not song.fires


@pytest.mark.parametrize("canary", CANARIES)
def test_under_paper_the_same_canary_finds_the_answer(canary: str) -> None:
    song = songs("paper")[canary]
    assert song.fires
    assert song.rate > 0.5, song


@pytest.mark.parametrize("seed", range(5))
def test_the_counter_is_at_chance_whatever_the_seed(seed: int) -> None:
    task = make_split(synthetic(), seed).test
    ranks = measure(LeakCounter(10).fit(task, seed, no_progress), task).sampled
    assert Song("leak-counter", float(hits(ranks).mean()), task.users).is_chance


def test_shuffled_items_are_held_out_and_the_leaky_protocol_bars_them() -> None:
    data = shuffle_held_out(synthetic(), 4)
    before = make_split(synthetic(), 4).test
    clean = make_split(data, 4).test
    leaky = make_split(data, 4, protocol="paper").test
    np.testing.assert_array_equal(before.train.items, clean.train.items)
    np.testing.assert_array_equal(clean.targets, leaky.targets)
    assert np.mean(before.targets == clean.targets) < 0.05
    for user in range(clean.users):
        assert clean.targets[user] not in clean.train.of(user)
        assert clean.targets[user] not in clean.negatives[user]
        assert clean.targets[user] not in clean.barred.of(user)
        assert clean.targets[user] in leaky.barred.of(user)


def test_a_method_without_a_sampler_is_at_chance_on_shuffled_items_under_either() -> None:
    for protocol in ("clean", "paper"):
        *_, shuffled = sing(synthetic(), protocol, 2, rounds=1, suspect=Popularity())
        assert shuffled.is_chance, (protocol, shuffled)


def test_a_bound_is_four_standard_errors_on_either_side() -> None:
    assert Song("x", 0.1, 900).margin == pytest.approx(0.04)
    assert Song("x", 0.139, 900).is_chance
    assert not Song("x", 0.139, 900).fires
    assert Song("x", 0.141, 900).fires
    assert not Song("x", 0.059, 900).is_chance
    assert not Song("x", 0.059, 900).fires


@pytest.mark.skipif("FEDRAP_DATA" not in os.environ, reason="FEDRAP_DATA says where ml-100k is")
def test_canaries_on_movielens() -> None:
    data = load("ml-100k")
    clean = list(sing(data, "clean", 0))
    assert all(song.is_chance for song in clean), clean
    leaky = list(sing(data, "paper", 0))
    assert all(song.rate > 0.9 for song in leaky), leaky
