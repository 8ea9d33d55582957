"""Becoming and staying a device: whose certificates are taken, and what an app proves."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fedrap import CoordinatorUnreachable, FedRap, Proof
from fedrap.rounds.enrolment import certified
from fedrap.testing import FakeCoordinator
from fedrap.transport import NO_PROOF
from fedrap.transport.credentials import Credentials
from fedrap_core.wire.certificates import sign_certificate
from fedrap_core.wire.keys import new_private_key, private_to_bytes, public_point
from fedrap_core.wire.messages import Certificate, Enrolled

KEY, AUTHORITY, OTHER = new_private_key(), new_private_key(), new_private_key()
OWN = Credentials(b"d" * 16, b"t" * 16, private_to_bytes(KEY))
GOOD = Certificate(
    task=OWN.task,
    device=OWN.device,
    public_key=public_point(KEY.public_key()),
    level="none",
    issued_at=1000.0,
    expires_at=4000.0,
)
POINT = public_point(AUTHORITY.public_key())


@pytest.mark.spec("3.6")
def test_an_own_certificate_is_kept_and_renewed_after_two_thirds_of_its_time() -> None:
    signed = sign_certificate(AUTHORITY, GOOD)
    kept = certified(OWN, signed, POINT, 50.0)  # whatever this device's clock says
    assert (kept.certificate, kept.authority, kept.renew_at) == (signed, POINT, 2050.0)
    assert (kept.device, kept.private_key) == (OWN.device, OWN.private_key)


@pytest.mark.spec("3.6")
@pytest.mark.parametrize(
    "signed",
    [
        sign_certificate(OTHER, GOOD),
        sign_certificate(AUTHORITY, msgspec.structs.replace(GOOD, device=b"x" * 16)),
        sign_certificate(AUTHORITY, msgspec.structs.replace(GOOD, task=b"x" * 16)),
        sign_certificate(
            AUTHORITY,
            msgspec.structs.replace(GOOD, public_key=public_point(OTHER.public_key())),
        ),
        sign_certificate(AUTHORITY, GOOD)[:-1],
        sign_certificate(AUTHORITY, GOOD)[64:],
        b"",
    ],
)
def test_a_certificate_of_another_authority_or_device_is_not_taken(signed: bytes) -> None:
    with pytest.raises(CoordinatorUnreachable):
        certified(OWN, signed, POINT, 50.0)


def test_a_device_renews_by_itself_and_its_ledger_goes_on(tmp_path: Path) -> None:
    fake = FakeCoordinator(["tea", "mug", "book"])
    with FedRap.open(tmp_path, transport=fake, token="any") as device:
        device.consent(train=True, policy="test")
        device.record("tea")
        assert device.run_round().joined
        for _ in range(2):
            fake.publish()
        fake.expire_certificates()
        assert device.run_round().joined
        assert [call.verb for call in fake.calls].count("renew") == 1
        assert [call.verb for call in fake.calls].count("enrol") == 1
        assert device.status().rounds == 2


def test_a_device_renews_in_time_by_its_own_clock(tmp_path: Path) -> None:
    fake, now = FakeCoordinator(["tea", "mug", "book"]), [1_000.0]
    with FedRap.open(tmp_path, transport=fake, token="any", clock=lambda: now[0]) as device:
        device.consent(train=True, policy="test")
        device.record("tea")
        assert device.run_round().joined
        for days, renewals in ((19, 0), (2, 1), (1, 1)):
            now[0] += days * 86400.0
            device.run_round()
            assert [call.verb for call in fake.calls].count("renew") == renewals


def test_a_revoked_device_stops_and_says_so(tmp_path: Path) -> None:
    fake, errors = FakeCoordinator(["tea", "mug", "book"]), list[Exception]()
    with FedRap.open(tmp_path, transport=fake, token="any", on_error=errors.append) as device:
        device.consent(train=True, policy="test")
        device.record("tea")
        assert device.run_round().joined
        fake.revoke(fake.updates[0].device)
        fake.publish()
        assert device.run_round().blocked_by == "revoked"


@pytest.mark.spec("3.7")
def test_the_apps_proof_is_made_for_the_challenge_at_enrolment_and_at_renewal(
    tmp_path: Path,
) -> None:
    fake = FakeCoordinator(["tea", "mug", "book"])

    def attest(challenge: bytes) -> Proof:
        return Proof("made-up", b"proof of " + challenge)

    with FedRap.open(tmp_path, transport=fake, token="any", attest=attest) as device:
        assert fake.proofs == []
        device.consent(train=True, policy="test")
        device.record("tea")
        assert device.run_round().joined
        known = dict(fake._identity.valid_until)
        fake.publish()
        fake.publish()
        fake.refuse("certificate-expired", verb="offer")
        assert device.run_round().joined
        assert len(known) == 1
    assert [proof.kind for proof, _ in fake.proofs] == ["made-up", "made-up"]
    assert all(proof.blob == b"proof of " + challenge for proof, challenge in fake.proofs)
    assert fake.proofs[0][1] != fake.proofs[1][1]


def test_credentials_of_an_older_store_are_read_and_nothing_is_renewed() -> None:
    old = msgspec.msgpack.encode({"device": b"d" * 16, "task": b"t" * 16, "private_key": b"k"})
    read = msgspec.msgpack.decode(old, type=Credentials)
    assert (read.certificate, read.authority) == (b"", b"")
    assert read.renew_at > 1e300


@pytest.mark.spec("3.11")
def test_an_enrolment_whose_answer_is_lost_goes_on_with_the_same_key(tmp_path: Path) -> None:
    fake = FakeCoordinator(["tea", "mug", "book"], tokens=["once"])
    enrol, lost = fake.enrol, [True]

    async def loses_the_first_answer(
        token: str, public_key: bytes, proof: Proof = NO_PROOF
    ) -> Enrolled:
        answer = await enrol(token, public_key, proof)
        if lost:
            lost.clear()
            raise CoordinatorUnreachable("the line broke")
        return answer

    fake.enrol = loses_the_first_answer  # type: ignore[method-assign]
    for joined in (False, True):  # opened anew in between: the key is in the store
        with FedRap.open(tmp_path, transport=fake, token="once") as device:
            device.consent(train=True, policy="1")
            device.record("tea")
            assert device.run_round().joined is joined
            assert device.status().enrolled is joined
