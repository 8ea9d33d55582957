"""Who may take part, over a real socket: signed tokens, certificates, revocation, attestation."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest

from fedrap import FedRap, Floor, Proof
from fedrap.backend import TokenIssuer, make_issuer_key
from fedrap_coordinator.domain.records import Issuer
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.identity.attestation import Verdict
from fedrap_coordinator.settings import Enrolment, Settings
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire.certificates import enrol_challenge, read_certificate, renew_challenge
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.keys import public_from_point, public_point
from fedrap_core.wire.messages import Enrol, Enrolled, Renew, Renewed
from testkit.harness import ITEMS, Answer, LiveServer, Player, serve, small_settings

DAY = 86400.0
FREE = Floor.without_privacy(separation=1, min_updates=1)
PRIVATE, PUBLIC = make_issuer_key()


def settings(updates: int = 1, **enrolment: Any) -> Settings:
    base = small_settings(updates=updates, separation=1)
    return msgspec.structs.replace(base, enrolment=Enrolment(**{"wait_steps": 0, **enrolment}))


def issuer(clock: Any = None, audience: str = "fedrap") -> TokenIssuer:
    options = {} if clock is None else {"clock": clock}
    return TokenIssuer("shop", PRIVATE, audience=audience, **options)


async def register(served: LiveServer) -> None:
    point = public_point(issuer()._key.public_key())
    await served.app[COORDINATOR].store.add_issuer(Issuer("shop", point, 0.0))


async def enrol(served: LiveServer, token: str, **attested: Any) -> tuple[Player, Answer]:
    player = Player(served)
    message = Enrol(token=token, public_key=public_point(player.key.public_key()), **attested)
    answer = await player.send("POST", "/v1/enrol", encode(message), {})
    if answer.status == 200:
        enrolled = decode(Enrolled, answer.body)
        player.id, player.authority = enrolled.device, enrolled.authority
    return player, answer


@pytest.mark.spec("3.1", "3.3", "3.4")
async def test_a_backend_signs_tokens_without_asking_the_coordinator() -> None:
    async with serve(settings(account_devices=2), MemoryStore()) as served:
        _, answer = await enrol(served, issuer().token())
        assert answer.problem == "token-refused"
        assert "not registered" in answer.document["detail"]
        await register(served)
        token = issuer().token(account="ann")
        player, answer = await enrol(served, token)
        assert answer.status == 200
        await player.join()
        assert (await enrol(served, token))[1].problem == "token-refused"
        assert (await enrol(served, issuer().token(account="ann")))[1].status == 200
        assert (await enrol(served, issuer().token(account="ann")))[1].problem == "too-many-devices"
        assert (await enrol(served, issuer().token(account="bob")))[1].status == 200
        assert (await enrol(served, issuer(audience="other").token()))[1].problem == "token-refused"
        late = issuer(clock=lambda: 1000.0).token()
        assert "expired" in (await enrol(served, late))[1].document["detail"]
        forged = jwt.encode({"iss": "shop", "aud": "fedrap"}, "", algorithm="none")
        assert (await enrol(served, forged))[1].problem == "token-refused"


@pytest.mark.spec("3.5", "3.8")
async def test_a_certificate_ends_and_is_renewed_with_the_same_key_and_charges() -> None:
    now = [1_700_000_000.0]
    async with serve(settings(), MemoryStore(), clock=lambda: now[0]) as served:
        player, answer = await enrol(served, await served.token())
        enrolled = decode(Enrolled, answer.body)
        authority = public_from_point(enrolled.authority)
        first = read_certificate(authority, enrolled.certificate)
        assert first.public_key == public_point(player.key.public_key())
        assert (first.device, first.expires_at) == (player.id, now[0] + 30 * DAY)
        await player.join()
        now[0] = first.expires_at
        late = await player.ask()
        assert (late.status, late.problem) == (401, "certificate-expired")
        assert late.document["family"] == "retry"
        answer = await player.send("POST", "/v1/renew", encode(Renew()))
        second = read_certificate(authority, decode(Renewed, answer.body).certificate)
        assert second.expires_at == now[0] + 30 * DAY
        assert (await player.ask()).status == 200
        known = await served.app[COORDINATOR].store.device(player.id)
        assert known is not None
        assert known.participations == 2


@pytest.mark.spec("3.6", "3.8")
async def test_the_sdk_renews_by_itself_in_time_and_when_told(tmp_path: Path) -> None:
    now = [1_700_000_000.0]
    async with serve(settings(), MemoryStore(), clock=lambda: now[0]) as served:
        on_time = await served.device(tmp_path / "1", ITEMS[:4], clock=lambda: now[0], floor=FREE)
        behind = await served.device(tmp_path / "2", ITEMS[:4], clock=lambda: 5.0, floor=FREE)
        for device in (on_time, behind):
            assert (await device.run_round_async()).joined
        start = {one.id: one.valid_until for one in await _devices(served)}
        now[0] += 21 * DAY  # two thirds of the time are over
        assert (await on_time.run_round_async()).joined
        renewed = [one for one in await _devices(served) if one.valid_until > start[one.id]]
        assert len(renewed) == 1
        now[0] += 10 * DAY  # the certificate of the device whose clock stands still has ended
        assert (await behind.run_round_async()).joined
        assert on_time.status().rounds == behind.status().rounds == 2


async def _devices(served: LiveServer) -> Any:
    return await served.app[COORDINATOR].store.devices(b"", 99)


@pytest.mark.spec("3.9")
async def test_a_revoked_device_may_leave_and_nothing_else(tmp_path: Path) -> None:
    async with serve(settings(), MemoryStore()) as served:
        device = await served.device(tmp_path / "1", ITEMS[:4], floor=FREE)
        assert (await device.run_round_async()).joined
        (known,) = await _devices(served)
        assert await served.app[COORDINATOR].store.revoke_device(known.id, 1.0)
        assert (await device.run_round_async()).blocked_by == "revoked"
        player = await served.player()
        await served.app[COORDINATOR].store.revoke_device(player.id, 1.0)
        for path, body in (("/v1/offers", b""), ("/v1/renew", encode(Renew()))):
            assert (await player.send("POST", path, body)).problem == "revoked"
        assert (await device.erase_async()).coordinator_confirmed
        keys = [one.public_key for one in await _devices(served)]
        assert keys.count(b"") == 1  # its id stays, so that the key never enrols again


def judge(kind: str, blob: bytes, challenge: bytes) -> Verdict:
    """Takes what was made for the challenge."""
    if kind == "broken":
        raise RuntimeError("the service is away")
    good = blob == hashlib.sha256(b"platform" + challenge).digest()
    return Verdict(good, "strong", "" if good else "made for another key")


def prove(challenge: bytes) -> Proof:
    return Proof("made-up", hashlib.sha256(b"platform" + challenge).digest())


@pytest.mark.spec("3.7")
async def test_where_attestation_is_asked_for_only_proven_devices_enrol(tmp_path: Path) -> None:
    now = [1_700_000_000.0]
    strict = settings(attestation=f"{__name__}:judge", allow_unattested=False)
    async with serve(strict, MemoryStore(), clock=lambda: now[0]) as served:
        assert (await enrol(served, await served.token()))[1].problem == "attestation-refused"
        token = await served.token()
        wrong = {"attestation_kind": "made-up", "attestation": b"of another key"}
        refused = (await enrol(served, token, **wrong))[1]
        assert refused.problem == "attestation-refused"
        assert refused.document["detail"] == "made for another key"
        away = (await enrol(served, token, attestation_kind="broken"))[1]
        assert (away.status, away.problem) == (503, "unavailable")
        player = Player(served)
        point = public_point(player.key.public_key())
        blob = prove(enrol_challenge(point, token)).blob
        message = Enrol(
            token=token, public_key=point, attestation_kind="made-up", attestation=blob
        )  # the token was not used up by those that were refused
        enrolled = await player.send("POST", "/v1/enrol", encode(message), {})
        assert enrolled.status == 200
        device = await served.device(
            tmp_path / "1", ITEMS[:4], attest=prove, clock=lambda: now[0], floor=FREE
        )
        assert (await device.run_round_async()).joined
        now[0] += 40 * DAY
        assert (await device.run_round_async()).joined  # proven again at renewal
        player.id = decode(Enrolled, enrolled.body).device
        player._nonce = 5
        assert (await player.send("POST", "/v1/offers", b"")).status != 200  # nonce 6 is used
        stale = renew_challenge(point, 6)
        old = Renew(nonce=6, attestation_kind="made-up", attestation=prove(stale).blob)
        assert (await player.send("POST", "/v1/renew", encode(old))).problem == "replayed"
        wrong_one = Renew(nonce=9, attestation_kind="made-up", attestation=prove(stale).blob)
        answer = await player.send("POST", "/v1/renew", encode(wrong_one))
        assert answer.problem == "attestation-refused"
        fresh = renew_challenge(point, 50)
        good = Renew(nonce=50, attestation_kind="made-up", attestation=prove(fresh).blob)
        for _ in range(2):  # an answer that was lost can be asked for again
            assert (await player.send("POST", "/v1/renew", encode(good))).status == 200
        assert {one.level for one in await _devices(served)} == {"strong"}


@pytest.mark.spec("3.10", "7.12")
async def test_a_device_that_leaves_and_comes_back_waits(tmp_path: Path) -> None:
    async with serve(settings(updates=1, wait_steps=2), MemoryStore()) as served:
        first = await served.device(tmp_path / "1", ITEMS[:4], floor=FREE)
        other = await served.device(tmp_path / "2", ITEMS[:4], floor=FREE)
        assert (await other.run_round_async()).joined  # enrolled before the first release
        enrolled_late = await first.run_round_async()
        assert (enrolled_late.joined, enrolled_late.blocked_by) == (False, "too-new")
        assert enrolled_late.retry_after is not None
        assert first.status().rounds == 0
        for _ in range(2):
            assert (await other.run_round_async()).joined  # steps 2 and 3
        await asyncio.sleep(enrolled_late.retry_after)
        assert (await first.run_round_async()).joined  # step 4
        assert (await first.erase_async()).coordinator_confirmed
        again = await served.device(tmp_path / "3", ITEMS[:4], floor=FREE)
        assert (await again.run_round_async()).blocked_by == "too-new"


async def test_opening_a_device_calls_no_attestation_before_consent(tmp_path: Path) -> None:
    called: list[bytes] = []

    def attest(challenge: bytes) -> Proof:
        called.append(challenge)
        raise RuntimeError("no such service on this platform")

    async with serve(settings(), MemoryStore()) as served:
        with FedRap.open(
            tmp_path, server=served.url, token=await served.token(), attest=attest, floor=FREE
        ) as device:
            device.record(ITEMS[0])
            assert (await device.run_round_async()).blocked_by == "no-consent"
            assert called == []
            device.consent(train=True, policy="test")
            assert (await device.run_round_async()).blocked_by == "unreachable"
            assert len(called) == 1
