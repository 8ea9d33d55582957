"""What every store promises about who may take part: waiting, tickets, revocation, the audit."""

from __future__ import annotations

import asyncio
import math

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from fedrap_coordinator.domain.records import (
    AdminRecord,
    AuditEntry,
    EnrolmentOutcome,
    Issuer,
    Terms,
    Ticket,
    broken_link,
)
from fedrap_coordinator.domain.rounds import Phase
from fedrap_coordinator.errors import TokenExists
from fedrap_coordinator.store.protocol import Store
from fedrap_coordinator.store.sql import SqlStore
from tests.contracts.one_by_one import add_update, assign, is_assigned
from tests.contracts.test_stores import a_release, device_id, enrolled, finish, opened, round_id

BASE = 100.0  # when devices enrol here


async def enrol_on(store: Store, number: int, terms: Terms, now: float = BASE) -> None:
    token = b"token %d at %r" % (number, now)
    await store.add_tokens([token], 1.0)
    assert await store.enrol(token, device_id(number), b"key", now, terms)


def a_ticket(name: bytes = b"one", account: bytes | None = None, most: int = 2) -> Ticket:
    return Ticket(name, BASE + 600, account, most)


@pytest.mark.spec("3.10")
@pytest.mark.parametrize("wait", [1, 2, 5])
async def test_a_new_key_waits_for_releases_and_not_one_longer(store: Store, wait: int) -> None:
    await store.add_release(a_release(8, 7), None)
    await enrol_on(store, 1, Terms(wait_steps=wait))  # step 8 may have its owner's old key in it
    for step, expected in {8: False, 8 + wait - 1: False, 8 + wait: True}.items():
        place = await opened(store, step, step)
        assert await assign(store, place, device_id(1), step, 1, 9, BASE) is expected
        assert await is_assigned(store, place, device_id(1)) is expected
    found = await store.device(device_id(1))
    assert found is not None
    assert (found.participations, found.first_step) == (1, 8 + wait)


@pytest.mark.spec("3.10")
async def test_before_the_first_release_there_is_nobody_to_wait_for(store: Store) -> None:
    await store.add_release(a_release(1, 0), None)
    await enrol_on(store, 1, Terms(wait_steps=2))
    assert await assign(store, await opened(store, 1, 1), device_id(1), 1, 2, 9, BASE)


@pytest.mark.spec("3.10")
async def test_a_new_key_waits_for_seconds_and_steps_are_not_waited_for_longer_than_said(
    store: Store,
) -> None:
    await store.add_release(a_release(5, 4), None)
    await enrol_on(store, 1, Terms(wait_seconds=60.0))
    await enrol_on(store, 2, Terms(wait_steps=3, wait_most_seconds=500.0))
    place = await opened(store, 1, 5)
    given = [
        await assign(store, place, device_id(number), 5, 1, 9, BASE + seconds)
        for number, seconds in ((1, 59.9), (1, 60.0), (2, 499.9), (2, 500.0))
    ]
    assert given == [False, True, False, True]


@pytest.mark.spec("3.10")
async def test_to_leave_and_enrol_again_does_not_shorten_the_rest(store: Store) -> None:
    await store.add_release(a_release(5, 4), None)
    await enrol_on(store, 1, Terms())
    place = await opened(store, 1, 5)
    assert await assign(store, place, device_id(1), 5, 2, 3, BASE)
    await add_update(store, place, device_id(1), b"d", b"sealed", BASE)
    await store.forget_device(device_id(1))
    await enrol_on(store, 2, Terms(wait_steps=2), BASE + 1)  # the same person, a new key
    assert await assign(store, place, device_id(2), 5, 2, 3, BASE + 2) is False
    await finish(store, place, Phase.RELEASED, 5)
    assert await assign(store, await opened(store, 2, 6), device_id(2), 6, 2, 3, BASE + 3) is False
    assert await assign(store, await opened(store, 3, 7), device_id(2), 7, 2, 3, BASE + 4) is True


@pytest.mark.spec("3.8", "3.9")
async def test_no_place_for_a_revoked_device_nor_after_the_certificate(store: Store) -> None:
    await enrol_on(store, 1, Terms(valid_until=200.0))
    await enrol_on(store, 2, Terms())
    place = await opened(store, 1, 1)
    assert await assign(store, place, device_id(1), 1, 1, 9, 200.0) is False
    assert await assign(store, place, device_id(1), 1, 1, 9, 199.9) is True
    assert await assign(store, place, device_id(1), 1, 1, 9, 200.0) is False  # asks again
    await store.renew_device(device_id(1), 300.0, "strong")
    assert await assign(store, place, device_id(1), 1, 1, 9, 200.0) is None
    assert await store.revoke_device(device_id(2), BASE)
    assert not await store.revoke_device(device_id(2), BASE)
    assert not await store.revoke_device(device_id(9), BASE)
    assert await assign(store, place, device_id(2), 1, 1, 9, BASE) is False
    found = await store.devices(b"", 9)
    assert [(one.level, one.revoked_at) for one in found] == [("strong", None), ("none", BASE)]
    assert [one.id for one in await store.devices(device_id(1), 9)] == [device_id(2)]


