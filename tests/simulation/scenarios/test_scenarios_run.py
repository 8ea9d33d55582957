"""Every ready scenario in a shortened form, and what a run must notice."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest

from fedrap_core.aggregate import Accumulator
from fedrap_simulation.cli import main
from fedrap_simulation.scenarios.compute import LocalEngine
from fedrap_simulation.scenarios.invariants import InvariantBroken
from fedrap_simulation.scenarios.outcome import Outcome
from fedrap_simulation.scenarios.report import answer_all, to_html
from fedrap_simulation.scenarios.runner import run_scenario
from fedrap_simulation.scenarios.scenario import load_scenario

SMALL: dict[str, Any] = {
    "days": 2,
    "population.data": "synthetic:users=60,items=120",
    "population.arrive_days": 0.2,
    "looks.every_hours": 16,
    "looks.central": False,
    "coordinator.method.dim": 8,
    "coordinator.method.prefixes": 10,
    "coordinator.round.min_updates": 6,
    "coordinator.round.max_updates": 12,
    "coordinator.round.min_seconds": 3600,
    "coordinator.round.total": 12,
}


def run(name: str, folder: Path, **changes: Any) -> Outcome:
    keys = SMALL | {key.replace("__", "."): value for key, value in changes.items()}
    scenario = load_scenario(name, keys)
    return run_scenario(scenario, LocalEngine(), folder, lambda done, words: None)


def test_quiet_learns_and_repeats(tmp_path: Path) -> None:
    first = run("quiet", tmp_path, looks__central=True)
    assert len(first.released) == 12
    assert first.checked["releases computed again"] == 12
    assert first.checked["updates"] == sum(one.updates for one in first.released)
    last = first.looks[-1]
    assert last.ndcg10 > last.ndcg10_popularity
    assert last.ndcg10_central is not None
    again = run("quiet", tmp_path, looks__central=True)
    assert again.digest == first.digest
    assert again.looks == first.looks
    assert again.reports == first.reports
    other = run("quiet", tmp_path, seed=1, looks__central=True)
    assert other.digest != first.digest


def test_a_scenario_learns_both_parts_over_the_real_coordinator(tmp_path: Path) -> None:
    outcome = run(
        "quiet", tmp_path, coordinator__method__sequence__dim=4, coordinator__sequence__rounds=12,
        coordinator__releases__keep_states=20,
    )  # fmt: skip
    assert len(outcome.released) == 12
    assert outcome.checked["releases computed again"] == 12  # both parts of them
    assert outcome.looks[-1].ndcg10 > 0


def test_with_noise_epsilon_is_what_the_policy_says(tmp_path: Path) -> None:
    outcome = run("quiet", tmp_path, coordinator__privacy__noise=2.0)
    assert outcome.epsilon is not None
    assert outcome.promised is not None
    assert 0 < outcome.epsilon <= outcome.promised * (1 + 1e-9)
    assert len(outcome.epsilons) == 5
    page = to_html(outcome)
    for question, big, _ in answer_all(outcome):
        assert question in page
        assert big in page


def test_with_noise_and_windows_nobody_spends_more_in_one_than_the_policy_says(
    tmp_path: Path,
) -> None:
    outcome = run(
        "a-year", tmp_path, days=50, population__data="drifting:users=60,items=60,days=50",
        looks__every_hours=480, looks__frozen_day=45, looks__central=False,
        coordinator__round__min_seconds=86400, coordinator__round__total=1000,
        coordinator__privacy__noise=2.0, coordinator__privacy__cap=2,
        coordinator__privacy__window_days=15, coordinator__privacy__spread_days=15,
        coordinator__method__trend__half_days=5,
    )  # fmt: skip
    assert outcome.promised is not None
    assert outcome.epsilon is not None
    assert outcome.epsilon_window is not None
    assert outcome.epsilon_window <= outcome.promised * (1 + 1e-9)  # every ledger was checked
    assert outcome.epsilon > outcome.promised  # over all windows, as composition has it
    assert "in any window" in to_html(outcome)


def test_a_bad_network_costs_tries_and_no_updates(tmp_path: Path) -> None:
    outcome = run("bad-network", tmp_path)
    assert outcome.trouble["lost on the way back"] > 0
    assert outcome.trouble["corrupted"] > 0
    assert outcome.trouble["copies refused"] > 0
    assert outcome.reports["unreachable"] > 0
    assert outcome.released
    assert outcome.checked["updates"] == sum(one.updates for one in outcome.released)


def test_a_flash_crowd_is_served(tmp_path: Path) -> None:
    outcome = run("flash-crowd", tmp_path, days=0.5, coordinator__round__min_seconds=60)
    assert len(outcome.released) == 12


def test_a_catalogue_that_changes(tmp_path: Path) -> None:
    outcome = run("catalogue-churn", tmp_path)
    assert outcome.released
    assert outcome.looks[-1].ndcg10 > 0


def test_a_year_in_short_stands_beside_a_frozen_release_and_what_is_popular_of_late(
    tmp_path: Path,
) -> None:
    outcome = run(
        "a-year", tmp_path, days=50, population__data="drifting:users=60,items=60,days=50",
        looks__every_hours=240, looks__frozen_day=15, looks__central=True,
        coordinator__round__min_seconds=86400, coordinator__round__total=1000,
        coordinator__privacy__cap=2, coordinator__privacy__window_days=20,
        coordinator__privacy__spread_days=20,
        coordinator__method__trend__half_days=5,
    )  # fmt: skip
    first, *_, last = outcome.looks
    assert first.ndcg10_frozen is None
    assert last.ndcg10_frozen is not None
    assert last.ndcg10_frozen != last.ndcg10
    assert last.ndcg10_recent != last.ndcg10_popularity
    assert outcome.central == "transitions"
    assert "popularity of late" in to_html(outcome)
    days = [one.day for one in outcome.released]
    assert days[-1] - days[0] > 20  # a budget of two rounds was renewed, or learning had ended


def test_a_database_that_is_lost_and_restored_takes_nobody_and_no_step_along(
    tmp_path: Path,
) -> None:
    outcome = run(
        "a-year", tmp_path, days=28, population__data="drifting:users=60,items=60,days=28",
        looks__every_hours=240, looks__frozen_day=15, faults__backup_day=8, faults__restore_day=14,
        coordinator__round__min_seconds=86400, coordinator__round__total=1000,
        coordinator__privacy__spread_days=40, coordinator__method__trend__half_days=5,
    )  # fmt: skip
    steps = [one.step for one in outcome.released]
    assert len(steps) == len(set(steps))
    gap = max(later - earlier for earlier, later in itertools.pairwise(steps))
    assert gap > 1  # steps that the lost database had made are made by nobody again
    assert max(one.day for one in outcome.released) > 20
    assert outcome.healed > 0  # devices that enrolled after the copy was made came anew


def test_a_task_goes_on_with_another_model_while_the_old_one_serves(tmp_path: Path) -> None:
    outcome = run(
        "a-year", tmp_path, days=30, population__data="drifting:users=60,items=60,days=30",
        looks__every_hours=240, looks__central=False, looks__frozen_day=25,
        succession__day=12, succession__switch_day=20, succession__dim=12,
        faults__backup_day=28, faults__restore_day=29,
        coordinator__round__min_seconds=86400, coordinator__round__total=1000,
        coordinator__privacy__spread_days=20, coordinator__method__trend__half_days=5,
    )  # fmt: skip
    assert outcome.dim == 12
    days = [one.day for one in outcome.released]
    assert any(12 < day < 20 for day in days)  # learnt beside the release in use
    assert any(day > 20 for day in days)  # and after it took its place
    assert outcome.looks[-1].ndcg10 > 0
    assert outcome.reports["joined"] > 0


def test_poisoning_is_measured(tmp_path: Path) -> None:
    outcome = run("poisoned", tmp_path, behaviours__poisoning=0.1)
    assert math.isfinite(outcome.looks[-1].exposure)
    assert "Exposure of the promoted item" in to_html(outcome)


def test_a_month_of_real_times(tmp_path: Path) -> None:
    """The scenario's own keys on a file of the same shape; the real set is not shipped."""
    lines = ["user,item,timestamp"]
    for user in range(40):
        for place in range(14):
            at = 86400 * (user % 8) / 4 + 20000 * place + user
            lines.append(f"u{user},i{(user * 7 + place * place) % 60},{at}")
    path = tmp_path / "timed.csv"
    path.write_text("\n".join(lines))
    outcome = run(
        "ml-100k-month", tmp_path, days=4, population__data=str(path), population__from_day=0.5,
        coordinator__round__min_updates=4, coordinator__round__max_updates=8,
    )  # fmt: skip
    assert outcome.released
    assert outcome.devices <= 40


