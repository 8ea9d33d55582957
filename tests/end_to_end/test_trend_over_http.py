"""The trend over a real socket: what devices touched lately is a list, and a reason."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fedrap import Floor
from fedrap_core.plan import DAY, Scoring, SolveMethod, TrendMethod
from testkit.harness import DIM, ITEMS, serve, small_settings

FREE = Floor.without_privacy(separation=1, min_updates=2)
OLD, NEW, ONCE = ITEMS[3], ITEMS[7], ITEMS[9]


async def test_what_many_touched_lately_is_trending_and_starts_new_users(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(
        small_settings(updates=3, separation=1),
        method=SolveMethod(dim=DIM, trend=TrendMethod(half_days=1.0)),
        scoring=Scoring(trend=2.0),
    )
    now = [1_700_000_000.0]
    async with serve(settings, str(tmp_path / "c.sqlite"), clock=lambda: now[0]) as served:
        devices = [
            await served.device(tmp_path / str(n), [], floor=FREE, clock=lambda: now[0])
            for n in range(3)
        ]
        for number, device in enumerate(devices):
            device.record(OLD, at=now[0] - 40 * DAY)
            device.record(ITEMS[number], at=now[0] - 20 * DAY)
            device.record(NEW, at=now[0])
        devices[0].record(ONCE, at=now[0])  # one device alone is no trend
        assert devices[0].trending() == []
        for device in devices:
            assert (await device.run_round_async()).joined
        fresh = await served.device(tmp_path / "fresh", [], floor=FREE)
        await fresh.sync_async()
        assert fresh.trending(5) == [NEW]
        (first, *_) = fresh.recommend(3)
        assert first.item == NEW
        assert first.trend > 0
        assert first.score == first.shared + first.personal + first.trend
        assert str(fresh.because(NEW)) == "popular lately"
        assert str(fresh.because(ONCE)) == ""
        fresh.hide(NEW)
        assert fresh.trending() == []
        # A store that is opened again, and one that follows by deltas, have it too.
        now[0] += 3 * DAY  # three half-lives: what three touched is worth less than one by now
        for device in devices:
            device.record(OLD, at=now[0])
            assert (await device.run_round_async()).joined
        await devices[0].sync_async()
        assert devices[0].trending() == [OLD]
        assert devices[0].recommend(1, filter_seen=False)[0].item == OLD
