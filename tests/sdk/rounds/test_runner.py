"""A round from the device's side: what it refuses, what it writes first, what it sends again."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import pytest

from fedrap import CoordinatorUnreachable, FedRap, Floor, Status
from fedrap.rounds.session import Access, RoundSession
from fedrap.rounds.state import RoundState
from fedrap.storage.device_state import DeviceState
from fedrap_core.plan import PaperMethod, Plan, Privacy, SolveMethod
from fedrap_core.wire import problems
from fedrap_core.wire.codec import encode_value
from tests.sdk.made import (
    DEVICE,
    DIM,
    ITEMS,
    PLAN,
    TASK,
    Clock,
    MadeCoordinator,
    a_device,
    a_release,
    refused,
)


@pytest.fixture
def coordinator() -> MadeCoordinator:
    return MadeCoordinator()


@pytest.mark.spec("5.2", "7.1")
def test_a_device_joins_a_round_and_sends_only_rows_of_its_own_items(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    with a_device(tmp_path, coordinator, items=("item-5", "item-2", "not in C")) as device:
        report = device.run_round()
        assert (report.joined, report.step, report.blocked_by) == (True, 1, None)
        assert report.loss is not None
        assert 0 <= report.loss <= 1
        assert coordinator.calls == ["enrol", "release", "catalogue", "offer", "send_update"]
        [(round_id, body)] = coordinator.sent
        update, share = coordinator.opened(body)
        assert (update.device, update.task, update.round) == (DEVICE, TASK, round_id)
        assert update.model == coordinator.latest.model
        np.testing.assert_array_equal(share.rows, [2, 5])
        assert share.norm() <= PLAN.privacy.clip * 1.01
        assert report.sent_bytes == len(body)
        assert (device.status().rounds, device.status().pending) == (1, 0)


def test_the_update_has_no_item_id_in_it(tmp_path: Path, coordinator: MadeCoordinator) -> None:
    with a_device(tmp_path, coordinator) as device:
        device.run_round()
    for _, body in coordinator.sent:
        assert b"item-" not in body


@pytest.mark.spec("7.7")
def test_after_a_failed_send_the_same_bytes_are_sent_again(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    coordinator.fails["send_update"] = [CoordinatorUnreachable("gone")] * 2
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().blocked_by == "unreachable"
        assert device.status().pending == 1
        device.record("item-7")  # what is recorded later does not change them
        assert device.run_round().blocked_by == "unreachable"
    with FedRap.open(tmp_path, transport=coordinator) as again:  # nor does a restart
        assert again.run_round().joined
        assert (again.status().pending, again.status().rounds) == (0, 1)
    assert len(coordinator.sent) == 3
    assert len(set(coordinator.sent)) == 1
    assert coordinator.calls.count("offer") == 1


@pytest.mark.parametrize(
    "problem", [one for one in problems.ALL.values() if one.family is not problems.Family.RETRY]
)
def test_a_final_refusal_drops_the_update_and_the_charge_stays(
    tmp_path: Path, coordinator: MadeCoordinator, problem: problems.Problem
) -> None:
    coordinator.fails["send_update"] = [refused(problem)]
    with a_device(tmp_path, coordinator) as device:
        report = device.run_round()
        assert (report.joined, report.blocked_by) == (False, problem.code)
        assert (device.status().pending, device.status().rounds) == (0, 1)


@pytest.mark.parametrize(
    "problem",
    [
        one
        for one in problems.ALL.values()
        if one.family is problems.Family.RETRY and one is not problems.CERTIFICATE_EXPIRED
    ],
)
def test_a_refusal_that_time_cures_keeps_the_update(
    tmp_path: Path, coordinator: MadeCoordinator, problem: problems.Problem
) -> None:
    coordinator.fails["send_update"] = [refused(problem)]
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().blocked_by == problem.code
        assert device.status().pending == 1
        assert device.run_round().joined
    assert coordinator.sent[0] == coordinator.sent[1]


def test_a_receipt_for_other_bytes_is_not_a_receipt(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    coordinator.receipt = bytes(32)
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().blocked_by == "unreachable"
        assert device.status().pending == 1


@pytest.mark.spec("7.7")
def test_ledger_and_bytes_are_on_disk_before_anything_is_sent(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    seen: list[tuple[Status, bytes]] = []

    def pull_the_plug() -> None:
        crashed = tmp_path / f"crash-{len(seen)}"
        shutil.copytree(tmp_path / "device", crashed)
        with FedRap.open(crashed) as left:
            seen.append((left.status(), left._state.snapshot().outbox[0][1]))

    coordinator.on_send = pull_the_plug
    with a_device(tmp_path / "device", coordinator) as device:
        assert device.run_round().joined
    [(status, body)] = seen
    assert (status.rounds, status.pending, status.personal_items) == (1, 1, 3)
    assert body == coordinator.sent[0][1]


@pytest.mark.spec("7.1")
def test_a_release_that_came_out_in_between_is_fetched_and_asked_for_once(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    newer, stale = a_release(version=2, seed=4), refused(problems.STALE_MODEL, 0)
    with a_device(tmp_path, coordinator) as device:
        coordinator.fails["offer"] = [stale]
        coordinator.on_offer = lambda: setattr(coordinator, "latest", newer)
        assert device.run_round().joined
        assert coordinator.calls[3:] == ["offer", "release", "catalogue", "offer", "send_update"]
        assert coordinator.opened(coordinator.sent[0][1])[0].model == newer.model
        coordinator.step, coordinator.fails["offer"] = 3, [stale, stale, stale]
        coordinator.calls.clear()
        assert device.run_round().blocked_by == "stale-model"
        assert coordinator.calls.count("offer") == 2


@pytest.mark.spec("7.1")
def test_an_offer_for_a_model_that_the_device_does_not_hold_is_refused(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    with a_device(tmp_path, coordinator) as device:
        device.sync()
        coordinator.latest = a_release(version=1, seed=9)  # the same number, other numbers
        assert device.run_round().blocked_by == "forked-release"
        assert device.status().rounds == 0
    assert coordinator.sent == []


@pytest.mark.spec("7.5")
def test_an_offer_within_b_steps_is_refused_although_the_server_asks(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    with a_device(tmp_path, coordinator, floor=Floor(separation=3)) as device:
        joined = []
        for coordinator.step in (10, 11, 12, 13, 9, 16):
            report = device.run_round()
            assert report.blocked_by == (None if report.joined else "ledger-separation")
            joined.append(report.joined)
        assert joined == [True, False, False, True, False, True]
        assert device.status().rounds == 3
    assert len(coordinator.sent) == 3


def an_offer(**changes: object) -> bytes:
    return encode_value(msgspec.structs.replace(PLAN, **changes))


@pytest.mark.spec("5.1", "7.5")
@pytest.mark.parametrize(
    ("plan", "blocked"),
    [
        (an_offer(min_updates=1), "floor-cohort"),
        (an_offer(privacy=Privacy(noise=0.4)), "floor-noise"),
        (an_offer(method=SolveMethod(dim=DIM + 1)), "stale-model"),
        (an_offer(method=PaperMethod(dim=DIM)), "stale-model"),
        (encode_value(Plan(method=SolveMethod(dim=DIM)))[:-1], "unreachable"),
        (b"\x81\xa6method\x81\xa4name\xa5magic", "unreachable"),
    ],
)
def test_a_plan_that_the_device_does_not_follow_is_refused(
    tmp_path: Path, coordinator: MadeCoordinator, plan: bytes, blocked: str
) -> None:
    coordinator.plan = plan
    with a_device(tmp_path, coordinator, floor=Floor(min_noise=0.5)) as device:
        assert device.run_round().blocked_by == blocked
        assert device.status().rounds == 0
    assert coordinator.sent == []


def test_an_offer_of_another_task_is_refused(tmp_path: Path, coordinator: MadeCoordinator) -> None:
    coordinator.task = b"u" * 16
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().blocked_by == "another-task"
    assert coordinator.sent == []


def test_a_sealing_key_that_is_no_point_is_refused(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    coordinator.seal_key = b"\x04" + bytes(64)
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().blocked_by == "unreachable"
        assert (device.status().rounds, device.status().pending) == (0, 0)


@pytest.mark.spec("7.2")
def test_a_broken_release_leaves_the_old_one_in_use(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    with a_device(tmp_path, coordinator) as device:
        device.sync()
        before = device.recommend(5)
        good = a_release(version=2, seed=3)
        coordinator.latest = msgspec.structs.replace(good, model=bytes(32))
        assert device.run_round().blocked_by == "broken-release"
        assert (device.status().release, device.recommend(5)) == (1, before)
        coordinator.latest = good
        assert device.run_round().joined
        assert device.status().release == 2
        assert device.recommend(5) != before


@pytest.mark.spec("7.3")
def test_a_row_that_the_device_knows_never_gets_another_item(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    with a_device(tmp_path, coordinator) as device:
        device.sync()
        coordinator.items = ["swapped", *ITEMS[1:], "new"]
        coordinator.latest, coordinator.catalogue_start = a_release(version=2, size=13), 0
        device.sync()
        shown = {item for item, _ in device.recommend(20, filter_seen=False)}
        assert shown == {*ITEMS, "new"}
        coordinator.latest, coordinator.catalogue_start = a_release(version=3, size=20), 15
        assert device.run_round().blocked_by == "broken-release"
        assert device.status().release == 2


@pytest.mark.spec("7.12")
def test_a_device_that_is_told_to_wait_waits(tmp_path: Path, coordinator: MadeCoordinator) -> None:
    clock = Clock()
    coordinator.fails["offer"] = [refused(problems.TOO_SOON, 30.0)]
    with a_device(tmp_path, coordinator, clock=clock) as device:
        report = device.run_round()
        assert (report.blocked_by, report.retry_after) == ("too-soon", 30.0)
        asked = len(coordinator.calls)
        clock.now += 29.0
        report = device.run_round()
        assert (report.blocked_by, report.retry_after) == ("told-to-wait", 1.0)
        assert device.status().blocked_by == "told-to-wait"
        assert len(coordinator.calls) == asked
        clock.now += 1.0
        assert device.run_round().joined


@pytest.mark.parametrize("verb", ["enrol", "release", "catalogue", "offer"])
def test_no_network_failure_raises_and_the_next_try_works(
    tmp_path: Path, coordinator: MadeCoordinator, verb: str
) -> None:
    coordinator.fails[verb] = [CoordinatorUnreachable("gone"), refused(problems.UNAVAILABLE)]
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().blocked_by == "unreachable"
        assert device.run_round().blocked_by == "unavailable"
        assert device.run_round().joined
        assert device.status().rounds == 1


def test_a_history_that_c_knows_nothing_of_costs_no_place(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    with a_device(tmp_path, coordinator, items=("unheard of",)) as device:
        assert device.run_round().blocked_by == "nothing-to-share"
    assert "offer" not in coordinator.calls


def test_consent_taken_back_during_a_round_keeps_its_update_here(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    with a_device(tmp_path, coordinator) as device:
        coordinator.on_offer = lambda: device.consent(train=False, policy="changed my mind")
        report = device.run_round()
        assert (report.joined, report.blocked_by) == (False, "no-consent")
        assert "send_update" not in coordinator.calls
        assert (device.status().pending, device.status().rounds) == (0, 0)


def test_a_backend_that_gives_no_token_is_a_report_and_no_error(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    def broken() -> str:
        raise OSError("the app's backend is down")

    with FedRap.open(tmp_path, transport=coordinator, token=broken) as device:
        device.consent(train=True, policy="test")
        device.record("item-1")
        assert device.run_round().blocked_by == "token-failed"
        assert coordinator.calls == []


async def test_a_second_round_at_the_same_time_is_not_run(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    with a_device(tmp_path, coordinator) as device:
        reports = await asyncio.gather(*(device.run_round_async() for _ in range(3)))
    assert sorted(report.blocked_by or "" for report in reports) == ["", *["already-running"] * 2]
    assert coordinator.calls.count("send_update") == 1


class Noting:
    """A device's state that notes which of its verbs a round uses."""

    def __init__(self, state: DeviceState) -> None:
        self.state, self.verbs = state, list[str]()

    def __getattr__(self, verb: str) -> object:
        self.verbs.append(verb)
        return getattr(self.state, verb)


async def test_a_round_looks_at_the_device_once_and_commits_once(
    tmp_path: Path, coordinator: MadeCoordinator
) -> None:
    with a_device(tmp_path, coordinator) as device:
        noting = Noting(device._state)
        session = RoundSession(
            cast(RoundState, noting), Access(transport=coordinator, token="t", trainer="numpy")
        )
        assert (await session.run_round()).joined
        often = {"next_nonce", "consented"}  # for each request
        asked = [verb for verb in noting.verbs if verb not in often]
        assert asked == [
            "snapshot", "enrolling_key", "keep_credentials",
            "adopt", "snapshot",  # a release came
            "commit_round", "forget_outgoing",
        ]  # fmt: skip
        coordinator.step, noting.verbs = 3, []
        assert (await session.run_round()).joined
        asked = [verb for verb in noting.verbs if verb not in often]
        assert asked == ["snapshot", "commit_round", "forget_outgoing"]
