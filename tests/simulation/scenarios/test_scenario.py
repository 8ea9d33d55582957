"""A scenario is data, and what is wrong with it is said with its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrap_simulation.cli import main
from fedrap_simulation.scenarios.scenario import BadScenario, library, load_scenario

READY = {
    "a-year",
    "quiet",
    "ml-100k-month",
    "flash-crowd",
    "bad-network",
    "poisoned",
    "coordinator-crashes",
    "catalogue-churn",
}


def test_the_library_has_what_it_promises() -> None:
    assert set(library()) == READY
    for name in library():
        scenario = load_scenario(name)
        assert scenario.name == name
        assert scenario.about


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("dayz = 3", "dayz"),
        ("[network]\nlos = 0.1", "network: Object contains unknown field `los`"),
        ("[network]\nloss = 1.5", "network.loss"),
        ("[coordinator.round]\nmin_update = 3", "coordinator.round"),
        ("[phones]\nready = [1, 1]", "phones.ready"),
        ('clock = "virtual"\njoined = "http"', "sockets take real time"),
        ("[faults]\nkills = 3", "real process"),
        ("[behaviours]\nslow = 0.7\nlying = 0.7", "more than 1"),
        ("days = ", "not TOML"),
    ],
)
def test_an_error_names_the_key(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(BadScenario) as caught:
        load_scenario(str(path))
    assert str(path) in str(caught.value)
    assert told in str(caught.value)


def test_a_wrong_name_gets_a_hint() -> None:
    with pytest.raises(BadScenario, match="did you mean quiet"):
        load_scenario("quite")


def test_keys_can_be_changed() -> None:
    scenario = load_scenario("quiet", {"network.loss": 0.25, "coordinator.round.total": 3})
    assert scenario.network.loss == 0.25
    assert scenario.coordinator.round.total == 3
    with pytest.raises(BadScenario, match="days is not a table"):
        load_scenario("quiet", {"days.more": 1})


def test_the_command_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["field", "nowhere.toml"]) == 2
    assert "Ready ones: a-year, bad-network" in capsys.readouterr().err
    assert main(["field", "quiet", "--set", "network.loss"]) == 2
    assert "KEY=VALUE" in capsys.readouterr().err
