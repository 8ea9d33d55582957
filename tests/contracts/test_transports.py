"""One suite for every way to a coordinator: the fake one of `fedrap.testing`, and HTTP.

What should happen: each verb answers as spec/PROTOCOL.md says, and refuses with its problem.
What should not happen: any other error than CoordinatorUnreachable and UpdateRefused.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import numpy as np
import pytest

from fedrap import CoordinatorUnreachable, FedRap, Floor, UpdateRefused
from fedrap.transport.credentials import Credentials, Signer
from fedrap_core.items import ItemIds
from fedrap_core.wire import problems
from fedrap_core.wire.attributes import check_attributes, check_page, page_digests
from fedrap_core.wire.authority import open_signed
from fedrap_core.wire.certificates import read_certificate
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.keys import (
    new_private_key,
    private_to_bytes,
    public_from_point,
    public_point,
)
from fedrap_core.wire.messages import Accepted, AttributePage, Delta, Release
from fedrap_core.wire.releases import apply_delta, unpack_release
from fedrap_core.wire.seal import seal_update
from testkit.harness import DIM, ITEMS, one_cell
from tests.contracts.transports_made import CAP, World, fake_world, http_world


@pytest.fixture(params=["fake", "http"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A coordinator with twelve items."""
    if request.param == "fake":
        yield fake_world()
    else:
        async with http_world() as made:
            yield made


async def problem_of(call: Awaitable[object]) -> str:
    """The code that a call is refused with."""
    with pytest.raises(UpdateRefused) as refused:
        await call
    return refused.value.problem.code


async def test_a_token_enrols_one_device_into_the_task(world: World) -> None:
    token, point = await world.token(), public_point(new_private_key().public_key())
    first = await world.transport.enrol(token, point)
    assert first.task == (await world.latest()).task
    other = public_point(new_private_key().public_key())
    assert await problem_of(world.transport.enrol(token, other)) == "token-refused"
    assert await problem_of(world.transport.enrol("never-given", other)) == "token-refused"
    second = await world.transport.enrol(await world.token(), other)
    assert second.device != first.device


@pytest.mark.spec("3.11")
async def test_a_key_that_is_enrolled_is_answered_again_and_uses_up_no_token(world: World) -> None:
    token, spare = await world.token(), await world.token()
    point, other = (public_point(new_private_key().public_key()) for _ in range(2))
    first = await world.transport.enrol(token, point)
    for used in (token, spare):
        again = await world.transport.enrol(used, point)
        assert (again.device, again.task) == (first.device, first.task)
        certificate = read_certificate(public_from_point(again.authority), again.certificate)
        assert (certificate.device, certificate.public_key) == (first.device, point)
    assert (await world.transport.enrol(spare, other)).device != first.device


async def test_a_key_that_is_no_point_of_the_curve_is_malformed(world: World) -> None:
    call = world.transport.enrol(await world.token(), b"\x04" + bytes(64))
    assert await problem_of(call) == "malformed"


async def test_the_latest_release_is_whole_and_not_sent_to_who_has_it(world: World) -> None:
    release = await world.latest()
    common = unpack_release(release)  # checks the hash
    assert (common.size, common.dim, release.version) == (len(ITEMS), DIM, 1)
    assert await world.transport.release(release.version) is None


async def test_who_has_an_older_release_gets_what_leads_to_the_latest(world: World) -> None:
    held = unpack_release(await world.latest())
    await world.release_next()
    news, whole = await world.transport.release(1), unpack_release(await world.latest())
    assert isinstance(news, Delta)
    found = apply_delta(held, news)
    assert (found.version, whole.version) == (2, 2)
    np.testing.assert_array_equal(found.items.values, whole.items.values)


async def test_who_has_a_release_that_never_was_gets_the_whole(world: World) -> None:
    await world.release_next()
    assert isinstance(await world.transport.release(0), Release)


async def test_the_catalogue_is_told_from_any_row_on(world: World) -> None:
    whole, end = await world.transport.catalogue(0), await world.transport.catalogue(10)
    ids = ItemIds(whole.items)
    assert [ids.name(row) for row in range(len(ids))] == ITEMS
    assert (whole.start, whole.count, whole.retired) == (0, 12, b"")
    assert (end.start, end.count, end.items) == (10, 2, b"item-10\nitem-11\n")
    past = await world.transport.catalogue(500)
    assert (past.count, past.items) == (0, b"")


