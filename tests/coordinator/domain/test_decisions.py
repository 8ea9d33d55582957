"""Who may take part: the rule in Python, its limits, and the store that says the same."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_coordinator.domain.rounds import Phase, Round
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.protocol import Store
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.participation import why_not
from fedrap_core.plan import Privacy
from fedrap_core.wire import problems
from fedrap_core.wire.problems import Problem
from tests.contracts.one_by_one import assign

DEVICE = b"d" * 16


@pytest.mark.spec("7.5", "7.6")
@pytest.mark.parametrize(
    ("last_step", "participations", "step", "expected"),
    [
        (None, 0, 1, None),
        (10, 1, 12, problems.TOO_SOON),  # b - 1 steps later
        (10, 1, 13, None),  # b steps later
        (10, 1, 14, None),
        (10, 1, 11, problems.TOO_SOON),
        (10, 4, 20, None),  # the last one below the cap
        (10, 5, 20, problems.BUDGET_SPENT),
        (10, 5, 11, problems.BUDGET_SPENT),  # time will not cure it, so say that first
        (10, 5, 10, None),  # the same step again is not charged again
    ],
)
def test_the_rule_at_both_neighbours_of_its_limits(
    last_step: int | None, participations: int, step: int, expected: Problem | None
) -> None:
    rule = Privacy(separation=3, cap=5)
    assert why_not(last_step, participations, step, rule) is expected


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 6), st.integers(1, 6))
def test_no_sequence_of_requests_breaks_the_guarantee(
    steps: Sequence[int], separation: int, cap: int
) -> None:
    rule = Privacy(separation=separation, cap=cap)
    last: int | None = None
    charged: list[int] = []
    for step in sorted(steps):
        if why_not(last, len(charged), step, rule) is None and step != last:
            charged.append(step)
            last = step
    assert len(charged) <= cap
    assert all(b - a >= separation for a, b in pairwise(charged))


async def _assign_all(
    store: Store, steps: Sequence[int], rule: Privacy
) -> list[tuple[bool | None, int, int | None]]:
    """Each step asked for in a round of its own: the answer, and the device's record after it."""
    await store.open()
    try:
        await store.add_tokens([b"token"], 1.0)
        await store.enrol(b"token", DEVICE, b"key", 1.0)
        seen = []
        for place, step in enumerate(steps):
            round_ = Round(place.to_bytes(16, "big"), step, 1, 0.0)
            await store.open_round(round_, b"")
            given_ = await assign(store, round_.id, DEVICE, step, rule.separation, rule.cap)
            await store.set_phase(round_.id, Phase.ABANDONED)
            record = await store.device(DEVICE)
            assert record is not None
            seen.append((given_, record.participations, record.last_step))
        return seen
    finally:
        await store.close()


def _by_the_rule(steps: Sequence[int], rule: Privacy) -> list[tuple[bool | None, int, int | None]]:
    last: int | None = None
    count = 0
    seen: list[tuple[bool | None, int, int | None]] = []
    for step in steps:
        allowed = why_not(last, count, step, rule) is None
        if allowed:
            count += step != last
            last = step
        seen.append((allowed, count, last))
    return seen


@pytest.mark.spec("7.5", "7.6")
@settings(max_examples=25)
@given(st.lists(st.integers(1, 12), max_size=15), st.integers(1, 4), st.integers(1, 4))
def test_the_stores_decide_like_the_rule(steps: Sequence[int], separation: int, cap: int) -> None:
    rule = Privacy(separation=separation, cap=cap)
    expected = _by_the_rule(steps, rule)
    with tempfile.TemporaryDirectory() as folder:
        sql = SqlStore(f"sqlite:///{folder}/store.sqlite")
        stores: list[Store] = [MemoryStore(), sql]
        for store in stores:
            assert asyncio.run(_assign_all(store, steps, rule)) == expected