@pytest.mark.spec("3.1", "3.4")
async def test_a_ticket_is_good_once_and_an_account_for_so_many_devices(store: Store) -> None:
    async def enrol(number: int, ticket: Ticket, now: float = BASE) -> EnrolmentOutcome:
        return await store.enrol_signed(ticket, device_id(number), b"key", now, Terms())

    assert await enrol(1, a_ticket(b"1", b"ann")) is EnrolmentOutcome.DONE
    assert await enrol(2, a_ticket(b"1", b"ann")) is EnrolmentOutcome.USED
    assert await enrol(3, a_ticket(b"2", b"ann")) is EnrolmentOutcome.DONE
    assert await enrol(4, a_ticket(b"3", b"ann")) is EnrolmentOutcome.TOO_MANY
    assert await enrol(5, a_ticket(b"3", b"bob")) is EnrolmentOutcome.DONE  # it was not used up
    await store.forget_device(device_id(1))  # what was enrolled stays counted
    assert await enrol(6, a_ticket(b"4", b"ann")) is EnrolmentOutcome.TOO_MANY
    assert await enrol(7, a_ticket(b"5")) is EnrolmentOutcome.DONE
    assert (await store.counts()).devices == 3


@pytest.mark.spec("3.1", "3.4")
async def test_of_many_at_once_a_ticket_enrols_one_and_an_account_no_more_than_its_limit(
    store: Store,
) -> None:
    same = await asyncio.gather(
        *(
            store.enrol_signed(a_ticket(b"same", b"ann", 9), device_id(n), b"key", BASE)
            for n in range(20)
        )
    )
    assert (same.count(EnrolmentOutcome.DONE), same.count(EnrolmentOutcome.USED)) == (1, 19)
    many = await asyncio.gather(
        *(
            store.enrol_signed(a_ticket(b"%d" % n, b"ann", 4), device_id(100 + n), b"key", BASE)
            for n in range(20)
        )
    )
    assert (many.count(EnrolmentOutcome.DONE), many.count(EnrolmentOutcome.TOO_MANY)) == (3, 17)
    assert (await store.counts()).devices == 4


@pytest.mark.spec("7.6")
async def test_who_had_a_place_in_a_step_tried_twice_and_sent_nothing_may_come_next(
    store: Store,
) -> None:
    await enrolled(store, 1, 2)
    first = await opened(store, 1, 1)
    await assign(store, first, device_id(1), 1, 2, 9)
    await store.set_phase(first, Phase.ABANDONED)
    again = await opened(store, 2, 1)
    for number in (1, 2):
        assert await assign(store, again, device_id(number), 1, 2, 9)
    await add_update(store, again, device_id(2), b"d", b"sealed", 1.0)
    await finish(store, again, Phase.RELEASED, 1)
    following = await opened(store, 3, 2)
    assert await assign(store, following, device_id(1), 2, 2, 9) is True  # was in no release
    assert await assign(store, following, device_id(2), 2, 2, 9) is False  # rests for b
    found = await store.device(device_id(1))
    assert found is not None
    assert (found.participations, found.counted_step) == (2, None)
    rows = await store.rounds(9)
    assert {row.id: (row.assigned, row.accepted) for row in rows} == {
        first: (1, 0), again: (2, 1), following: (1, 0),
    }  # fmt: skip
    places = [[(c.device, c.came) for c in some] async for some in store.charges(again)]
    assert places == [[(device_id(1), False), (device_id(2), True)]]
    assert [some async for some in store.charges(round_id(99))] == []


async def test_names_are_taken_once_and_tokens_found_by_their_hash(store: Store) -> None:
    issuer = Issuer("shop", b"point", 1.0)
    assert [await store.add_issuer(issuer), await store.add_issuer(issuer)] == [True, False]
    assert list(await store.issuers()) == [issuer]
    ann, twin = AdminRecord("ann", "viewer", 1.0), AdminRecord("twin", "viewer", 1.0)
    assert await store.add_admin(ann, b"hash")
    assert not await store.add_admin(ann, b"other")
    assert not await store.add_admin(twin, b"hash")
    assert await store.admin_of(b"hash") == ann
    assert await store.admin_of(b"other") is None
    assert await store.remove_admin("ann")
    assert not await store.remove_admin("ann")
    assert await store.admin_of(b"hash") is None
    assert await store.remove_issuer("shop")
    assert not await store.remove_issuer("shop")


async def test_an_act_and_its_row_of_the_audit_are_kept_together(store: Store) -> None:
    entry = AuditEntry(5.0, "ann", "revoke", "a device")
    await enrolled(store, 1)
    assert await store.revoke_device(device_id(1), 5.0, entry)
    assert not await store.revoke_device(device_id(1), 6.0, entry)
    with pytest.raises(TokenExists, match="added before"):
        await store.add_tokens([b"token 1"], 7.0, entry)  # nothing happened: no row either
    await store.write_audit(AuditEntry(math.pi, "bö", "look", "", "refused"))
    rows = await store.audit_rows(0, 99)
    assert [row.entry.outcome for row in rows] == ["done", "refused", "refused"]
    assert [row.number for row in rows] == [1, 2, 3]
    assert broken_link(rows) is None
    assert broken_link([rows[0], rows[2]]) == 2
    assert list(await store.audit_rows(2, 9)) == list(rows[2:])


async def test_concurrent_rows_of_the_audit_make_one_chain(store: Store) -> None:
    await asyncio.gather(
        *(store.write_audit(AuditEntry(1.0, "ann", "act", str(n))) for n in range(40))
    )
    rows = await store.audit_rows(0, 99)
    assert len({row.entry.target for row in rows}) == 40
    assert broken_link(rows) is None


@pytest.mark.parametrize("sql", ["UPDATE audit SET who = 'nobody'", "DELETE FROM audit"])
async def test_the_audit_cannot_be_changed_with_the_rights_of_this_program(
    database: str, sql: str
) -> None:
    store = SqlStore(database)
    await store.open()
    try:
        await store.write_audit(AuditEntry(1.0, "ann", "act"))
        with pytest.raises(DBAPIError, match="append-only"):
            await store.transact(lambda db: db.execute(sa.text(sql)))
        assert broken_link(await store.audit_rows(0, 9)) is None
        assert len(await store.audit_rows(0, 9)) == 1
    finally:
        await store.close()