@pytest.mark.spec("11.1", "11.2")
async def test_public_attributes_are_signed_and_each_page_is_at_its_digest(world: World) -> None:
    authority = (await world.enrolled()).enrolled.authority
    await world.tell({"item-1": {"title": "One"}, "item-3": {"title": "Three"}})
    message = await world.transport.attributes()
    entry = check_attributes(authority, message)
    assert (entry.names, entry.count) == (["title"], len(ITEMS))
    (digest,) = page_digests(message.pages)
    raw = await world.transport.attribute_page(digest)
    check_page(entry, 0, digest, raw)
    assert decode(AttributePage, raw).columns[0].split(b"\n")[:4] == [b"", b"One", b"", b"Three"]
    await world.tell({"item-3": {"title": "Drei"}})
    later = check_attributes(authority, await world.transport.attributes())
    assert (later.release, later.version) > (entry.release, entry.version)
    with pytest.raises(UpdateRefused) as refused:
        await world.transport.attribute_page(bytes(32))
    assert refused.value.problem is problems.NOT_FOUND


async def test_asking_twice_gives_the_same_place(world: World) -> None:
    member = await world.enrolled()
    offer = await world.place(member)
    assert (offer.step, offer.release) == ((await world.latest()).step + 1, 1)
    again = await world.place(member)
    assert (again.round, again.plan, again.seal_key) == (offer.round, offer.plan, offer.seal_key)


async def test_a_stranger_gets_no_place(world: World) -> None:
    member = await world.enrolled()
    key = private_to_bytes(new_private_key())
    unknown = Signer(Credentials(bytes(16), member.credentials.task, key), lambda: 1)
    assert await problem_of(world.transport.offer(unknown, 1)) == "not-enrolled"
    forger = Signer(Credentials(member.id, member.credentials.task, key), lambda: 1)
    assert await problem_of(world.transport.offer(forger, 1)) == "bad-signature"


async def test_a_nonce_that_was_used_is_tried_once_more_and_then_refused(world: World) -> None:
    member = await world.enrolled()
    await world.place(member)  # uses 1
    nonces = iter([1, 2, 1, 2])
    signer = Signer(member.credentials, lambda: next(nonces))
    await world.transport.offer(signer, 1)
    assert await problem_of(world.transport.offer(signer, 1)) == "replayed"


async def test_who_holds_another_release_is_told_before_being_charged(world: World) -> None:
    member = await world.enrolled()
    assert await problem_of(world.transport.offer(member.signer, 7)) == "stale-model"


async def test_the_same_bytes_are_accepted_again_and_others_are_not(world: World) -> None:
    member = await world.enrolled()
    offer = await world.place(member)
    body = member.body(offer)
    for _ in range(2):
        signed = await world.transport.send_update(member.signer, offer.round, body)
        receipt = open_signed(member.enrolled.authority, signed, Accepted)
        assert receipt.digest == hashlib.sha256(body).digest()
        assert receipt.round == offer.round
    other = member.body(offer)  # sealed anew
    call = world.transport.send_update(member.signer, offer.round, other)
    assert await problem_of(call) == "conflicting-update"


async def test_the_same_bytes_are_accepted_after_the_round_too(world: World) -> None:
    member = await world.enrolled()
    offer = await world.place(member)
    body = member.body(offer)
    await world.transport.send_update(member.signer, offer.round, body)
    await world.release_next()
    await world.transport.send_update(member.signer, offer.round, body)


async def test_an_update_without_a_place_or_a_round_is_refused(world: World) -> None:
    member, guest = await world.enrolled(), await world.enrolled()
    offer = await world.place(member)
    send = world.transport.send_update
    assert await problem_of(send(guest.signer, offer.round, guest.body(offer))) == "not-assigned"
    assert await problem_of(send(guest.signer, offer.round, member.body(offer))) == "bad-signature"
    assert await problem_of(send(member.signer, b"r" * 16, member.body(offer))) == "not-found"


async def test_an_update_for_a_round_that_is_over_is_refused(world: World) -> None:
    member = await world.enrolled()
    offer = await world.place(member)
    await world.release_next()
    with pytest.raises(UpdateRefused) as refused:
        await world.transport.send_update(member.signer, offer.round, member.body(offer))
    assert refused.value.problem.code == "round-closed"
    assert refused.value.final


