"""Consent in two parts: recommendations without training, and a no that holds everywhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from fedrap import Conditions, FedRap, Pace
from fedrap.background.conditions import always
from fedrap.cli import main
from fedrap_core.wire import problems
from tests.sdk.background.test_scheduler import until
from tests.sdk.made import MadeCoordinator, a_device, a_release, refused

ANY_TIME = Conditions(always, always, always, always)
AT_ONCE = Pace(period=0.02, look=0.01, backoff=0.01, first=0.0)


def a_declining_device(folder: Path, coordinator: MadeCoordinator, **options: str) -> FedRap:
    device = FedRap.open(folder, transport=coordinator, token="t", **options)  # type: ignore[arg-type]
    device.record("item-1")
    return device


def test_who_declines_training_has_recommendations_and_sends_nothing(tmp_path: Path) -> None:
    coordinator = MadeCoordinator(latest=a_release(2))
    with a_declining_device(tmp_path, coordinator) as device:
        device.consent(recommend=True, train=False, policy="v1")
        device.sync()
        assert len(device.recommend(5)) == 5
        assert device.run_round().blocked_by == "no-consent"
        assert (device.status().consented, device.status().fetching) == (False, True)
    assert set(coordinator.calls) == {"release", "catalogue"}


def test_new_releases_come_in_the_background_without_training(tmp_path: Path) -> None:
    coordinator = MadeCoordinator(latest=a_release(2))
    with a_declining_device(tmp_path, coordinator) as device:
        device.consent(recommend=True, policy="v1")
        device.start(conditions=ANY_TIME, pace=AT_ONCE)
        until(lambda: device.status().release == 2)
    assert set(coordinator.calls) == {"release", "catalogue"}


def test_releases_come_also_where_rounds_are_over_for_good(tmp_path: Path) -> None:
    coordinator = MadeCoordinator(latest=a_release(2))
    coordinator.fails["offer"] = [refused(problems.BUDGET_SPENT)]  # a final answer
    now = 1e9
    time_now = lambda: now  # noqa: E731
    device = FedRap.open(
        tmp_path, transport=coordinator, token="t", clock=time_now, monotonic=time_now,
        uniform=lambda: 0.5,
    )  # fmt: skip
    with device:
        device.consent(train=True, policy="v1")
        device.record("item-1")
        device._process._conditions = ANY_TIME
        first = asyncio.run(device._process._round())
        assert (first.blocked_by, first.retry_after) == ("budget-spent", 4 * 3600)
        coordinator.latest, coordinator.calls = a_release(3), []
        now += 5 * 3600
        again = asyncio.run(device._process._round())
        assert (again.blocked_by, device.status().release) == ("budget-spent", 3)
        assert "offer" not in coordinator.calls
        now += 2 * 86_400
        assert asyncio.run(device._process._round()).joined


@pytest.mark.parametrize("fetch", ["consented", "anonymous"])
def test_before_any_answer_only_an_app_that_says_so_fetches(tmp_path: Path, fetch: str) -> None:
    coordinator = MadeCoordinator(latest=a_release(2))
    with a_declining_device(tmp_path, coordinator, fetch=fetch) as device:
        device.sync()
        assert coordinator.calls == (["release", "catalogue"] if fetch == "anonymous" else [])
        device.consent(recommend=False, train=False, policy="v1")  # an answer is an answer
        coordinator.calls.clear()
        coordinator.latest = a_release(3)
        device.sync()
        assert coordinator.calls == []
        assert bool(device.recommend(3)) == (fetch == "anonymous")  # what is here stays of use


def test_the_form_of_0_1_means_what_it_meant(tmp_path: Path) -> None:
    with FedRap.open(tmp_path) as device:
        device.consent(train=True, policy="v1")
        assert (device.status().consented, device.status().fetching) == (True, True)
        device.consent(train=False, policy="v1")
        assert (device.status().consented, device.status().fetching) == (False, False)


def test_a_withdrawal_of_training_keeps_recommendations(tmp_path: Path) -> None:
    coordinator = MadeCoordinator(latest=a_release(2))
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().joined
        device.consent(recommend=True, train=False, policy="v2")
        coordinator.latest, coordinator.calls = a_release(3), []
        device.sync()
        assert device.status().release == 3
        assert device.run_round().blocked_by == "no-consent"
    assert "offer" not in coordinator.calls


def test_another_process_can_take_the_consent_back(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    with a_device(tmp_path, coordinator) as device:
        script = f"from fedrap import FedRap; FedRap.withdraw({str(tmp_path)!r})"
        coordinator.on_offer = lambda: subprocess.run([sys.executable, "-c", script], check=True)  # type: ignore[assignment]
        assert device.run_round().blocked_by == "no-consent"
        assert "send_update" not in coordinator.calls
        status = device.status()
        assert (status.consented, status.fetching, status.pending) == (False, False, 0)
    with FedRap.open(tmp_path) as device:
        assert not device.status().consented
        device.consent(train=True, policy="v2")
        assert device.status().consented


def test_the_command_line_takes_it_back_while_an_app_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_device(tmp_path, MadeCoordinator()) as device:
        assert main(["--store", str(tmp_path), "consent", "no"]) == 0
        assert "nothing leaves" in capsys.readouterr().out
        assert main(["--store", str(tmp_path), "consent", "yes"]) == 2
        assert not device.status().consented
        assert not (tmp_path / "app" / "withdrawn").exists()  # it was heard, and kept


def test_withdrawing_where_there_is_no_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FedRap.withdraw(tmp_path / "nowhere")