def test_a_sum_that_is_wrong_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One update of a round counted twice: the release is not what devices sent."""
    real, calls = Accumulator.add, [0]

    def add(self: Accumulator, update: Any) -> None:
        calls[0] += 1
        real(self, update)
        if calls[0] == 3:
            real(self, update)

    monkeypatch.setattr(Accumulator, "add", add)
    with pytest.raises(InvariantBroken, match=r"updates summed|not what the devices"):
        run("quiet", tmp_path)


def test_the_command_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = SMALL | {"days": 1, "coordinator.round.total": 4}
    changes = [
        part
        for key, value in keys.items()
        for part in ("--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}")
    ]
    assert main(["field", "quiet", "--out", str(tmp_path / "out"), *changes]) == 0
    told = capsys.readouterr()
    assert "NDCG@10" in told.err
    assert told.out.strip().endswith("report.html")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")  # it needs nothing from outside
    assert (tmp_path / "out" / "outcome.json").stat().st_size > 1000


def test_a_real_process_that_is_killed(tmp_path: Path) -> None:
    """Killed -9 twice while devices are at work; nothing accepted is lost, rounds go on."""
    outcome = run(
        "coordinator-crashes", tmp_path, days=90 / 86400, until_round=6, faults__kills=2,
        faults__within_days=6 / 86400,
        coordinator__round__min_seconds=0.5, coordinator__round__total=200,
        coordinator__privacy__cap=200, looks__every_hours=1 / 3600,
        population__arrive_days=0.0, faults__down_seconds=0.1,
    )  # fmt: skip
    assert outcome.reports["unreachable"] > 0
    assert outcome.checked["rounds"] > 0
    assert outcome.checked["releases computed again"] > 0