async def test_bytes_that_cannot_be_counted_are_refused_with_the_reason(world: World) -> None:
    member = await world.enrolled()
    offer = await world.place(member)

    async def told(body: bytes) -> str:
        return await problem_of(world.transport.send_update(member.signer, offer.round, body))

    assert await told(b"not msgpack") == "malformed"
    assert await told(member.body(offer)[:-9]) == "malformed"
    assert await told(encode(seal_update(offer, member.id, b"short"))) == "malformed"
    assert await told(member.body(offer).replace(b"update", b"whatis")) == "unsupported-version"
    assert await told(member.body(offer, one_cell(500))) == "wrong-shape"
    assert await told(member.body(offer, one_cell(0, value=1e12))) == "not-finite"
    await world.transport.send_update(member.signer, offer.round, member.body(offer))


async def test_two_steps_in_a_row_are_too_soon(world: World) -> None:
    member = await world.enrolled()
    offer = await world.place(member)
    await world.transport.send_update(member.signer, offer.round, member.body(offer))
    await world.release_next()
    with pytest.raises(UpdateRefused) as refused:
        await world.place(member)
    assert refused.value.problem.code == "too-soon"
    assert refused.value.retry_after is not None
    assert not refused.value.final


async def test_who_was_charged_as_often_as_allowed_gets_no_more_places(world: World) -> None:
    member = await world.enrolled()
    for _ in range(CAP):  # charged with the place, whether it sends or not
        await world.place(member)
        await world.release_next()
    assert await problem_of(world.place(member)) == "budget-spent"


async def test_a_device_that_was_forgotten_is_a_stranger(world: World) -> None:
    member = await world.enrolled()
    await world.transport.forget(member.signer)
    assert await problem_of(world.place(member)) in ("revoked", "not-enrolled")
    assert await problem_of(world.transport.forget(member.signer)) == "not-enrolled"


async def test_every_verb_of_a_coordinator_that_is_away_says_so(world: World) -> None:
    member = await world.enrolled()
    offer = await world.place(member)
    world.leave()
    calls: list[Awaitable[object]] = [
        world.transport.enrol("token", bytes(65)),
        world.transport.release(None),
        world.transport.catalogue(0),
        world.transport.offer(member.signer, 1),
        world.transport.send_update(member.signer, offer.round, b"body"),
        world.transport.forget(member.signer),
    ]
    for call in calls:
        with pytest.raises(CoordinatorUnreachable):
            await call


async def test_closing_twice_does_nothing(world: World) -> None:
    await world.transport.close()
    await world.transport.close()


async def test_a_device_of_the_sdk_joins_a_round_and_recommends(
    world: World, tmp_path: Path
) -> None:
    token = await world.token()
    with FedRap.open(
        tmp_path, transport=world.transport, token=token, floor=Floor.without_privacy(min_updates=2)
    ) as device:
        device.consent(train=True, policy="test")
        device.record(ITEMS[3])
        report = await device.run_round_async()
        assert (report.joined, report.blocked_by) == (True, None)
        await world.release_next()
        await device.sync_async()
        assert len(device.recommend(3)) == 3
        assert (await device.run_round_async()).blocked_by == "too-soon"


@pytest.mark.spec("3.5", "3.8")
async def test_a_certificate_that_ended_is_renewed_by_the_same_authority(world: World) -> None:
    member = await world.enrolled()
    authority = public_from_point(member.enrolled.authority)
    first = read_certificate(authority, member.enrolled.certificate)
    assert (first.device, first.task) == (member.id, member.enrolled.task)
    await world.place(member)
    world.expire()
    assert await problem_of(world.place(member)) == "certificate-expired"
    answer = await world.transport.renew(member.signer)
    second = read_certificate(authority, answer.certificate)
    assert (second.device, second.public_key) == (first.device, first.public_key)
    assert second.expires_at > first.issued_at
    await world.place(member)


@pytest.mark.spec("3.9")
async def test_a_revoked_device_may_only_leave(world: World) -> None:
    member = await world.enrolled()
    offer = await world.place(member)
    await world.revoke(member.id)
    for call in (
        world.place(member),
        world.transport.renew(member.signer),
        world.transport.send_update(member.signer, offer.round, member.body(offer)),
    ):
        assert await problem_of(call) == "revoked"
    await world.transport.forget(member.signer)
    assert await problem_of(world.place(member)) in ("revoked", "not-enrolled")  # its id stays
