"""Who relays, forges or forks: devices take offers, receipts and releases from the authority alone.

In version 0.1 whoever stood between a device and its coordinator named a sealing key of their own
in an offer, opened the share (40 of 40 items) and forged the receipt; and a coordinator could show
one device another C under the same version.
"""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec
import pytest

from fedrap import FedRap
from fedrap.errors import AnotherAuthority
from fedrap.testing import FakeCoordinator
from fedrap.transport.credentials import Signer
from fedrap_core.errors import ForkedLog, SignatureInvalid
from fedrap_core.wire.authority import entry_digest, sign_message, sign_release
from fedrap_core.wire.codec import decode, encode, encode_value
from fedrap_core.wire.keys import new_private_key, public_point
from fedrap_core.wire.messages import Accepted, Enrolled, Log, Offer, Signed
from fedrap_core.wire.seal import seal_id
from tests.sdk.made import PLAN, MadeCoordinator, a_device, a_release


class SwappingRelay(MadeCoordinator):
    """Names its own sealing key in every offer, and signs with whatever key it has."""

    resigns = False

    async def offer(self, signer: Signer, release: int, wait: float = 0.0) -> Signed:
        honest = await super().offer(signer, release, wait)
        mine = new_private_key()
        swapped = msgspec.structs.replace(
            decode(Offer, honest.body),
            seal_key=public_point(mine.public_key()),
            seal_id=seal_id(mine.public_key()),
        )
        if self.resigns:
            return sign_message(mine, swapped)
        return msgspec.structs.replace(honest, body=encode(swapped))


@pytest.mark.spec("9.1")
@pytest.mark.parametrize("resigns", [False, True])
def test_a_relay_that_swaps_the_sealing_key_gets_no_update(tmp_path: Path, resigns: bool) -> None:
    relay = SwappingRelay()
    relay.resigns = resigns
    with a_device(tmp_path, relay) as device:
        report = device.run_round()
        assert (report.joined, report.blocked_by) == (False, "not-signed")
        assert relay.sent == []
        assert device.status().blocked_by == "not-signed"
        assert (device.status().rounds, device.status().pending) == (0, 0)


class ForgingRelay(MadeCoordinator):
    """Swallows updates, and says that they were stored."""

    async def send_update(self, signer: Signer, round_id: bytes, body: bytes) -> Signed:
        honest = await super().send_update(signer, round_id, body)
        receipt = decode(Accepted, honest.body)
        return sign_message(new_private_key(), receipt)


@pytest.mark.spec("9.1")
def test_a_forged_receipt_leaves_the_update_waiting(tmp_path: Path) -> None:
    relay = ForgingRelay()
    with a_device(tmp_path, relay) as device:
        report = device.run_round()
        assert (report.joined, report.blocked_by) == (False, "not-signed")
        assert device.status().pending == 1
        assert device.run_round().blocked_by == "not-signed"  # the same bytes, once more
        assert len({body for _, body in relay.sent}) == 1


@pytest.mark.spec("9.1")
def test_a_signed_receipt_of_another_round_is_no_receipt(tmp_path: Path) -> None:
    class Mixing(MadeCoordinator):
        async def send_update(self, signer: Signer, round_id: bytes, body: bytes) -> Signed:
            honest = await super().send_update(signer, round_id, body)
            other = msgspec.structs.replace(decode(Accepted, honest.body), round=b"o" * 16)
            return sign_message(self.authority, other)

    with a_device(tmp_path, Mixing()) as device:
        assert device.run_round().blocked_by == "unreachable"
        assert device.status().pending == 1


class OldOffers(MadeCoordinator):
    """Plays a signed offer again after its round was released."""

    first: Signed | None = None

    async def offer(self, signer: Signer, release: int, wait: float = 0.0) -> Signed:
        fresh = await super().offer(signer, release, wait)
        self.first = self.first or fresh
        return self.first


@pytest.mark.spec("9.4")
def test_a_signed_offer_of_an_earlier_step_is_not_followed(tmp_path: Path) -> None:
    coordinator = OldOffers()
    with a_device(tmp_path, coordinator) as device:
        assert coordinator.first is None
        coordinator.plan = encode_value(msgspec.structs.replace(PLAN, min_updates=2))
        assert device.run_round().blocked_by == "floor-cohort"  # it did not follow that one
        coordinator.latest = a_release(version=2, seed=1)
        report = device.run_round()
        assert (report.joined, report.blocked_by) == (False, "old-offer")
        assert coordinator.sent == []


def fork_of(coordinator: MadeCoordinator, version: int, seed: int) -> None:
    """The same version with another C, signed by the same authority."""
    coordinator.latest = a_release(version=version, seed=seed)


@pytest.mark.spec("9.3")
def test_another_c_under_the_same_version_is_refused_and_said(tmp_path: Path) -> None:
    class Forking(MadeCoordinator):
        async def release(self, have: int | None):  # type: ignore[no-untyped-def]
            return self.signed_latest()

    coordinator = Forking()
    with a_device(tmp_path, coordinator) as device:
        device.sync()
        fork_of(coordinator, 1, seed=7)
        with pytest.raises(ForkedLog, match="two releases 1"):
            device.sync()
        assert device.status().blocked_by == "forked-release"
        assert device.run_round().blocked_by == "forked-release"
        assert coordinator.sent == []


