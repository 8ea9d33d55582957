"""How often the devices are counted for the dashboard: as often as that is cheap."""

from __future__ import annotations

from fedrap_coordinator.admin.monitor import MOST_OF_TIME, SLOW_SECONDS
from fedrap_coordinator.domain.records import DeviceStates
from fedrap_coordinator.http.dashboard import MONITOR
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.plan import Privacy
from testkit.harness import serve, small_settings

TAKES = 0.15  # seconds: as long as that many devices would


class LargeStore(MemoryStore):
    """A store whose devices take long to count, at times that are noted."""

    counted = 0
    takes = passed = 0.0

    async def device_states(self, step: int, rule: Privacy, now: float) -> DeviceStates:
        self.counted += 1
        self.passed += self.takes
        return await super().device_states(step, rule, now)


async def _looks(takes: float, ages: list[float]) -> list[int]:
    """How often devices were counted, after a first count, at looks so many seconds later."""
    store, now = LargeStore(), [1000.0]
    store.takes = takes
    async with serve(
        small_settings(), store, clock=lambda: now[0], monotonic=lambda: store.passed
    ) as served:
        monitor = served.app[MONITOR]
        await monitor.look()
        first, found = store.counted, []
        for age in ages:
            now[0] = 1000.0 + age
            await monitor.look()
            found.append(store.counted - first)
        return found


async def test_few_devices_are_counted_every_ten_seconds() -> None:
    assert await _looks(0.0, [1, SLOW_SECONDS - 1, SLOW_SECONDS + 1]) == [0, 0, 1]


async def test_counting_takes_no_more_than_its_share_of_time() -> None:
    least = TAKES / MOST_OF_TIME
    assert least > SLOW_SECONDS
    assert (await _looks(TAKES, [SLOW_SECONDS + 1, least - 1, 10 * least])) == [0, 0, 1]
