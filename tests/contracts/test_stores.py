"""What every store promises: one suite over memory, SQLite and PostgreSQL (conftest.py)."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest

from fedrap_coordinator.domain.charges import with_charge
from fedrap_coordinator.domain.decisions import DUPLICATE, STORED, SubmissionResult
from fedrap_coordinator.domain.records import (
    AuditEntry,
    Counts,
    DeviceRecord,
    EnrolmentOutcome,
    StoredRelease,
    Ticket,
)
from fedrap_coordinator.domain.rounds import Phase, Round
from fedrap_coordinator.errors import AlreadyReleased, DeviceExists, TokenExists
from fedrap_coordinator.store.protocol import Store
from fedrap_core.plan import Scoring
from fedrap_core.wire import problems
from fedrap_core.wire.authority import entry_digest, sign_release
from fedrap_core.wire.keys import private_from_bytes
from fedrap_core.wire.releases import pack_release
from tests.contracts.one_by_one import add_update, assign, is_assigned, round_phase
from tests.core.made import items_of

TASK = b"t" * 16
OVER = [Phase.RELEASED, Phase.ABANDONED]


def device_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def round_id(number: int) -> bytes:
    return b"round" + number.to_bytes(11, "big")


def charged_record(times: int, step: int) -> DeviceRecord:
    """Device 1 after so many rounds without noise."""
    charges = ""
    for _ in range(times):
        charges = with_charge(charges, 0.0, math.inf)
    return DeviceRecord(
        device_id(1), b"key 1", times, step, spent=math.inf, last_cost=math.inf, charges=charges,
        dearest=math.inf,
    )  # fmt: skip


def a_release(version: int, step: int) -> StoredRelease:
    return StoredRelease(version, step, 3, b"body %d" % version, None)


async def enrolled(store: Store, *numbers: int) -> None:
    tokens = [b"token %d" % number for number in numbers]
    await store.add_tokens(tokens, 1.0)
    for token, number in zip(tokens, numbers, strict=True):
        assert await store.enrol(token, device_id(number), b"key %d" % number, 2.0)


async def opened(store: Store, number: int, step: int) -> bytes:
    await store.open_round(Round(round_id(number), step, 1, 10.0), b"plan %d" % number)
    return round_id(number)


async def bodies_of(store: Store, round_: bytes) -> list[list[bytes]]:
    return [list(chunk) async for chunk in store.sealed_updates(round_)]


async def finish(store: Store, round_: bytes, phase: Phase, step: int) -> None:
    if phase is Phase.RELEASED:
        await store.add_release(a_release(step + 1, step), round_)
    else:
        await store.set_phase(round_, phase)


async def test_rounds_come_by_step_whatever_the_clock_said(store: Store) -> None:
    """Forty days ahead, two hours back, and right again."""
    clocks = [10.0, 40 * 86400.0, 5.0, 20.0]
    for step, at in enumerate(clocks, 1):
        number = round_id(step)
        await store.open_round(Round(number, step, 1, at), b"plan")
        await store.set_phase(number, Phase.ABANDONED, was=Phase.COLLECTING, now=at)
    again = round_id(9)  # step 4 once more, by a clock that lags
    await store.open_round(Round(again, 4, 1, 1.0), b"plan")
    await store.add_refusals(round_id(2), {"too-soon": 1})
    await store.add_refusals(again, {"too-soon": 2})
    rows = await store.rounds(10)
    assert [row.step for row in rows] == [4, 4, 3, 2, 1]
    assert rows[0].id == again
    assert set(await store.refusals(3)) == {again}


async def test_a_probe_leaves_nothing_behind(store: Store) -> None:
    before = await store.counts()
    await store.probe()
    await store.probe()
    await store.give_back()
    assert store.serves
    assert await store.counts() == before


async def test_the_first_task_id_is_kept(store: Store) -> None:
    assert await store.task_id(TASK) == TASK
    assert await store.task_id(b"u" * 16) == TASK


@pytest.mark.spec("3.1")
async def test_a_token_enrols_one_device(store: Store) -> None:
    await store.add_tokens([b"one", b"two"], 1.0)
    assert await store.enrol(b"one", device_id(1), b"key", 2.0)
    assert not await store.enrol(b"one", device_id(2), b"key", 2.0)
    assert not await store.enrol(b"never made", device_id(2), b"key", 2.0)
    assert await store.device(device_id(1)) == DeviceRecord(device_id(1), b"key", 0, None)
    assert await store.device(device_id(2)) is None
    assert await store.counts() == Counts(devices=1, tokens=1, items=0, releases=0)


@pytest.mark.spec("3.11")
async def test_an_id_is_enrolled_once_and_the_second_try_uses_up_nothing(store: Store) -> None:
    await enrolled(store, 1)
    known = await store.device(device_id(1))
    await store.add_tokens([b"two"], 1.0)
    ticket = Ticket(b"ticket", 90.0, b"account", 1)
    with pytest.raises(DeviceExists, match="is enrolled"):
        await store.enrol(b"two", device_id(1), b"key", 9.0)
    with pytest.raises(DeviceExists, match="is enrolled"):
        await store.enrol_signed(ticket, device_id(1), b"key", 9.0)
    assert await store.device(device_id(1)) == known
    assert await store.enrol(b"two", device_id(2), b"key", 9.0)
    assert await store.enrol_signed(ticket, device_id(3), b"key", 9.0) is EnrolmentOutcome.DONE


@pytest.mark.spec("3.1")
async def test_a_used_token_cannot_be_added_again(store: Store) -> None:
    await enrolled(store, 1)
    for tokens in ([b"new", b"token 1"], [b"twin", b"twin"]):
        with pytest.raises(TokenExists, match="added before"):
            await store.add_tokens(tokens, 3.0)
    assert not await store.enrol(b"token 1", device_id(2), b"key", 4.0)
    assert not await store.enrol(b"new", device_id(2), b"key", 4.0)
    await store.add_tokens([], 5.0)


@pytest.mark.spec("2.3")
async def test_only_a_larger_nonce_is_taken(store: Store) -> None:
    await enrolled(store, 1, 2)
    taken = [await store.use_nonce(device_id(1), nonce) for nonce in (5, 5, 4, 6, 2**63 - 1, 7)]
    assert taken == [True, False, False, True, True, False]
    assert await store.use_nonce(device_id(2), 1)
    assert not await store.use_nonce(device_id(9), 1)


@pytest.mark.spec("7.5")
@pytest.mark.parametrize("separation", [1, 2, 5])
async def test_a_device_joins_again_after_b_steps_and_not_one_earlier(
    store: Store, separation: int
) -> None:
    await enrolled(store, 1)
    first, early, due = 3, 3 + separation - 1, 3 + separation
    assert await assign(store, await opened(store, 1, first), device_id(1), first, separation, 9)
    if early > first:
        place = await opened(store, 2, early)
        assert await assign(store, place, device_id(1), early, separation, 9) is False
        assert not await is_assigned(store, place, device_id(1))
    assert await assign(store, await opened(store, 3, due), device_id(1), due, separation, 9)
    assert await store.device(device_id(1)) == charged_record(2, due)


@pytest.mark.spec("7.5")
async def test_a_device_joins_k_times_and_not_once_more(store: Store) -> None:
    await enrolled(store, 1)
    given = []
    for step in range(1, 6):
        place = await opened(store, step, step)
        given.append(await assign(store, place, device_id(1), step, 1, 3))
    assert given == [True, True, True, False, False]
    assert await store.device(device_id(1)) == charged_record(3, 3)


@pytest.mark.spec("7.6")
async def test_asking_again_for_the_same_round_costs_nothing(store: Store) -> None:
    await enrolled(store, 1)
    place = await opened(store, 1, 1)
    assert await assign(store, place, device_id(1), 1, 2, 1) is True
    assert await assign(store, place, device_id(1), 1, 2, 1) is None
    assert await is_assigned(store, place, device_id(1))
    found = await store.device(device_id(1))
    assert found is not None
    assert found.participations == 1


@pytest.mark.spec("7.6")
async def test_a_step_tried_again_after_an_abandoned_round_is_charged_once(store: Store) -> None:
    await enrolled(store, 1, 2)
    await assign(store, await opened(store, 1, 4), device_id(1), 4, 2, 1)
    await store.set_phase(round_id(1), Phase.ABANDONED)
    again = await opened(store, 2, 4)
    assert await assign(store, again, device_id(1), 4, 2, 1) is True
    assert await assign(store, again, device_id(2), 4, 2, 1) is True
    assert await store.device(device_id(1)) == charged_record(1, 4)


async def test_a_device_that_is_not_enrolled_gets_no_place(store: Store) -> None:
    place = await opened(store, 1, 1)
    assert await assign(store, place, device_id(1), 1, 1, 1) is False
    assert not await is_assigned(store, place, device_id(1))
    assert not await is_assigned(store, round_id(7), device_id(1))


@pytest.mark.spec("7.5")
async def test_two_hundred_concurrent_requests_never_exceed_the_cap(store: Store) -> None:
    await enrolled(store, *range(10))
    places = [await opened(store, number, number) for number in range(20)]
    asked = [(place, number) for place in places for number in range(10)]
    given = await asyncio.gather(
        *(
            assign(store, place, device_id(number), int.from_bytes(place[5:]), 1, 4)
            for place, number in asked
        )
    )
    for number in range(10):
        mine = [answer for answer, (_, who) in zip(given, asked, strict=True) if who == number]
        assert mine.count(True) == 4
        found = await store.device(device_id(number))
        assert found is not None
        assert found.participations == 4


@pytest.mark.spec("7.6")
async def test_concurrent_requests_for_one_place_are_charged_once(store: Store) -> None:
    await enrolled(store, 1)
    place = await opened(store, 1, 1)
    given = await asyncio.gather(*(assign(store, place, device_id(1), 1, 2, 5) for _ in range(200)))
    assert (given.count(True), given.count(None)) == (1, 199)
    found = await store.device(device_id(1))
    assert found is not None
    assert found.participations == 1


@pytest.mark.spec("7.8")
async def test_an_update_is_stored_once_and_others_of_its_device_conflict(store: Store) -> None:
    place = await opened(store, 1, 1)
    added = [
        await add_update(store, place, device_id(1), digest, body, 1.0)
        for digest, body in ((b"d1", b"b1"), (b"d1", b"b1"), (b"d2", b"b2"))
    ]
    assert added == [STORED, DUPLICATE, SubmissionResult(problems.CONFLICTING_UPDATE)]
    assert await bodies_of(store, place) == [[b"b1"]]


@pytest.mark.spec("4.5", "7.8")
@pytest.mark.parametrize("end", OVER)
async def test_a_round_that_is_over_keeps_digests_and_destroys_bodies(
    store: Store, end: Phase
) -> None:
    place, other = await opened(store, 1, 1), await opened(store, 2, 2)
    await add_update(store, place, device_id(1), b"d1", b"sealed", 1.0)
    await add_update(store, other, device_id(1), b"d2", b"of another round", 1.0)
    await finish(store, place, end, 1)
    assert await round_phase(store, place) is end
    assert await bodies_of(store, place) == []
    assert await bodies_of(store, other) == [[b"of another round"]]
    assert await add_update(store, place, device_id(1), b"d1", b"sealed", 1.0) == DUPLICATE
    assert await bodies_of(store, place) == []


@pytest.mark.parametrize("count", [0, 1, 64, 65, 150])
async def test_sealed_updates_come_in_order_of_device_and_in_chunks(
    store: Store, count: int
) -> None:
    place = await opened(store, 1, 1)
    for number in reversed(range(count)):
        await add_update(store, place, device_id(number), b"d", b"body %d" % number, 1.0)
    chunks = await bodies_of(store, place)
    assert [body for chunk in chunks for body in chunk] == [b"body %d" % n for n in range(count)]
    assert [len(chunk) for chunk in chunks] == [min(64, count - at) for at in range(0, count, 64)]


async def test_the_current_round_comes_with_its_counts_and_its_plan(store: Store) -> None:
    assert await store.current_round() is None
    await enrolled(store, 1, 2, 3)
    place = await opened(store, 1, 5)
    for number in (1, 2, 3):
        await assign(store, place, device_id(number), 5, 1, 5)
    await add_update(store, place, device_id(2), b"d", b"b", 1.0)
    expected = Round(place, 5, 1, 10.0, Phase.COLLECTING, assigned=3, accepted=1)
    assert await store.current_round() == (expected, b"plan 1")
    for phase in (Phase.SHUTDOWN, Phase.COLLECTING, Phase.SUMMING):
        await store.set_phase(place, phase)
        found = await store.current_round()
        assert found is not None
        assert found[0].phase is phase
    await finish(store, place, Phase.RELEASED, 5)
    assert await store.current_round() is None
    assert await round_phase(store, round_id(2)) is None


async def test_the_latest_release_is_the_one_of_the_highest_version(store: Store) -> None:
    assert await store.release(None) is None
    first = StoredRelease(1, 0, 0, b"one", None)
    second = StoredRelease(2, 1, 7, b"two", b"\0gram", support=b"\0support", updates=b"u" * 32)
    await store.add_release(first, None)
    await store.add_release(second, None)
    assert await store.release(None) == second
    assert [await store.release(version) for version in (1, 2, 3)] == [first, second, None]


@pytest.mark.spec("10.7")
async def test_the_state_of_a_learner_comes_and_goes_with_its_release(store: Store) -> None:
    large = bytes(range(256)) * 40_000  # of more than one piece
    for version in range(1, 5):
        state = large if version == 3 else b"state %d" % version
        made = replace(a_release(version, version), learner=None if version == 2 else state)
        await store.add_release(made, None)
    last = await store.release(4)
    assert last is not None
    assert last.learner is None  # it is large, and read by those who make a step
    found = [await store.learner(version) for version in range(1, 6)]
    assert found == [b"state 1", None, large, b"state 4", None]
    with pytest.raises(AlreadyReleased):
        await store.add_release(replace(a_release(4, 9), learner=b"of another"), None)
    assert await store.learner(4) == b"state 4"
    assert await store.prune_releases(3, 2) == 1
    assert [await store.learner(version) for version in (1, 3, 4)] == [None, large, b"state 4"]
    back = replace(a_release(5, 4), restores=3, learner=b"again")
    await store.roll_back(back)
    assert await store.learner(5) == b"again"
    await store.prune_releases(1, 3)  # no state without its release
    assert [await store.learner(version) for version in (3, 4, 5)] == [None, None, b"again"]


@pytest.mark.spec("7.11")
@pytest.mark.parametrize(("version", "step"), [(3, 1), (2, 9)])
async def test_a_second_release_of_a_step_fails_and_leaves_the_round_as_it_was(
    store: Store, version: int, step: int
) -> None:
    first, place = await opened(store, 1, 1), await opened(store, 2, 9)
    await finish(store, first, Phase.RELEASED, 1)
    await add_update(store, place, device_id(1), b"d", b"still sealed", 1.0)
    with pytest.raises(AlreadyReleased, match="released before"):
        await store.add_release(a_release(version, step), place)
    assert await round_phase(store, place) is Phase.COLLECTING
    assert await bodies_of(store, place) == [[b"still sealed"]]
    assert await store.release(None) == a_release(2, 1)
    assert (await store.counts()).releases == 1


@pytest.mark.spec("7.3")
async def test_an_item_keeps_its_row_and_a_row_its_item(store: Store) -> None:
    assert await store.add_items(["a", "b", "a"]) == 2
    assert await store.retire_items(["a", "unknown", "a"]) == 1
    assert await store.add_items(["c", "b"]) == 1
    view = await store.catalogue(0)
    assert (list(view.items), list(view.retired)) == (["a", "b", "c"], [0])
    assert await store.add_items(["a", "d"]) == 1  # back in its old row
    view = await store.catalogue(2)
    assert (list(view.items), list(view.retired)) == (["c", "d"], [])
    assert list((await store.catalogue(9)).items) == []
    assert (await store.counts()).items == (await store.extent()).items == 4


async def test_the_catalogue_version_grows_with_each_change_and_only_then(store: Store) -> None:
    seen = [(await store.catalogue(0)).version]
    for add, items in (
        (True, ["a", "b"]), (True, ["a"]), (False, ["b"]), (False, ["b"]), (True, ["b"]),
        (False, []), (True, []),
    ):  # fmt: skip
        await (store.add_items(items) if add else store.retire_items(items))
        seen.append((await store.catalogue(0)).version)
        assert (await store.extent()).catalogue == seen[-1]
    assert seen == [0, 1, 1, 2, 2, 3, 3, 3]


LOGGER = private_from_bytes(b"l" * 32)


def _logged(version: int, step: int, before: bytes) -> StoredRelease:
    """A release with an entry of the log."""
    release = pack_release(TASK, step, items_of(np.eye(2), version), 1, Scoring())
    entry = sign_release(LOGGER, release, before).entry
    return StoredRelease(version, step, 1, b"body %d" % version, None, entry=entry)


@pytest.mark.spec("9.6")
async def test_the_log_is_one_chain_and_outlives_the_bodies(store: Store) -> None:
    assert await store.log(0, 200) == ([], b"")
    first = _logged(1, 0, bytes(32))
    second = _logged(2, 1, entry_digest(first.entry))
    third = _logged(3, 1, entry_digest(second.entry))
    await store.add_release(first, None)
    await store.add_release(second, None)
    forks = [_logged(9, 5, entry_digest(first.entry)), _logged(9, 5, bytes(32))]
    for fork in forks:  # another version and step: only the link is taken
        with pytest.raises(AlreadyReleased):
            await store.add_release(fork, None)
        with pytest.raises(AlreadyReleased):
            await store.roll_back(replace(fork, restores=1))
        with pytest.raises(AlreadyReleased):
            await store.sign_release(replace(first, entry=fork.entry))
    lost = _logged(4, 2, entry_digest(third.entry))
    last = replace(_logged(6, 2, entry_digest(lost.entry)), restores=3)
    with pytest.raises(AlreadyReleased):
        await store.roll_back(last, None, [third.entry, second.entry])
    await store.roll_back(last, None, [third.entry, lost.entry])
    chain = [one.entry for one in (first, second, third, lost, last)]
    assert await store.log(0, 200) == (chain, last.entry)
    assert await store.log(2, 2) == (chain[2:4], last.entry)
    assert await store.log(6, 200) == ([], last.entry)
    assert await store.prune_releases(1) == 2
    assert await store.log(0, 200) == (chain, last.entry)
    kept = await store.release(6)
    assert kept is not None
    assert kept.entry == last.entry


async def test_the_log_begins_with_a_release_of_before_there_was_one(store: Store) -> None:
    await store.add_release(StoredRelease(4, 3, 2, b"unsigned", None), None)
    signed = replace(_logged(4, 3, bytes(32)), body=b"signed")
    await store.sign_release(signed)
    with pytest.raises(AlreadyReleased):
        await store.sign_release(replace(signed, body=b"again"))
    found = await store.release(None)
    assert found is not None
    assert (found.body, found.entry, found.devices) == (b"signed", signed.entry, 2)


async def test_a_round_keeps_when_its_phases_ended_and_how_much_came(store: Store) -> None:
    await store.open_round(Round(round_id(1), 1, 1, 10.0), b"plan")
    for number, body in ((1, b"12345"), (2, b"123")):
        await add_update(store, round_id(1), device_id(number), bytes(32), body, 11.0)
    await add_update(store, round_id(1), device_id(2), bytes(32), b"123", 12.0)  # once more
    await store.set_phase(round_id(1), Phase.SUMMING, was=Phase.COLLECTING, now=20.0)
    await store.set_phase(round_id(1), Phase.ABANDONED, was=Phase.SUMMING, now=25.0)
    (row,) = await store.rounds(5)
    assert (row.opened_at, row.summed_at, row.closed_at) == (10.0, 20.0, 25.0)
    assert (row.accepted, row.body_bytes) == (2, 8)


async def test_the_policy_in_force_is_kept_once_and_changed_only_from_what_it_was(
    store: Store,
) -> None:
    assert await store.policy() is None
    assert await store.policy(b"first") == b"first"
    assert await store.policy(b"second") == b"first"
    audit = AuditEntry(1.0, "ann", "change-policy")
    assert not await store.change_policy(b"third", was=b"second", audit=audit)
    assert await store.change_policy(b"third", was=b"first", audit=audit)
    assert await store.policy() == b"third"
    outcomes = [row.entry.outcome for row in await store.audit_rows(0, 9)]
    assert outcomes[-2:] == ["refused", "done"]
