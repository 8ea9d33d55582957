"""What every store promises of batches: one transaction for many requests, decided in order."""

from __future__ import annotations

import asyncio

import pytest

from fedrap_coordinator.domain.decisions import (
    DUPLICATE,
    STORED,
    SlotRequest,
    SlotRule,
    Submission,
    SubmissionResult,
)
from fedrap_coordinator.domain.rounds import Phase, Round, RoundCounts
from fedrap_coordinator.store.protocol import Store
from fedrap_core.plan import Privacy
from fedrap_core.wire import problems
from fedrap_core.wire.problems import Problem
from tests.contracts.one_by_one import round_phase
from tests.contracts.test_stores import a_release, device_id, enrolled, opened, round_id

NEW, HAD = "new", "had"
RULE = SlotRule(1, 3, Privacy(separation=2, cap=2))


def sent(number: int, nonce: int | None, text: bytes = b"x") -> Submission:
    return Submission(device_id(number), nonce, b"d" + text, b"body " + text)


def refused(problem: Problem) -> SubmissionResult:
    return SubmissionResult(problem)


async def given(store: Store, place: bytes, *asks: SlotRequest) -> list[str | Problem]:
    results, _ = await store.assign_slots(place, asks, RULE, 5.0)
    return [one.problem or (NEW if one.is_new else HAD) for one in results]


@pytest.mark.spec("7.6")
async def test_a_batch_gives_places_in_order_until_there_are_none(store: Store) -> None:
    await enrolled(store, 1, 2, 3, 4)
    place = await opened(store, 1, 1)
    asks = [SlotRequest(device_id(number), 1) for number in (4, 2, 2, 1, 3, 9)]
    asks[2] = SlotRequest(device_id(2), 2)
    expected = [NEW, NEW, HAD, NEW, problems.NO_ROUND, problems.NOT_ENROLLED]
    assert await given(store, place, *asks) == expected
    current = await store.current_round()
    assert current is not None
    assert (current[0].assigned, current[0].accepted) == (3, 0)
    charged = [await store.device(device_id(number)) for number in (1, 2, 3, 4)]
    assert [one.participations if one else None for one in charged] == [1, 1, 0, 1]
    assert [one.last_nonce if one else None for one in charged] == [1, 2, 1, 1]


@pytest.mark.spec("2.3")
async def test_a_nonce_counts_once_however_it_comes(store: Store) -> None:
    await enrolled(store, 1)
    place = await opened(store, 1, 1)
    assert await given(
        store, place, SlotRequest(device_id(1), 5), SlotRequest(device_id(1), 5)
    ) == [
        NEW,
        problems.REPLAYED,
    ]
    assert not await store.use_nonce(device_id(1), 5)
    assert await store.use_nonce(device_id(1), 6)
    added, _ = await store.add_updates(place, [sent(1, 6), sent(1, 7)], 9, 5.0)
    assert added == [refused(problems.REPLAYED), STORED]
    assert await given(store, b"no round", SlotRequest(device_id(1), 8)) == [problems.NO_ROUND]
    assert await given(store, place, SlotRequest(device_id(1), 8)) == [problems.REPLAYED]


@pytest.mark.spec("7.8", "7.9")
async def test_a_batch_of_updates_stores_each_once_and_no_more_than_the_most(store: Store) -> None:
    await enrolled(store, 1, 2, 3, 4)
    place = await opened(store, 1, 1)
    await given(store, place, *(SlotRequest(device_id(number)) for number in (1, 2, 3)))
    batch = [sent(1, 1), sent(1, 2), sent(1, 3, b"y"), sent(4, 1), sent(2, 1), sent(3, 1)]
    added, counts = await store.add_updates(place, batch, 2, 5.0)
    assert added == [
        STORED,
        DUPLICATE,
        refused(problems.CONFLICTING_UPDATE),
        refused(problems.NOT_ASSIGNED),
        STORED,
        refused(problems.ROUND_CLOSED),
    ]
    assert counts == RoundCounts(Phase.COLLECTING, 3, 2)
    assert [list(some) async for some in store.sealed_updates(place)] == [[b"body x", b"body x"]]
    assert (await store.add_updates(b"never", [sent(1, 9)], 2, 5.0)) == (
        [refused(problems.NOT_FOUND)],
        RoundCounts(None),
    )


