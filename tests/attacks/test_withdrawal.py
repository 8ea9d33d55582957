"""Consent is withdrawn: does anything still leave the device?

Version 0.1 kept what it had prepared in its outbox and sent it with the next consent, and a round
that was running went on asking until it came to its commit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fedrap import CoordinatorUnreachable, FedRap
from fedrap.transport import NO_PROOF, Proof
from fedrap_core.wire import problems
from tests.sdk.made import MadeCoordinator, a_device, a_release, refused

VERBS = ["enrol", "release", "catalogue", "offer", "send_update"]


class Watched(MadeCoordinator):
    """Calls `during[verb]` once while it answers that verb."""

    def _called(self, verb: str) -> None:
        self.during: dict[str, Callable[[], None]] = getattr(self, "during", {})
        self.during.pop(verb, lambda: None)()
        super()._called(verb)


def test_an_outbox_is_not_sent_after_consent_was_withdrawn(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    coordinator.fails["send_update"] = [CoordinatorUnreachable("gone")]
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().blocked_by == "unreachable"
        assert device.status().pending == 1
        device.consent(train=False, policy="no")
        assert (device.status().pending, device.status().rounds) == (0, 1)
        device.consent(train=True, policy="yes, but not for what was made before")
        assert device.status().pending == 0
        assert device.run_round().blocked_by == "already-in-round"
    with FedRap.open(tmp_path, transport=coordinator) as again:
        assert again.status().pending == 0
    assert coordinator.calls.count("send_update") == 1


def test_the_outbox_goes_in_the_transaction_that_withdraws(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    coordinator.fails["send_update"] = [CoordinatorUnreachable("gone")]
    with a_device(tmp_path, coordinator) as device:
        device.run_round()
        store = device._state._store
        store._db.execute(
            "CREATE TEMP TRIGGER t BEFORE DELETE ON outbox BEGIN SELECT raise(ABORT, 'no'); END"
        )
        with pytest.raises(Exception, match="no"):
            device.consent(train=False, policy="no")
        assert (device.status().pending, device.status().consented) == (1, True)
        store._db.execute("DROP TRIGGER t")
        device.consent(train=False, policy="no")
        assert (device.status().pending, device.status().consented) == (0, False)


def test_what_version_0_1_left_in_the_outbox_goes_on_opening(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    coordinator.fails["send_update"] = [CoordinatorUnreachable("gone")]
    with a_device(tmp_path, coordinator) as device:
        device.run_round()
        state = device._state
        (left,) = state.snapshot().outbox
        device.consent(train=False, policy="no")
        state._store.commit_round(*left, {})
    with FedRap.open(tmp_path, transport=coordinator) as again:
        assert again.status().pending == 0
        again.consent(train=True, policy="yes")
        again.run_round()
    assert coordinator.calls.count("send_update") == 1


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("thread", ["same", "another"])
def test_a_running_round_stops_before_its_next_request(
    tmp_path: Path, verb: str, thread: str
) -> None:
    coordinator = Watched()
    with a_device(tmp_path, coordinator) as device:

        def withdraw() -> None:
            device.consent(train=False, policy="no")

        def elsewhere() -> None:
            other = threading.Thread(target=withdraw)
            other.start()
            other.join()

        coordinator.during = {verb: withdraw if thread == "same" else elsewhere}
        report = device.run_round()
        assert coordinator.calls == VERBS[: VERBS.index(verb) + 1]
        if verb == "send_update":
            assert report.joined
        else:
            assert (report.joined, report.blocked_by) == (False, "no-consent")
        assert device.status().pending == 0


def test_a_withdrawal_during_a_sync_stops_it(tmp_path: Path) -> None:
    coordinator = Watched()
    with a_device(tmp_path, coordinator) as device:
        coordinator.during = {"release": lambda: device.consent(train=False, policy="no")}
        device.sync()
        assert coordinator.calls == ["release"]


def test_asking_again_for_a_stale_release_is_a_request_too(tmp_path: Path) -> None:
    coordinator = Watched()
    with a_device(tmp_path, coordinator) as device:
        coordinator.fails["offer"] = [refused(problems.STALE_MODEL, 0)]
        coordinator.during = {"offer": lambda: device.consent(train=False, policy="no")}
        coordinator.on_offer = lambda: setattr(coordinator, "latest", a_release(version=2))
        assert device.run_round().blocked_by == "no-consent"
        assert coordinator.calls == VERBS[:4]


def test_erasing_asks_to_be_forgotten_also_after_a_withdrawal(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    device = a_device(tmp_path, coordinator)
    assert device.run_round().joined
    device.consent(train=False, policy="no")
    assert device.erase().coordinator_confirmed
    assert coordinator.calls[-1] == "forget"


@pytest.mark.parametrize("moment", ["before", "during", "raising"])
def test_the_apps_token_is_not_asked_for_after_a_withdrawal_nor_used(
    tmp_path: Path, moment: str
) -> None:
    """Whoever made the token knows this device is about to enrol: the user has said no to that."""
    coordinator = MadeCoordinator()
    called: list[str] = []
    told: list[Exception] = []

    def withdraw() -> None:
        device.consent(train=False, policy="no")

    def token() -> str:
        called.append("token")
        if moment != "before":
            withdraw()
        if moment == "raising":
            raise OSError("the backend is out of reach")
        return "token"

    def unmet() -> str | None:  # asked last, after the look at the consent
        if moment == "before":
            withdraw()
        return None

    device = FedRap.open(tmp_path, transport=coordinator, token=token)
    with device:
        device.consent(train=True, policy="test")
        device.record("item-1")
        report = asyncio.run(device._session.run_round(told.append, unmet=unmet))
        assert (report.joined, report.blocked_by) == (False, "no-consent")
    assert called == ([] if moment == "before" else ["token"])
    assert (coordinator.calls, told) == ([], [])


def test_nothing_is_attested_after_a_withdrawal_either(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()

    def attest(challenge: bytes) -> Proof:
        device.consent(train=False, policy="no")
        return NO_PROOF

    device = FedRap.open(tmp_path, transport=coordinator, token="token", attest=attest)
    with device:
        device.consent(train=True, policy="test")
        device.record("item-1")
        assert device.run_round().blocked_by == "no-consent"
    assert coordinator.calls == []
