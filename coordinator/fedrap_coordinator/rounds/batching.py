"""Batches: what comes in while a batch is being done makes the next one.

Alone, a request waits for nothing but the delay; under load, fifty share the price of one commit
or of one hop to a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

from fedrap_coordinator.errors import Refusal
from fedrap_core.wire import problems

K = TypeVar("K", bound=Hashable)
E = TypeVar("E")
O = TypeVar("O")  # noqa: E741


class Batcher(Generic[K, E, O]):
    """Does entries of the same key together, one batch of a key at a time, in order of arrival."""

    def __init__(
        self,
        do: Callable[[K, Sequence[E]], Awaitable[Sequence[O]]],
        size: int,
        delay: float = 0.0,
        most: int = 10_000,
    ) -> None:
        """
        Args:
            do: does a batch and answers each entry, in order.
            size: entries of a batch, at the most.
            delay: seconds that the first of a batch waits for company.
            most: entries that may wait; more are refused.
        """
        self._do = do
        self._size = size
        self._delay = delay
        self._most = most
        self._waiting: dict[K, list[tuple[E, asyncio.Future[O]]]] = {}
        self._full: dict[K, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0

    def put(self, key: K, entry: E) -> asyncio.Future[O]:
        """The answer to this entry, once its batch was done; or what the batch raised.

        When the batch raised, nothing of it was done.

        Raises:
            Refusal: too many wait already.
        """
        if self._count >= self._most:
            raise Refusal(problems.UNAVAILABLE, "more requests than this server can take", 1.0)
        self._count += 1
        future: asyncio.Future[O] = asyncio.get_running_loop().create_future()
        queue = self._waiting.get(key)
        if queue is None:
            self._waiting[key] = [(entry, future)]
            self._full[key] = asyncio.Event()
            task = asyncio.create_task(self._drain(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            queue.append((entry, future))
            if len(queue) >= self._size:
                self._full[key].set()
        return future

    async def close(self) -> None:
        """Wait until all that came in was answered."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _drain(self, key: K) -> None:
        """Do batches of a key until none waits."""
        full = self._full[key]
        while queue := self._waiting[key]:
            if self._delay and len(queue) < self._size:
                full.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(full.wait(), self._delay)
            some, self._waiting[key] = queue[: self._size], queue[self._size :]
            await self._one(key, some)
        del self._waiting[key], self._full[key]

    async def _one(self, key: K, some: list[tuple[E, asyncio.Future[O]]]) -> None:
        try:
            answers = await self._do(key, [entry for entry, _ in some])
        except BaseException as error:
            for _, future in some:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        finally:
            self._count -= len(some)
        for (_, future), answer in zip(some, answers, strict=True):
            if not future.done():  # a device that went away
                future.set_result(answer)
