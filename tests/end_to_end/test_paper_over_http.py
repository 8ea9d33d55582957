"""`paper` through the real SDK and the real coordinator: D only for what the user touched."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from fedrap import FedRap, Floor
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.paper.variants import NAMES, make_variant
from fedrap_core.plan import PaperMethod
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import MAX_RELEASE_BYTES, unpack_release
from testkit.harness import DIM, ITEMS, LiveServer, serve, small_settings

FEDERATED = [name for name in NAMES if name != "centrap"]
WIDE = Floor.without_privacy(min_updates=2, max_clip=1e4)  # gradients of `paper` are long


def _settings(name: str, **changes: object) -> Settings:
    method = msgspec.structs.replace(PaperMethod(dim=DIM, rate=20.0), **changes)
    variant = make_variant(name, method)
    base = small_settings(updates=2, clip=1e4)
    privacy = base.privacy if name != "fedrap-noise" else variant.privacy
    return msgspec.structs.replace(base, method=variant.method, privacy=privacy)


async def _released(served: LiveServer) -> npt.NDArray[np.float32]:
    raw = (await served.app[COORDINATOR].release(None)).body
    return unpack_release(decode(Release, raw, MAX_RELEASE_BYTES)).items.to_float()


async def _two_devices(served: LiveServer, folder: Path) -> tuple[FedRap, FedRap]:
    one = await served.device(folder / "1", ITEMS[:4], floor=WIDE)
    two = await served.device(folder / "2", ITEMS[2:7], floor=WIDE)
    for device in (one, two):
        report = await device.run_round_async()
        assert report.joined, report
        assert report.loss is not None
    for device in (one, two):
        await device.sync_async()
    return one, two


@pytest.mark.parametrize("name", FEDERATED)
async def test_every_variant_runs_a_round_end_to_end(name: str, tmp_path: Path) -> None:
    async with serve(_settings(name), MemoryStore()) as served:
        before = await _released(served)
        one, _ = await _two_devices(served, tmp_path)
        after = await _released(served)
        assert one.status().release == 2
        moved = bool(np.any(before != after))
        assert moved == (name != "fedrap-d")
        personal = one.status().personal_items
        assert personal == (0 if name == "fedrap-c" else 4)
        found = one.recommend(5)
        assert {item for item, _ in found}.isdisjoint(ITEMS[:4])
        assert all(np.isfinite(one.score) for one in found)


async def test_the_personal_part_counts_for_items_the_user_touched_and_no_others(
    tmp_path: Path,
) -> None:
    async with serve(_settings("fedrap"), MemoryStore()) as served:
        one, _ = await _two_devices(served, tmp_path)
        for found in one.recommend(12, filter_seen=False, explain=True):
            assert found.score == pytest.approx(found.shared + found.personal)
            assert (found.personal != 0) == (found.item in ITEMS[:4])
            assert found.reasons == ()


async def test_what_was_trained_survives_a_restart(tmp_path: Path) -> None:
    async with serve(_settings("fedrap"), MemoryStore()) as served:
        one, _ = await _two_devices(served, tmp_path)
        before = one.recommend(12, filter_seen=False)
        one.close()
        with FedRap.open(tmp_path / "1") as again:
            assert again.recommend(12, filter_seen=False) == before


async def test_a_round_that_runs_away_is_dropped_counted_and_changes_nothing(
    tmp_path: Path,
) -> None:
    wild = _settings("fedrap-fixed", rate=1e6, user_rate=1e6, apart=1e5, reach=1e6)
    async with serve(wild, MemoryStore()) as served:
        device = await served.device(tmp_path / "1", ITEMS[:4], floor=WIDE)
        await device.sync_async()
        before = device.recommend(12, filter_seen=False)
        report = await device.run_round_async()
        assert (report.joined, report.blocked_by) == (False, "diverged")
        status = device.status()
        assert (status.dropped, status.pending, status.rounds) == (1, 0, 0)
        assert device.recommend(12, filter_seen=False) == before


async def test_status_says_which_trainer_ran_and_why(tmp_path: Path) -> None:
    async with serve(_settings("fedrap"), MemoryStore()) as served:
        device = await served.device(tmp_path / "1", ITEMS[:4], trainer="numpy", floor=WIDE)
        assert device.status().trainer is None
        await device.run_round_async()
        status = device.status()
        assert (status.trainer, status.trainer_reason) == ("numpy", "the caller asked for it")


async def test_a_task_keeps_its_method(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    async with serve(_settings("fedrap"), path):
        pass
    with pytest.raises(ConfigError, match="another method"):
        async with serve(small_settings(), path):
            pass
