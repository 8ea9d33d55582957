"""Changing the policy of a running task is an act: told, allowed, written down, and obeyed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fedrap import Floor
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.export import statement_of
from fedrap_coordinator.admin.policy_actions import PolicyActions
from fedrap_coordinator.cli import main
from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.memory import MemoryStore
from testkit.harness import one_cell, serve, small_settings

NOISY = small_settings(updates=1, separation=1, noise=2.0, cap=4)
BARE = small_settings(updates=1, separation=1, noise=0.5, cap=4)


async def test_other_settings_stop_the_start_with_a_line_that_says_what_to_do() -> None:
    store, keyring = MemoryStore(), fresh_keyring()
    async with serve(NOISY, store, keyring) as served:
        await (await served.player()).join(one_cell(0))
    with pytest.raises(ConfigError, match=r"noise from 2 to 0\.5.*policy change"):
        async with serve(BARE, store, keyring):
            pass
    async with serve(NOISY, store, keyring):
        pass  # nothing was changed by the attempt


async def test_a_change_is_announced_in_the_plan_and_devices_hold_it_against_their_floor(
    tmp_path: Path,
) -> None:
    store, keyring = MemoryStore(), fresh_keyring()
    floor = Floor(min_updates=1, separation=1, max_epsilon=5.0)
    async with serve(NOISY, store, keyring) as served:
        coordinator = served.app[COORDINATOR]
        device = await served.device(tmp_path / "device", ["item-1"], floor=floor)
        assert (await device.run_round_async()).joined
        await coordinator.advance()
        admin = AdminActions(store, NOISY, SYSTEM, "ann")
        asked = await PolicyActions(admin).change({"noise": 0.5}, take=False)
        assert not asked.changed
        assert "goes from" in asked.effect[0]
        assert coordinator.plan.privacy.noise == 2.0
        done = await PolicyActions(admin).change({"noise": 0.5}, take=True)
        assert done.changed
        await (await served.player()).join(one_cell(0))  # the open round keeps its rule
        await coordinator.advance()
        assert coordinator.plan.privacy.noise == 0.5  # without a restart
        assert (await device.run_round_async()).blocked_by == "floor-epsilon"
        shell = await statement_of(store, NOISY, SYSTEM)  # whatever that shell is set to
        assert shell["noise"] == 0.5
        audit = (await admin.audit()).rows[-1]
        assert (audit.who, audit.action, audit.target) == (
            "ann", "change-policy", "noise from 2 to 0.5",
        )  # fmt: skip
        assert not await store.change_policy(b"x", was=b"something else", audit=None)
    with pytest.raises(ConfigError, match=r"noise from 0\.5 to 2"):
        async with serve(NOISY, store, keyring):
            pass


async def test_a_user_can_be_asked_before_a_weaker_policy_is_joined(tmp_path: Path) -> None:
    store, keyring = MemoryStore(), fresh_keyring()
    floor = Floor(min_updates=1, separation=1, max_epsilon=50.0, ask_again=True)
    async with serve(NOISY, store, keyring) as served:
        coordinator = served.app[COORDINATOR]
        device = await served.device(tmp_path / "device", ["item-1"], floor=floor)
        admin = PolicyActions(AdminActions(store, NOISY, SYSTEM, "ann"))

        async def change_and_go_on(noise: float) -> None:
            await admin.change({"noise": noise}, take=True)
            await (await served.player()).join(one_cell(0))  # the open round keeps its rule
            await coordinator.advance()

        assert (await device.run_round_async()).joined
        agreed = device.status().privacy
        assert agreed is not None
        await coordinator.advance()
        await change_and_go_on(0.9)
        report = await device.run_round_async()
        assert (report.joined, report.blocked_by) == (False, "policy-changed")
        assert report.offered is not None
        assert report.offered.epsilon > agreed.epsilon
        device.consent(train=True, policy="the new text")
        assert (await device.run_round_async()).joined
        await coordinator.advance()
        await change_and_go_on(2.0)  # a stronger one asks nobody
        assert (await device.run_round_async()).joined


async def test_two_who_change_it_at_once_do_not_overwrite_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    async with serve(NOISY, store):
        admin = PolicyActions(AdminActions(store, NOISY, SYSTEM, "ann"))
        other = PolicyActions(AdminActions(store, NOISY, SYSTEM, "bob"))
        effect = admin._effect

        async def meanwhile(*policies: object) -> tuple[str, ...]:
            await other.change({"cap": 5}, take=True)
            return await effect(*policies)  # type: ignore[arg-type]

        monkeypatch.setattr(admin, "_effect", meanwhile)
        with pytest.raises(Refusal):
            await admin.change({"cap": 9}, take=True)


async def test_more_rounds_wake_a_task_that_was_over() -> None:
    store, settings = MemoryStore(), small_settings(updates=1, separation=1, total=1)
    async with serve(settings, store) as served:
        coordinator = served.app[COORDINATOR]
        await (await served.player()).join(one_cell(0))
        await coordinator.advance()
        assert coordinator.is_over
        admin = AdminActions(store, settings, SYSTEM, "ann")
        await PolicyActions(admin).change({"total": 2}, take=True)
        await coordinator.advance()
        assert coordinator.round is not None
        assert not coordinator.is_over


def test_the_command_says_what_it_does_and_does_it_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["init", "--devices", "20000", "--items", "100"]
    assert main(argv) == 0
    assert main(["policy", "change"]) == 0  # the first look keeps what the settings say
    assert "nothing to change" in capsys.readouterr().err
    monkeypatch.setenv("FEDRAP__PRIVACY__NOISE", "0.7")
    served = subprocess.run(
        [sys.executable, "-m", "fedrap_coordinator", "serve"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert served.returncode == 2
    assert "these settings are not the policy in force" in served.stderr
    assert main(["policy", "change"]) == 0
    shown = capsys.readouterr()
    assert "noise:" in shown.out
    assert "goes from" in shown.out
    assert "nothing was changed" in shown.err
    assert main(["policy", "change", "--yes"]) == 0
    assert main(["policy", "show", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.split("\n{", 1)[-1].join(["{", ""]))
    assert found["policy"]["privacy"]["noise"] == 0.7
    monkeypatch.delenv("FEDRAP__PRIVACY__NOISE")
    assert main(["privacy", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["noise"] == 0.7  # the task's, not the shell's
