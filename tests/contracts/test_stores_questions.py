"""What every store promises of questions about quality; conftest.py has the stores."""

from __future__ import annotations

from dataclasses import replace

from fedrap_coordinator.domain.questions import GivenAnswer, QuestionRow, QuestionState
from fedrap_coordinator.store.protocol import Store
from fedrap_core.wire import problems
from tests.contracts.test_stores import device_id, enrolled

OPEN, SUMMING = QuestionState.OPEN, QuestionState.SUMMING
ANSWERED = QuestionState.ANSWERED


def a_question(number: int = 1, *, most: int = 10, budget: int = 10) -> QuestionRow:
    return QuestionRow(
        bytes([number]) * 16, b"signed %d" % number, b"key %04d" % number, float(number), 100.0,
        most, budget, "ask",
    )  # fmt: skip


def an_answer(device: int, nonce: int, body: bytes = b"sealed") -> GivenAnswer:
    return GivenAnswer(device_id(device), nonce, (body * 32)[:32], body)


async def bodies(store: Store, row: QuestionRow) -> list[bytes]:
    return [body async for some in store.sealed_answers(row.id) for body in some]


async def test_an_answer_is_kept_once_and_said_again(store: Store) -> None:
    await enrolled(store, 1, 2)
    row = a_question()
    await store.add_question(row)
    assert await store.add_answer(row.id, an_answer(2, 1, b"two"), 10.0) is None
    assert await store.add_answer(row.id, an_answer(1, 1, b"one"), 10.0) is None
    assert await store.add_answer(row.id, an_answer(1, 2, b"one"), 10.0) is None  # sent again
    conflict = await store.add_answer(row.id, an_answer(1, 3, b"other"), 10.0)
    assert conflict is problems.CONFLICTING_UPDATE
    assert await bodies(store, row) == [b"one", b"two"]  # in order of device
    assert await store.question(row.id) == replace(row, answers=2)


async def test_who_may_not_answer_hears_why(store: Store) -> None:
    await enrolled(store, 1, 2)
    row, spent = a_question(), a_question(2, budget=1)
    await store.add_question(row)
    await store.add_question(spent)
    add = store.add_answer
    assert await add(row.id, an_answer(9, 1), 10.0) is problems.NOT_ENROLLED
    assert await add(b"x" * 16, an_answer(1, 1), 10.0) is problems.NOT_FOUND
    assert await add(row.id, an_answer(1, 1), 10.0) is problems.REPLAYED
    assert await add(row.id, an_answer(1, 2), 10.0) is None
    assert await add(spent.id, an_answer(1, 3), 10.0) is problems.BUDGET_SPENT
    assert await add(row.id, an_answer(2, 1), 100.0) is problems.ROUND_CLOSED  # it has ended
    await store.revoke_device(device_id(2), 11.0)
    assert await add(spent.id, an_answer(2, 2), 12.0) is problems.REVOKED


async def test_no_more_answers_than_are_taken(store: Store) -> None:
    await enrolled(store, 1, 2)
    row = a_question(most=1)
    await store.add_question(row)
    assert await store.add_answer(row.id, an_answer(1, 1), 10.0) is None
    assert await store.add_answer(row.id, an_answer(2, 1), 10.0) is problems.ROUND_CLOSED


async def test_while_it_is_summed_none_come_and_at_the_end_they_are_destroyed(store: Store) -> None:
    await enrolled(store, 1, 2)
    row = a_question()
    await store.add_question(row)
    assert await store.add_answer(row.id, an_answer(1, 1), 10.0) is None
    assert await store.question_keys() == {row.seal_id}
    assert await store.end_question(row.id, SUMMING, OPEN)
    assert not await store.end_question(row.id, SUMMING, OPEN)  # another process was faster
    assert await store.add_answer(row.id, an_answer(2, 1), 10.0) is problems.ROUND_CLOSED
    assert await bodies(store, row) == [b"sealed"]
    assert await store.end_question(row.id, ANSWERED, SUMMING, b"sum", 50.0)
    assert await bodies(store, row) == []
    assert await store.question_keys() == frozenset()
    found = await store.question(row.id)
    assert found == replace(row, state=ANSWERED, answers=1, total=b"sum", closed_at=50.0)
    assert await store.add_answer(row.id, an_answer(1, 2), 10.0) is None  # it was received


async def test_the_newest_comes_first(store: Store) -> None:
    for number in (1, 3, 2):
        await store.add_question(a_question(number))
    await store.end_question(a_question(3).id, QuestionState.TOO_FEW, OPEN, now=5.0)
    assert [row.id[0] for row in await store.questions(10)] == [3, 2, 1]
    assert [row.id[0] for row in await store.questions(10, only_open=True)] == [2, 1]
    assert [row.id[0] for row in await store.questions(1)] == [3]


async def test_a_question_that_waits_for_its_helper_is_opened_once(store: Store) -> None:
    await enrolled(store, 1)
    row = replace(a_question(), state=QuestionState.OPENING)
    await store.add_question(row)
    assert await store.add_answer(row.id, an_answer(1, 1), 10.0) is problems.ROUND_CLOSED
    assert [one.id for one in await store.questions(10, only_open=True)] == [row.id]
    assert await store.open_question(row.id, b"signed again")
    assert not await store.open_question(row.id, b"by another process")
    assert await store.question(row.id) == replace(
        row, state=QuestionState.OPEN, signed=b"signed again"
    )
    assert await store.add_answer(row.id, an_answer(1, 2), 10.0) is None