@pytest.mark.spec("9.3")
def test_a_history_that_goes_on_from_a_fork_is_refused(tmp_path: Path) -> None:
    """Shown version 1 of one history and version 2 of the other."""
    coordinator = MadeCoordinator()
    with a_device(tmp_path, coordinator) as device:
        device.sync()
        fork = sign_release(coordinator.authority, a_release(version=1, seed=7), bytes(32))
        after = a_release(version=2, seed=8)
        signed = sign_release(coordinator.authority, after, entry_digest(fork.entry))

        class Forked(MadeCoordinator):
            async def release(self, have: int | None):  # type: ignore[no-untyped-def]
                return signed

            async def log(self, since: int) -> Log:
                return Log(entries=[fork.entry, signed.entry])

        coordinator.__class__ = Forked
        with pytest.raises(ForkedLog, match="does not lead"):
            device.sync()
        assert device.status().release == 1


@pytest.mark.spec("9.3")
def test_the_log_leads_a_device_that_was_away_to_the_latest_release(tmp_path: Path) -> None:
    fake = FakeCoordinator(["tea", "mug"])
    with FedRap.open(tmp_path, transport=fake, token="any") as device:
        device.consent(train=True, policy="test")
        device.sync()
        for _ in range(5):
            fake.publish()
        device.sync()
        assert device.status().release == 6
        assert [call.verb for call in fake.calls].count("log") == 1


@pytest.mark.spec("9.3")
def test_a_step_or_a_version_never_goes_back(tmp_path: Path) -> None:
    coordinator = MadeCoordinator(latest=a_release(version=3))
    with a_device(tmp_path, coordinator) as device:
        device.sync()
        coordinator.latest = a_release(version=2)
        with pytest.raises(ForkedLog, match="lies behind"):
            device.sync()
        coordinator.latest = msgspec.structs.replace(a_release(version=4), step=1)
        with pytest.raises(ForkedLog, match="lies behind"):
            device.sync()
        assert device.status().release == 3


@pytest.mark.spec("9.2")
@pytest.mark.parametrize(
    "change", [{"step": 9}, {"catalogue": 0}, {"withheld": b"\1\0"}, {"clip": 2.0}]
)
def test_what_a_device_uses_of_a_release_is_what_was_signed(
    tmp_path: Path, change: dict[str, object]
) -> None:
    class Changing(MadeCoordinator):
        async def release(self, have: int | None):  # type: ignore[no-untyped-def]
            return msgspec.structs.replace(self.signed_latest(), **change)

    with a_device(tmp_path, Changing()) as device:
        with pytest.raises(SignatureInvalid, match="something else"):
            device.sync()
        assert device.status().release is None


@pytest.mark.spec("9.5")
def test_an_app_that_pins_an_authority_joins_no_other(tmp_path: Path) -> None:
    fake = FakeCoordinator(["tea", "mug"])
    other = public_point(new_private_key().public_key())
    with FedRap.open(tmp_path, transport=fake, token="any", authority=other.hex()) as device:
        device.consent(train=True, policy="test")
        device.record("tea")
        assert device.run_round().blocked_by == "another-authority"
        assert not device.status().enrolled
        assert fake.updates == []
    pinned = base64.b64encode(fake.authority).decode()
    with FedRap.open(tmp_path, transport=fake, token="any", authority=pinned) as device:
        assert device.run_round().joined
    asked = len(fake.calls)
    with FedRap.open(tmp_path, transport=fake, authority=other) as device:
        assert device.run_round().blocked_by == "another-authority"
        with pytest.raises(AnotherAuthority):
            device.sync()
    assert len(fake.calls) == asked  # before anything is sent


@pytest.mark.spec("9.5")
def test_what_was_fetched_before_enrolment_gives_way_to_what_the_authority_signed(
    tmp_path: Path,
) -> None:
    impostor, coordinator = MadeCoordinator(latest=a_release(version=9)), MadeCoordinator()
    impostor.authority = new_private_key()
    with a_device(tmp_path, impostor) as device:
        device.sync()
        assert device.status().release == 9
    with a_device(tmp_path, coordinator, items=()) as device:
        assert device.run_round().joined
        assert device.status().release == 1


@pytest.mark.spec("9.5")
def test_a_coordinator_without_an_authority_enrols_nobody(tmp_path: Path) -> None:
    class Nameless(MadeCoordinator):
        async def enrol(self, token, public_key, proof=None):  # type: ignore[no-untyped-def]
            named = await super().enrol(token, public_key)
            return Enrolled(device=named.device, task=named.task)

    with a_device(tmp_path, Nameless()) as device:
        assert device.run_round().blocked_by == "not-signed"
        assert not device.status().enrolled


@pytest.mark.parametrize("bad", [b"", b"\4" * 65, "zz", "04", "not a key"])
def test_a_pinned_key_that_is_none_is_the_apps_mistake(tmp_path: Path, bad: bytes | str) -> None:
    with pytest.raises(ValueError, match="authority"):
        FedRap.open(tmp_path, authority=bad)
