"""A clock that jumps: no time passes, order follows from the program, and nothing hangs."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_simulation.scenarios.virtual_clock import Deadlock, run_virtual


def test_a_month_takes_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(30 * 86400.0)
        return asyncio.get_running_loop().time()

    started = time.perf_counter()
    assert run_virtual(main()) == pytest.approx(30 * 86400.0)
    assert time.perf_counter() - started < 5.0


def test_what_is_due_now_happens_now_after_many_days_too() -> None:
    """Beyond day 194 asyncio's own resolution is lost in the last digit of the clock."""

    async def main() -> int:
        naps = 0
        for _ in range(500):
            await asyncio.sleep(86400.0 / 7)
            naps += 1
        return naps

    async def late() -> int:
        await asyncio.sleep(200 * 86400.0 + 0.1)
        return await main()

    assert run_virtual(late()) == 500


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=20))
def test_sleepers_wake_in_the_order_of_their_times(naps: list[float]) -> None:
    async def main() -> list[float]:
        woken: list[float] = []

        async def sleep(seconds: float) -> None:
            await asyncio.sleep(seconds)
            assert asyncio.get_running_loop().time() == pytest.approx(seconds, abs=1e-6)
            woken.append(seconds)

        await asyncio.gather(*map(sleep, naps))
        return woken

    assert run_virtual(main()) == sorted(naps)


def test_work_for_threads_runs_here_and_now() -> None:
    async def main() -> tuple[list[str], float]:
        order: list[str] = []

        async def work(name: str) -> None:
            await asyncio.to_thread(order.append, name)

        await asyncio.gather(work("a"), work("b"), work("c"))
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        return order, asyncio.get_running_loop().time()

    assert run_virtual(main()) == (["a", "b", "c"], 0.0)


def test_waiting_for_ever_is_an_error() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run_virtual(main())


def test_timeouts_work() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.0):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(5.0)