@pytest.mark.spec("7.9")
@pytest.mark.parametrize("phase", [Phase.SUMMING, Phase.ABANDONED, Phase.SHUTDOWN])
async def test_a_round_that_does_not_collect_takes_nothing_new(store: Store, phase: Phase) -> None:
    await enrolled(store, 1, 2)
    place = await opened(store, 1, 1)
    await given(store, place, SlotRequest(device_id(1)), SlotRequest(device_id(2)))
    await store.add_updates(place, [sent(1, 1)], 9, 5.0)
    await store.set_phase(place, phase)
    added, counts = await store.add_updates(place, [sent(1, 2), sent(2, 1)], 9, 5.0)
    sleeps = phase is Phase.SHUTDOWN
    late = problems.UNAVAILABLE if sleeps else problems.ROUND_CLOSED
    assert added == [DUPLICATE, refused(late)]
    assert counts == RoundCounts(phase, 2, 1)
    assert await given(store, place, SlotRequest(device_id(2), 3)) == [problems.NO_ROUND]


async def test_who_was_revoked_or_has_expired_gets_nothing(store: Store) -> None:
    await enrolled(store, 1, 2)
    place = await opened(store, 1, 1)
    await store.revoke_device(device_id(1), 3.0)
    await store.renew_device(device_id(2), 4.0, "none")
    assert await given(
        store, place, SlotRequest(device_id(1), 1), SlotRequest(device_id(2), 1)
    ) == [
        problems.REVOKED,
        problems.CERTIFICATE_EXPIRED,
    ]
    added, _ = await store.add_updates(place, [sent(1, 2), sent(2, 2)], 9, 5.0)
    assert added == [refused(problems.REVOKED), refused(problems.CERTIFICATE_EXPIRED)]


async def test_a_phase_changes_only_from_what_it_was_thought_to_be(store: Store) -> None:
    place = await opened(store, 1, 1)
    assert not await store.set_phase(place, Phase.SUMMING, was=Phase.SHUTDOWN)
    assert await store.set_phase(place, Phase.SUMMING, was=Phase.COLLECTING)
    assert not await store.set_phase(place, Phase.SUMMING, was=Phase.COLLECTING)
    assert await round_phase(store, place) is Phase.SUMMING


@pytest.mark.spec("7.11")
async def test_a_step_is_opened_once_at_a_time_and_never_after_its_release(store: Store) -> None:
    first = Round(round_id(1), 1, 1, 10.0)
    opened_ = await asyncio.gather(
        *(store.open_round(Round(round_id(n), 1, 1, 10.0), b"plan") for n in range(2, 8))
    )
    assert sorted(opened_) == [False] * 5 + [True]
    assert not await store.open_round(first, b"plan")
    current = await store.current_round()
    assert current is not None
    await store.set_phase(current[0].id, Phase.ABANDONED)
    assert await store.open_round(first, b"plan")
    await store.add_release(a_release(2, 1), first.id)
    assert not await store.open_round(Round(round_id(9), 1, 1, 11.0), b"plan")
    assert (await store.progress()) == (None, 2)
    assert await store.open_round(Round(round_id(9), 2, 2, 11.0), b"plan")


async def test_keys_come_in_the_order_they_were_asked_for(store: Store) -> None:
    await enrolled(store, 1, 2)
    asked = [device_id(2), device_id(9), device_id(1)]
    assert await store.device_keys(asked) == [b"key 2", None, b"key 1"]


@pytest.mark.spec("7.5")
async def test_batches_that_meet_never_give_more_places_than_there_are(store: Store) -> None:
    await enrolled(store, *range(30))
    place = await opened(store, 1, 1)
    answers = await asyncio.gather(
        *(
            given(
                store, place, *(SlotRequest(device_id(number), 1) for number in range(start, 30, 6))
            )
            for start in range(6)
        )
    )
    assert sum(some.count(NEW) for some in answers) == 3
    current = await store.current_round()
    assert current is not None
    assert current[0].assigned == 3


async def test_one_may_step_at_a_time(store: Store) -> None:
    async with store.alone() as mine:
        assert mine
    async with store.alone() as mine:
        assert mine
