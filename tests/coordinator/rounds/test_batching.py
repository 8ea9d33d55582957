"""Batches: in order, by key, no larger than they may be; what fails fails for its batch alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.rounds.batching import Batcher
from testkit.harness import PATIENCE, until_async


class Doing:
    """Answers each entry with itself, and remembers the batches."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, list[int]]] = []
        self.go = asyncio.Event()

    async def do(self, key: str, entries: Sequence[int]) -> Sequence[int]:
        self.batches.append((key, list(entries)))
        await self.go.wait()
        if 13 in entries:
            raise ValueError("thirteen")
        return entries


async def test_what_comes_while_a_batch_is_done_makes_the_next_one() -> None:
    doing = Doing()
    batcher = Batcher(doing.do, size=3)
    tasks = [asyncio.ensure_future(batcher.put("a", number)) for number in range(8)]
    await asyncio.sleep(0)
    tasks.append(asyncio.ensure_future(batcher.put("b", 99)))
    await until_async(lambda: len(doing.batches) == 2)
    doing.go.set()
    assert await asyncio.gather(*tasks) == [*range(8), 99]
    assert [entries for key, entries in doing.batches if key == "a"] == [
        [0, 1, 2], [3, 4, 5], [6, 7],
    ]  # fmt: skip
    assert ("b", [99]) in doing.batches


async def test_a_first_one_waits_for_company_but_a_full_batch_does_not() -> None:
    doing = Doing()
    doing.go.set()
    batcher = Batcher(doing.do, size=2, delay=1e6)
    async with asyncio.timeout(PATIENCE):
        answers = await asyncio.gather(batcher.put("a", 1), batcher.put("a", 2))
    assert list(answers) == [1, 2]
    assert doing.batches == [("a", [1, 2])]


async def test_a_batch_that_fails_tells_its_own_and_the_next_goes_on() -> None:
    doing = Doing()
    doing.go.set()
    batcher = Batcher(doing.do, size=2)
    answers = await asyncio.gather(
        *(batcher.put("a", number) for number in (13, 1, 2)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [ValueError, ValueError, int]


async def test_too_many_are_told_to_come_back_and_a_caller_that_left_harms_nobody() -> None:
    doing = Doing()
    batcher = Batcher(doing.do, size=10, most=2)
    first, second = (asyncio.ensure_future(batcher.put("a", number)) for number in (1, 2))
    await asyncio.sleep(0)
    with pytest.raises(Refusal) as refused:
        await batcher.put("a", 3)
    assert refused.value.retry_after
    first.cancel()
    doing.go.set()
    assert await second == 2
    await batcher.close()
