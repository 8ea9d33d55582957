"""Settings from what an operator knows: they protect, they load, and nonsense is refused."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap import Floor
from fedrap.rounds.ledger import why_not
from fedrap_coordinator.config_template import MEANING, render
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.privacy import recipe
from fedrap_coordinator.privacy.recipe import (
    USUAL_DEVICES,
    Expected,
    derive,
    devices_needed,
    kept,
    preset_for,
)
from fedrap_coordinator.settings import Settings, load
from fedrap_core.plan import MOST_WEIGHTS, SolveMethod, sequence_of, sequence_scoring
from fedrap_core.privacy.statement import state_policy

SIZES = st.integers(2, 2_000_000)
GUARANTEES = st.one_of(st.none(), st.floats(0.5, 10.0))


def test_the_defaults_are_those_of_the_recipe_for_ten_thousand_devices() -> None:
    assert derive(Expected(10_000, 5000)).settings == Settings()


def test_devices_with_the_default_floor_join_what_the_defaults_offer() -> None:
    plan = Settings().plan()
    assert why_not([], 1, plan, Floor(), 0.0) is None
    assert state_policy(plan.privacy).epsilon <= 8.0 < Floor().max_epsilon
    assert plan.min_updates >= Floor().min_updates
    assert plan.privacy.clip <= Floor().max_clip
    assert Floor().min_updates == recipe.LEAST_COHORT
    assert Floor().max_clip == recipe.LARGEST_CLIP


@given(SIZES, st.integers(10, 200_000), GUARANTEES, st.floats(2, 500))
def test_whatever_is_asked_for_is_kept_or_refused_with_what_it_would_take(
    devices: int, items: int, epsilon: float | None, history: float
) -> None:
    expected = Expected(devices, items, epsilon, history)
    try:
        found = derive(expected)
    except ConfigError:
        with pytest.raises(ConfigError, match=r"too few.*It takes about"):
            derive(expected)
        assert epsilon is not None
        return
    rule, limits = found.settings.privacy, found.settings.round
    assert limits.max_updates * rule.separation <= devices  # nobody is needed in two steps running
    assert limits.total * limits.max_updates <= devices * rule.cap + limits.total
    if epsilon is None:
        assert rule.noise == 0.0
        assert "NO PRIVACY GUARANTEE" in found.why["privacy.noise"]
    else:
        assert state_policy(rule).epsilon <= epsilon * 1.0001
        assert why_not([], 1, found.settings.plan(), Floor(), 0.0) is None


@pytest.mark.parametrize("epsilon", [8.0, 4.0, 2.0])
def test_as_many_devices_as_it_says_are_enough(epsilon: float) -> None:
    few = Expected(100, 5000, epsilon)
    with pytest.raises(ConfigError, match="too few") as refused:
        derive(few)
    needed = int(str(refused.value).partition("takes about ")[2].split()[0])
    derive(Expected(needed, 5000, epsilon))
    with pytest.raises(ConfigError, match="too few"):
        derive(Expected(needed * 8 // 10, 5000, epsilon))


def test_needed_devices_grow_with_items_and_noise() -> None:
    usual = devices_needed(Expected(1, 1000), 1.0, 32)
    assert devices_needed(Expected(1, 10_000), 1.0, 32) > usual
    assert devices_needed(Expected(1, 1000), 3.0, 32) > usual


def test_ten_times_the_devices_are_worth_ten_times_the_epsilon() -> None:
    """And fewer than those of the measurement take no capacity away."""
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        many = preset_for(epsilon, 10 * USUAL_DEVICES)
        assert many == preset_for(10 * epsilon, USUAL_DEVICES) == preset_for(10 * epsilon, 50)
        few = preset_for(epsilon, USUAL_DEVICES)
        assert (many.dim, many.rounds) > (few.dim, few.rounds)
        assert few == preset_for(epsilon, 50)


def test_quality_kept_grows_with_the_signal() -> None:
    shares = [kept(signal) for signal in (0.01, 0.1, 0.5, 1.3, 5.0, 100.0)]
    assert shares == sorted(shares)
    assert 0 < shares[0] <= shares[-1] <= 1


@pytest.mark.parametrize("every_key", [False, True])
@pytest.mark.parametrize(
    "expected",
    [
        Expected(10_000, 5000),
        Expected(30, 50, None),
        Expected(6040, 3706, 2.0, 165),
        Expected(6040, 3706, None, 165),
    ],
    ids=["defaults", "pilot", "small epsilon", "sequence"],
)
def test_the_file_loads_to_the_settings(
    tmp_path: Path, expected: Expected, every_key: bool
) -> None:
    found = derive(expected)
    path = tmp_path / "fedrap.toml"
    path.write_text(render(found.settings, found.why, every_key), encoding="utf-8")
    placed = msgspec.structs.replace(  # relative paths start where the file lies
        found.settings, database=f"sqlite:///{tmp_path}/fedrap.sqlite", keys=str(tmp_path / "keys")
    )
    assert load(path, {}) == placed


def test_every_key_has_a_meaning_and_every_reason_a_key() -> None:
    tree = msgspec.to_builtins(Settings())
    known = {
        name if not isinstance(part, dict) else f"{name}.{key}"
        for name, part in tree.items()
        for key in (part if isinstance(part, dict) else [name])
    }
    off = {f"{part}.{name}" for part in ("method", "scoring") for name in ("sequence", "trend")}
    # The name is that of the method; [split] needs a partner, so `init` writes nothing of it.
    assert set(MEANING) == known - {"scoring.name", "split"} | off
    for expected in (Expected(10_000, 5000), Expected(30, 50, None)):
        assert set(derive(expected).why) <= known | off


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (Expected(6000, 3700, None), "on, because 100 rounds"),
        (Expected(10_000, 5000), "off, because noise is too large"),
        (Expected(5, 50, None), "off, because 20 rounds are too few"),
        (Expected(6000, 3_000_000, None), "off, because 3000000 items are too many"),
    ],
    ids=["open", "guarantee", "pilot", "catalogue"],
)
def test_the_sequence_part_is_on_where_it_is_worth_it_and_says_why(
    expected: Expected, words: str
) -> None:
    found = derive(expected)
    assert found.sequence.startswith(f"sequence part: {words}")
    part, rounds = sequence_of(found.settings.method), found.settings.round.total
    assert (part is not None) == found.sequence.startswith("sequence part: on")
    mix = found.settings.released_scoring()
    assert (sequence_scoring(mix) is not None) == (part is not None)
    if part is not None:
        assert found.settings.sequence.rounds == rounds
        assert found.settings.privacy.row_clip == pytest.approx(15 * part.scale, rel=0.01)


def test_expert_settings_are_written_only_if_asked_for() -> None:
    found = derive(Expected(10_000, 5000))
    short, whole = (
        tomllib.loads(render(found.settings, found.why, all_)) for all_ in (False, True)
    )
    assert "ingest" not in short
    assert "delay_seconds" in whole["ingest"]


@pytest.mark.parametrize(
    "bad",
    [
        Expected(0, 100), Expected(100, 0), Expected(10, 10, 0.0), Expected(10, 10, math.nan),
        Expected(10, 10, None, 0.0), Expected(10, 10, -8.0),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(bad: Expected) -> None:
    with pytest.raises(ConfigError, match="must be from"):
        derive(bad)


@pytest.mark.parametrize(
    ("devices", "items", "history", "dims", "sample", "care", "solve"),
    [
        (6040, 3706, 165, (64, 128), (400, 4), (0.2, 0.2), 4.0),  # ml-1m
        (943, 1682, 105, (64, 64), (38, 1), (0.2, 0.2), 8.0),  # ml-100k
        (1372, 7957, 17, (128, 64), (100, 4), (0.5, 0.6), 16.0),  # amazon-video
        (20_256, 23_554, 32, (256, 128), (100, 4), (0.2, 0.2), 8.0),  # tafeng
        # more than a device is asked to fetch, of the one part and of both
        (100_000, 80_000, 50, (128, 64), (100, 4), (0.2, 0.2), 8.0),
        (100_000, 150_000, 50, (64, 64), (100, 4), (0.2, 0.2), 8.0),
    ],
)
def test_the_size_of_both_parts_follows_what_there_is_to_learn_from(
    devices: int,
    items: int,
    history: float,
    dims: tuple[int, int],
    sample: tuple[int, int],
    care: tuple[float, float],
    solve: float,
) -> None:
    settings = derive(Expected(devices, items, None, history)).settings
    assert isinstance(settings.method, SolveMethod)
    part, mix = sequence_of(settings.method), sequence_scoring(settings.released_scoring())
    assert part is not None
    assert mix is not None
    assert (settings.method.dim, part.dim) == dims
    assert (part.targets, part.decoys) == sample
    assert (part.dropout, settings.sequence.decay) == care
    assert (mix.solve, mix.kappa, mix.adapt) == (solve, 1.0, 0.25)


@pytest.mark.parametrize(
    ("devices", "items", "history", "cohort", "rounds", "longest", "eta", "memory"),
    [
        (6040, 3706, 165, 151, 400, 400, 0.05, 0.975),  # ml-1m: an item is touched 269 times
        (6040, 7000, 165, 604, 100, 200, 0.2, 0.9),  # 142 times
        (3000, 2600, 165, 300, 100, 400, 0.2, 0.9),  # a fortieth would hide in 75 alone
        (1_000_000, 20_000, 100, 25_000, 400, 400, 0.05, 0.975),
        (60, 50, 30, 20, 30, 200, 0.433, 0.9),
        (943, 1682, 105, 94, 100, 200, 0.2, 0.9),  # ml-100k
    ],
)
def test_where_there_is_much_to_learn_rounds_are_more_and_smaller(
    devices: int,
    items: int,
    history: float,
    cohort: int,
    rounds: int,
    longest: int,
    eta: float,
    memory: float,
) -> None:
    settings = derive(Expected(devices, items, None, history)).settings
    limits, learning = settings.round, settings.learning
    assert (limits.max_updates, limits.total) == (cohort, rounds)
    assert settings.privacy.cap == recipe.PARTICIPATIONS
    assert (learning.eta, learning.memory) == (eta, memory)
    assert learning.eta * learning.decay**rounds == pytest.approx(0.22 * learning.eta, rel=0.03)
    assert isinstance(settings.method, SolveMethod)
    part = sequence_of(settings.method)
    assert longest == (200 if part is None else part.longest)
    if part is not None:
        assert part.targets * part.kernels * part.longest <= MOST_WEIGHTS
