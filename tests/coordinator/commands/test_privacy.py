"""`fedrap-coordinator privacy` and GET /v1/privacy: the promise as people and machines read it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedrap_coordinator.cli import main
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.privacy import accountants
from fedrap_core.plan import Adapt, Privacy
from fedrap_core.privacy.accounting import charged_epsilon
from fedrap_core.privacy.statement import state_policy
from testkit.harness import serve, small_settings

PLAN = ["privacy", "plan", "--devices", "943", "--cohort", "94", "--rounds", "100"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedrap.toml").write_text("seed = 0  # all else as it is by default")


def test_a_plan_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    argv = [*PLAN, "--epsilon", "8", "--delta", "1e-5", "--separation", "2", "--items", "1682"]
    assert main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["wanted"]["separation"] == 2
    assert [one["mechanism"] for one in found["options"]] == ["banded", "independent"]
    assert found["options"][0]["coefficients"] == pytest.approx([1.0, 0.7615], abs=1e-3)
    schemes = {one["scheme"] for one in found["not_charged"]}
    assert schemes == {
        "unamplified",
        "Poisson sampling, independent noise",
        "cyclic Poisson sampling, independent noise",
        "cyclic Poisson sampling, banded noise",
    }
    assert all(one["assumptions"] for one in found["not_charged"])


def test_a_plan_for_people_ends_in_a_config_that_loads(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accountants, "is_installed", lambda: False)
    assert main([*PLAN, "--epsilon", "8", "--items", "1682"]) == 0
    shown = capsys.readouterr().out
    assert "pip install 'fedrap-coordinator[privacy]'" in shown
    assert "larger cohorts" in shown
    section = shown[shown.index("[privacy]") :].split("\n\n")[0]
    (tmp_path / "fedrap.toml").write_text(section, encoding="utf-8")
    assert main(["check-config"]) == 0
    rule = json.loads(capsys.readouterr().out)["privacy"]
    assert (rule["separation"], rule["cap"], len(rule["coefficients"])) == (10, 10, 10)
    assert main(["privacy", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["epsilon"] == pytest.approx(8.0, abs=0.01)


def test_a_plan_that_cannot_be_kept_exits_2_with_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*PLAN, "--epsilon", "8", "--separation", "50"]) == 2
    said = capsys.readouterr().err
    assert "10 at the most" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("missing", ["--devices", "--cohort", "--rounds"])
def test_a_plan_needs_its_numbers(missing: str) -> None:
    argv = [*PLAN, "--epsilon", "8"]
    place = argv.index(missing)
    with pytest.raises(SystemExit):
        main(argv[:place] + argv[place + 2 :])


def test_status_says_that_nothing_is_promised_without_noise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["status"]) == 0
    assert "privacy   epsilon 8.0 at delta 1e-05" in capsys.readouterr().out
    monkeypatch.setenv("FEDRAP__PRIVACY__NOISE", "0")
    assert main(["status"]) == 0
    assert "no privacy guarantee" in capsys.readouterr().out
    assert main(["privacy", "status"]) == 0
    shown = capsys.readouterr().out
    assert "epsilon       unbounded" in shown
    assert "noise is 0: there is no privacy guarantee" in shown
    assert "the aggregator process: reads each share" in shown


def test_an_export_is_the_same_document_with_the_other_accountants(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "fedrap.toml").write_text(
        "[privacy]\nnoise = 2.0\ncoefficients = [1.0]\ncap = 4\ndelta = 1e-5"
    )
    assert main(["privacy", "export", "promise.json"]) == 0
    written = json.loads((tmp_path / "promise.json").read_text(encoding="utf-8"))
    assert main(["privacy", "export"]) == 0
    assert json.loads(capsys.readouterr().out) == written
    assert written["mu"] == 1.0
    assert written["epsilon"] == pytest.approx(4.377, abs=5e-4)
    assert [one["epsilon"] for one in written["not_charged"]] == pytest.approx(
        [4.729, 4.377], abs=1e-3
    )
    assert main(["privacy", "status", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {name: written[name] for name in shown}


def test_a_round_keeps_the_promise_that_it_was_opened_with(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_a_round() -> None:
        async with serve(small_settings(noise=2.0, cap=4), str(tmp_path / "c.sqlite")):
            pass

    asyncio.run(open_a_round())
    monkeypatch.setenv("FEDRAP__DATABASE", f"sqlite:///{tmp_path / 'c.sqlite'}")
    monkeypatch.setenv("FEDRAP__PRIVACY__NOISE", "9.0")
    assert main(["privacy", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["noise"] == 2.0


def test_the_coordinator_starts_without_the_accountants() -> None:
    """dp-accounting and scipy take seconds to import, and are not there in most installations."""
    code = "import sys, fedrap_coordinator.commands as _; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "fedrap_coordinator" in loaded
    assert loaded.isdisjoint({"scipy", "dp_accounting", "absl"})


FIELDS = {
    "unit", "adjacency", "separation", "cap", "rounds", "noise", "clip", "delta", "epsilon",
    "assumptions", "trusted", "policy", "task", "coefficients", "row_clip",
}  # fmt: skip


@pytest.mark.spec("5.7")
async def test_everybody_can_ask_the_coordinator_what_it_promises(tmp_path: Path) -> None:
    settings = small_settings(updates=2, noise=1.5, cap=3)
    async with serve(settings, str(tmp_path / "c.sqlite")) as served:
        async with served.session.get(served.url + "/v1/privacy") as answer:
            assert answer.status == 200
            before: dict[str, Any] = await answer.json()
        for _ in range(2):
            await (await served.player()).join()
        async with served.session.get(served.url + "/v1/privacy") as answer:
            after: dict[str, Any] = await answer.json()
        task = served.app[COORDINATOR].task
    assert set(before) >= FIELDS
    assert before["task"] == task.hex()
    assert before["rounds"] == {"released": 0, "total": 100, "min_updates": 2, "max_updates": 2}
    assert after == {**before, "rounds": {**before["rounds"], "released": 1}}
    assert before["epsilon"] == pytest.approx(charged_epsilon(3, 1.5, 1e-5))
    assert before["amplified_epsilon"] is None


@pytest.mark.spec("5.7")
async def test_without_noise_the_statement_has_no_epsilon(tmp_path: Path) -> None:
    async with (
        serve(small_settings(), str(tmp_path / "c.sqlite")) as served,
        served.session.get(served.url + "/v1/privacy") as answer,
    ):
        document = json.loads(await answer.read())  # strict JSON: no Infinity
    assert document["epsilon"] is None
    assert document["assumptions"] == ["noise is 0: there is no privacy guarantee"]


def test_a_statement_names_bands_and_an_adapting_clip() -> None:
    rule = Privacy(noise=2.0, coefficients=(1.0, 0.75), adapt=Adapt(noise=1.0), cap=4)
    stated = state_policy(rule)
    assert stated.mu == pytest.approx(2.0 / rule.charged_noise)
    assert stated.epsilon == pytest.approx(charged_epsilon(4, rule.charged_noise, rule.delta))
    words = " ".join(stated.assumptions)
    assert "|c| = 1.250" in words
    assert "one bit" in words
