"""The demo's claims, on a smaller population: federation helps, and by how much."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fedrap_simulation.cli import main
from fedrap_simulation.data.synthetic import Shape
from fedrap_simulation.scenarios.demo import DemoPlan, DemoResult, RoundLine, run_demo

SMALL = DemoPlan(shape=Shape(users=60, items=120, tastes=4), rounds=10, dim=8, noise=0.0)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> tuple[DemoResult, list[RoundLine]]:
    import asyncio

    lines: list[RoundLine] = []
    done = asyncio.run(run_demo(SMALL, tmp_path_factory.mktemp("demo"), lines.append))
    return done, lines


def test_personalised_recommendations_are_clearly_above_popularity(
    result: tuple[DemoResult, list[RoundLine]],
) -> None:
    assert result[0].hr10 >= result[0].hr10_popularity + 0.1


def test_without_federation_they_are_clearly_worse(
    result: tuple[DemoResult, list[RoundLine]],
) -> None:
    assert result[0].hr10_frozen <= result[0].hr10 - 0.1


def test_every_round_is_shown_and_the_loss_falls(
    result: tuple[DemoResult, list[RoundLine]],
) -> None:
    lines = result[1]
    assert [line.round for line in lines] == list(range(1, 11))
    assert {line.participants for line in lines} == {30}
    assert lines[-1].loss < lines[0].loss
    assert all(line.upload_bytes > 0 for line in lines)


def test_each_device_is_charged_for_every_other_round_and_no_noise_promises_nothing(
    result: tuple[DemoResult, list[RoundLine]],
) -> None:
    assert result[0].participations == 5
    assert result[0].epsilon is None


def test_the_reasons_of_the_example_add_up_to_its_scores(
    result: tuple[DemoResult, list[RoundLine]],
) -> None:
    for one in result[0].example:
        assert one.score == pytest.approx(one.shared + one.personal, abs=1e-9)
        assert sum(why.shared for why in one.reasons) == pytest.approx(one.shared, abs=1e-9)
        assert sum(why.personal for why in one.reasons) == pytest.approx(one.personal, abs=1e-9)


def test_the_command_writes_json_with_the_promised_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "demo.json"
    options = ["--devices", "20", "--items", "60", "--rounds", "2", "--json", str(path)]
    assert main(["demo", *options]) == 0
    found = json.loads(path.read_text())
    promised = (
        "rounds devices hr10 hr10_popularity hr10_planted upload_bytes_per_update dense_bytes "
        "zeros_in_c epsilon"
    )
    assert set(promised.split()) <= set(found)
    assert (found["rounds"], found["devices"], found["dense_bytes"]) == (2, 20, 4 * 60 * 12)
    assert found["epsilon"] > 0
    shown = capsys.readouterr()
    assert shown.out == ""
    for word in ("round   2/2", "popularity", "epsilon charged", "because of"):
        assert word in shown.err


def test_a_demo_of_no_devices_is_refused_with_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["demo", "--devices", "1"]) == 2
    assert "at least 4 devices" in capsys.readouterr().err


def test_the_defaults_are_what_the_readme_promises() -> None:
    assert DemoPlan().shape.users == 200
    assert DemoPlan().rounds >= 20
    assert replace(DemoPlan(), seed=1).shape == Shape()
