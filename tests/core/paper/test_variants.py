"""Each variant by name trains, and has the property that defines it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fedrap_core.errors import BrokenModel
from fedrap_core.paper.averaging import Averaging, average_step
from fedrap_core.paper.training import train_local
from fedrap_core.paper.variants import NAMES, make_variant
from fedrap_core.plan import PaperMethod
from fedrap_core.solve.server_step import Learner, RoundSum
from fedrap_core.sparse import packed_size
from fedrap_simulation.evaluation.metrics import rank_of
from fedrap_simulation.methods.paper_centralised import train_centrally
from tests.core.paper.made import Population, catalogue, population, round_of

BASE = PaperMethod(dim=4, rate=100.0, user_rate=0.05, apart=1e-3, sparse=1e-2)


def _played(name: str, rounds: int = 6, threshold: float = 0.02) -> Population:
    method = make_variant(name, BASE).method
    rng = np.random.default_rng(1)
    world = population(rng, method)
    losses = [
        world.play(method, Averaging(threshold=threshold), step, rng)
        for step in range(1, rounds + 1)
    ]
    assert losses[-1] < losses[0], name
    return world


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_trains_by_its_name(name: str) -> None:
    _played(name)


def test_an_unknown_variant_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="fedrap-square"):
        make_variant("fedrap-x")


def test_no_row_of_d_in_fedrap_c() -> None:
    world = _played("fedrap-c")
    assert all(len(state.rows) == 0 for state in world.states)


def test_no_delta_of_c_in_fedrap_d() -> None:
    world = _played("fedrap-d")
    rng = np.random.default_rng(1)
    np.testing.assert_array_equal(world.common, population(rng, BASE).common)
    result = train_local(round_of(rng, make_variant("fedrap-d", BASE).method))
    assert len(result.update.rows) == 0


def test_l1_leaves_exact_zeros_in_c_and_l2_none() -> None:
    assert np.count_nonzero(_played("fedrap").common == 0) > 0
    assert np.count_nonzero(_played("fedrap-l2").common == 0) == 0
    assert np.count_nonzero(_played("fedrap-no").common == 0) == 0


def test_on_the_device_l1_gives_exact_zeros_in_the_working_set() -> None:
    strong = msgspec.structs.replace(BASE, sparse=20.0)
    for name, zeros in (("fedrap", True), ("fedrap-l2", False), ("fedrap-no", False)):
        problem = round_of(np.random.default_rng(2), make_variant(name, strong).method)
        result = train_local(problem)
        rows = np.concatenate([problem.own_rows, problem.other_rows])
        start = np.concatenate([problem.start.own, problem.start.other])[np.argsort(rows)]
        assert bool(np.any(start + result.update.values == 0)) is zeros, name


@pytest.mark.parametrize("name", ["fixed", "sin", "square", "frac"])
def test_a_curriculum_variant_differs_from_the_original_in_its_curriculum_alone(name: str) -> None:
    variant = make_variant(f"fedrap-{name}", BASE)
    assert variant.method == msgspec.structs.replace(BASE, curriculum=name)


def test_fedrap_noise_clips_the_whole_delta_once_and_noises_it() -> None:
    variant = make_variant("fedrap-noise", BASE)
    assert variant.privacy.clip == pytest.approx(10.0)  # eta·tau
    assert variant.privacy.noise == 1.0
    assert make_variant("fedrap", BASE).privacy.noise == 0.0


def test_one_federated_epoch_of_everybody_is_one_step_of_centrap() -> None:
    variant = make_variant("centrap", BASE)
    assert variant.centralised
    world = population(np.random.default_rng(3), variant.method)
    common, states = train_centrally(
        world.common, world.states, world.seen, world.unseen, variant.method, Averaging(), 2,
        np.random.default_rng(4).random, full=False,
    )  # fmt: skip
    world.play(variant.method, Averaging(), 2, np.random.default_rng(4))
    np.testing.assert_array_equal(common, world.common)
    for ours, theirs in zip(states, world.states, strict=True):
        np.testing.assert_array_equal(ours.personal, theirs.personal)


def test_the_mean_of_deltas_is_the_mean_of_what_devices_made_of_c() -> None:
    rng = np.random.default_rng(5)
    common = catalogue(rng, 4, 6)
    deltas = rng.normal(size=(3, 6, 4))
    deltas[:, 5] = 0.0
    total = RoundSum(np.arange(5), deltas.sum(axis=0)[:5], np.zeros(packed_size(4)), 3)
    found = average_step(Learner(common), total, BASE, Averaging(), 1)
    np.testing.assert_allclose(found.common, np.mean(common + deltas, axis=0))


def test_a_round_without_devices_changes_nothing_and_a_broken_sum_is_refused() -> None:
    state = Learner(np.ones((2, 4)))
    empty = RoundSum(np.zeros(0, dtype=np.int64), np.zeros((0, 4)), np.zeros(10), 0)
    assert average_step(state, empty, BASE, Averaging(), 1) is state
    broken = RoundSum(np.arange(2), np.full((2, 4), np.inf), np.zeros(10), 1)
    with pytest.raises(BrokenModel):
        average_step(state, broken, BASE, Averaging(), 1)


def test_the_leaky_protocol_shows_the_rise_of_the_paper_and_the_clean_one_does_not() -> None:
    # Negatives that spare the held-out item teach D to tell it from every other candidate.
    method = PaperMethod()
    hits = {}
    for leaky in (True, False):
        rng = np.random.default_rng(6)
        world = population(rng, method, users=16)
        held = [int(rng.choice(rest)) for rest in world.unseen]
        if leaky:
            world.unseen = [rest[rest != h] for rest, h in zip(world.unseen, held, strict=True)]
        found = []
        for step in range(1, 9):
            world.play(method, Averaging(), step, rng, full=True)
            places = []
            for user, item in enumerate(held):
                scores = world.scores(user)
                scores[world.seen[user]] = -np.inf
                places.append(rank_of(scores, item))
            found.append(float(np.mean(np.array(places) < 5)))
        hits[leaky] = found
    assert hits[True][-1] >= 0.9
    assert hits[True][-1] > hits[True][0]
    assert hits[False][-1] <= 0.3
