"""Who is there when, what they have done by then, and when their phones are ready."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.scenarios.availability import (
    HOUR,
    compute_seconds,
    draw,
    is_ready,
    next_ready,
)
from fedrap_simulation.scenarios.behaviours import Kind, draw_kinds
from fedrap_simulation.scenarios.population import load_population
from fedrap_simulation.scenarios.runner import follow_items
from fedrap_simulation.scenarios.scenario import (
    DAY,
    Behaviours,
    Phones,
    PopulationSettings,
    Scenario,
)

TIMED = """user,item,timestamp
ann,a,0
ann,b,86400
ann,c,172800
bob,b,259200
bob,a,345600
eve,c,8640000
eve,a,8640001
"""


def timed(tmp_path: Path, days: float = 5, **people: object) -> Scenario:
    path = tmp_path / "timed.csv"
    path.write_text(TIMED)
    return Scenario(days=days, population=PopulationSettings(data=str(path), **people))  # type: ignore[arg-type]


def test_real_times_are_kept(tmp_path: Path) -> None:
    population = load_population(timed(tmp_path))
    assert len(population) == 2  # eve comes long after the scenario is over
    names = [population.items[one] for one in population.of(0, 1.5 * DAY)]
    assert names == ["a", "b"]
    assert population.arrive.tolist() == [0.0, 3 * DAY]
    assert population.done(1, 2 * DAY) == 0


def test_what_lies_before_the_first_day_is_history(tmp_path: Path) -> None:
    population = load_population(timed(tmp_path, from_day=2))
    assert population.done(0, 0.0) == 3
    assert population.arrive[0] == 0.0


def test_people_are_asked_for_what_they_will_really_do(tmp_path: Path) -> None:
    population = load_population(timed(tmp_path))
    asked, histories, targets = population.ask(np.arange(2), 0.5 * DAY)
    assert asked.tolist() == [0]
    assert [population.items[one] for one in histories.of(0)] == ["a"]
    assert [population.items[one] for one in targets] == ["b"]
    nobody, _, _ = population.ask(np.arange(2), 100 * DAY)
    assert len(nobody) == 0


def test_nobody_in_time_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="nobody"):
        load_population(timed(tmp_path, least=10))


def test_spread_people_have_a_part_of_their_history_when_they_come() -> None:
    people = PopulationSettings(
        data="synthetic:users=40,items=50", times="spread", arrive_days=2, known=0.5
    )
    scenario = Scenario(days=10, population=people)
    population = load_population(scenario)
    for person in range(len(population)):
        length = population.starts[person + 1] - population.starts[person]
        assert population.done(person, float(population.arrive[person])) == np.ceil(length / 2)
        assert population.done(person, scenario.seconds) == length
    assert load_population(scenario).arrive.tolist() == population.arrive.tolist()


@given(st.integers(0, 2**31), st.integers(0, 10**6), st.floats(0, 30 * DAY))
def test_the_next_ready_moment_is_ready_and_not_before(seed: int, device: int, now: float) -> None:
    phones = Phones()
    moment = next_ready(phones, seed, device, now)
    assert moment >= now
    if moment < now + 7 * DAY:
        assert is_ready(phones, seed, device, moment)


def test_nights_are_better_than_days() -> None:
    phones = Phones()
    night = np.mean([is_ready(phones, 1, one, 3 * HOUR) for one in range(500)])
    noon = np.mean([is_ready(phones, 1, one, 12 * HOUR) for one in range(500)])
    assert night > 0.8
    assert noon < 0.3


def test_phones_that_are_never_ready_are_asked_again_in_a_week() -> None:
    never = Phones(ready=(0.0,) * 24)
    assert next_ready(never, 0, 0, 5.0) == 5.0 + 7 * DAY


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_draws_lie_in_the_unit_interval_and_repeat(seed: int, key: int) -> None:
    assert 0.0 <= draw(seed, key) < 1.0
    assert draw(seed, key) == draw(seed, key)


def test_speeds_differ_from_phone_to_phone() -> None:
    phones = Phones(compute_seconds=2.0, compute_spread=0.8)
    seconds = [compute_seconds(phones, 0, one) for one in range(2000)]
    assert np.median(seconds) == pytest.approx(2.0, rel=0.1)
    assert np.std(np.log(seconds)) == pytest.approx(0.8, rel=0.1)


def test_kinds_meet_their_shares() -> None:
    shares = Behaviours(slow=0.1, poisoning=0.05, vanishing=0.2)
    kinds = draw_kinds(200, shares, np.random.default_rng(0))
    assert kinds.count(Kind.SLOW) == 20
    assert kinds.count(Kind.POISONING) == 10
    assert kinds.count(Kind.VANISHING) == 40
    assert kinds.count(Kind.HONEST) == 130


def test_late_touches_count_more_than_early_ones(tmp_path: Path) -> None:
    population = load_population(timed(tmp_path))
    recent = dict(zip(population.items, population.recent(4 * DAY, 1.0), strict=True))
    assert recent["a"] == pytest.approx(2.0**-4 + 1.0)  # ann on day 0, bob on day 4
    assert recent["b"] == pytest.approx(2.0**-3 + 2.0**-1)
    assert recent["c"] == pytest.approx(2.0**-2)


def test_a_catalogue_follows_its_items(tmp_path: Path) -> None:
    first = np.array([0.0, 8 * DAY, 30 * DAY, np.inf])
    last = np.array([10 * DAY, 60 * DAY, 31 * DAY, -np.inf])
    start, changes = follow_items(first, last, 100 * DAY)
    assert start == [0]
    comes = {at / DAY: which for at, what, which in changes if what == "add"}
    assert comes == {7.0: [1], 28.0: [2]}
    goes = {at / DAY: which for at, what, which in changes if what == "go"}
    assert goes == {21.0: [0], 42.0: [2], 70.0: [1]}
    for at, what, which in changes:  # whoever is touched is there
        if what == "add":
            assert all(at <= first[one] for one in which)
        else:
            assert all(at > last[one] for one in which)
