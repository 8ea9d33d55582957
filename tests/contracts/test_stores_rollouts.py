"""What every store promises of roll-outs and staged releases; conftest.py has the stores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedrap_coordinator.domain.records import AuditEntry, StoredRelease
from fedrap_coordinator.domain.rollouts import NEXT, Rollout, RolloutState
from fedrap_coordinator.errors import AlreadyReleased
from fedrap_coordinator.store.protocol import Store
from tests.contracts.test_stores_questions import a_question

ACT = AuditEntry(1.0, "ann", "rollout-start", "next", "done")


def a_rollout(number: int = 1) -> Rollout:
    return Rollout(bytes([number]) * 16, NEXT, (0.01, 0.1), 0.05, float(number))


async def test_one_roll_out_goes_on_at_a_time(store: Store) -> None:
    assert await store.rollout() is None
    first, second = a_rollout(), a_rollout(2)
    assert await store.add_rollout(first, ACT)
    assert not await store.add_rollout(second, ACT)
    assert await store.rollout() == first
    over = first.halted("by ann", 5.0)
    assert await store.move_rollout(over, first)
    assert await store.rollout() is None
    assert await store.add_rollout(second)
    assert await store.rollouts(10) == [second, over]
    assert await store.rollouts(1) == [second]
    outcomes = [row.entry.outcome for row in await store.audit_rows(0, 10)]
    assert outcomes == ["done", "refused"]


async def test_a_roll_out_moves_on_once(store: Store) -> None:
    row = a_rollout().begun(7, 8)
    await store.add_rollout(row)
    next_ = replace(row, stage=1, reason="no harm")
    assert await store.move_rollout(next_, row)
    assert not await store.move_rollout(replace(row, tries=1), row)  # another process, late
    assert await store.rollout() == next_
    assert not await store.move_rollout(a_rollout(9), a_rollout(9))  # there never was one


async def test_a_staged_release_is_not_the_latest(store: Store) -> None:
    row = a_rollout()
    await store.add_rollout(row)
    await store.add_release(StoredRelease(1, 1, 3, b"one", None), None)
    staged = StoredRelease(2, 2, 3, b"two", None, staged=row.id)
    await store.add_release(staged, None, row.begun(1, 2))
    assert await store.rollout() == row.begun(1, 2)
    assert (await store.progress())[1] == 1
    latest = await store.release(None)
    assert latest is not None
    assert latest.version == 1
    assert await store.release(2) == staged
    assert [(one.version, one.staged) for one in await store.release_history(5)] == [
        (2, row.id),
        (1, b""),
    ]
    ended = row.begun(1, 2).promoted("no harm").ended(9.0)
    with pytest.raises(AlreadyReleased):
        await store.roll_back(StoredRelease(2, 2, 3, b"x", None, 2), rollout=ended)
    assert await store.rollout() == row.begun(1, 2)  # nothing of it happened
    await store.roll_back(StoredRelease(3, 2, 3, b"two", None, 2), rollout=ended)
    assert (await store.progress())[1] == 3
    assert await store.rollout() is None
    assert [one.state for one in await store.rollouts(5)] == [RolloutState.PROMOTED]


async def test_a_question_of_the_same_id_is_asked_once(store: Store) -> None:
    row = a_question()
    assert await store.add_question(row, ACT)
    assert not await store.add_question(replace(row, signed=b"of another process"), ACT)
    assert await store.question(row.id) == row
    assert len(await store.audit_rows(0, 10)) == 1
