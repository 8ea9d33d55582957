"""A task that goes on with another model: learnt by the same devices beside the release in use,
from its C, under one signed log, one ledger and one budget.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap import FedRap
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.rollout_actions import RolloutActions
from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.rounds.coordinator import Coordinator
from fedrap_coordinator.rounds.releases import load_model, successor_model
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.plan import OFF
from fedrap_core.wire.authority import check_leads, read_entry
from fedrap_core.wire.messages import Offer
from testkit.harness import DIM, ITEMS, LiveServer, serve, small_settings
from tests.end_to_end.test_questions import NO_PRIVACY

LARGER = DIM + 4


def of_dim(dim: int, total: int = 100) -> Settings:
    settings = small_settings(updates=2, separation=1, total=total)
    return msgspec.structs.replace(
        settings, method=msgspec.structs.replace(settings.method, dim=dim)
    )


def actions(served: LiveServer, settings: Settings) -> RolloutActions:
    store = served.app[COORDINATOR].store
    return RolloutActions(AdminActions(store, settings, Sources(), "ann", keyring=KEYS))


KEYS = fresh_keyring()


async def joined(devices: list[FedRap], coordinator: Coordinator) -> None:
    for device in devices:
        report = await device.run_round_async()
        assert report.joined, report
    await coordinator.advance()


async def two_devices(served: LiveServer, folder: Path) -> list[FedRap]:
    return [
        await served.device(folder / name, list(ITEMS[:3]), floor=NO_PRIVACY) for name in ("a", "b")
    ]


@pytest.mark.spec("9.8")
@pytest.mark.parametrize("dim", [LARGER, DIM - 2])
async def test_devices_move_to_a_successor_by_themselves(
    database: str, tmp_path: Path, dim: int
) -> None:
    async with serve(of_dim(DIM), SqlStore(database), KEYS) as served:
        coordinator = served.app[COORDINATOR]
        first = await two_devices(served, tmp_path)
        await joined(first, coordinator)
        with pytest.raises(ConfigError, match="another dim"):
            async with serve(of_dim(dim), SqlStore(database), KEYS):
                pass
        await actions(served, of_dim(dim)).begin_successor()
        await coordinator.advance()  # with the settings of before it cannot begin
        assert coordinator.model is not None
        assert coordinator.model.stored.step == 1
    async with serve(of_dim(dim), SqlStore(database), KEYS) as served:
        coordinator = served.app[COORDINATOR]
        await coordinator.advance()
        devices = [
            await served.device(tmp_path / name, [], floor=NO_PRIVACY) for name in ("a", "b")
        ]
        for device in devices:
            await device.sync_async()
        lists = [one.recommend(3) for one in devices]
        for _ in range(2):  # learnt while the old one serves
            await joined(devices, coordinator)
        assert [one.status().release for one in devices] == [2, 2]
        assert [one.recommend(3) for one in devices] == lists
        assert coordinator.model is not None
        assert coordinator.model.common.dim == DIM
        await actions(served, of_dim(dim)).promote()
        await coordinator.advance()
        assert coordinator.model.common.dim == dim
        assert coordinator.model.stored.step == 3
        for device in devices:
            await device.sync_async()
            assert device.status().release == coordinator.model.stored.version
            assert device.recommend(3)
            assert device.status().interactions == 3
        await joined(devices, coordinator)  # rounds go on from it
        assert [one.status().rounds for one in devices] == [4, 4]  # one ledger for both
        entries, _ = await coordinator.store.log(1, 50)
        check_leads((await coordinator.store.log(0, 1))[0][0], entries)
        assert [read_entry(one).dim for one in entries] == [DIM, dim, dim, dim, dim, dim]
        assert [read_entry(one).staged is not OFF for one in entries] == [
            False, True, True, True, False, False,
        ]  # fmt: skip
        states = await coordinator.store.device_states(5, coordinator.settings.privacy, 0.0)
        assert dict(states.charged) == {4: 2}


async def test_a_successor_that_is_dropped_leaves_what_was_in_use(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    async with serve(of_dim(DIM), path, KEYS) as served:
        await joined(await two_devices(served, tmp_path), served.app[COORDINATOR])
        await actions(served, of_dim(LARGER)).begin_successor()
    async with serve(of_dim(LARGER), path, KEYS) as served:
        coordinator = served.app[COORDINATOR]
        await coordinator.advance()
        before = coordinator.model
        assert before is not None
        devices = [await served.device(tmp_path / one, [], floor=NO_PRIVACY) for one in ("a", "b")]
        await joined(devices, coordinator)
        await actions(served, of_dim(LARGER)).halt()
        await coordinator.advance()
        after = coordinator.model
        assert after is not None
        assert (after.common.dim, after.stored.step) == (DIM, 2)
        assert np.array_equal(after.common.items.values, before.common.items.values)
        for device in devices:  # no rounds: the settings are those of what was dropped
            assert (await device.run_round_async()).blocked_by == "no-round"
    async with serve(of_dim(DIM), path, KEYS) as served:
        devices = [await served.device(tmp_path / one, [], floor=NO_PRIVACY) for one in ("a", "b")]
        for device in devices:
            device._session.ask_again()
        await joined(devices, served.app[COORDINATOR])


async def test_a_successor_is_judged_as_a_release_that_is_staged(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    async with serve(of_dim(DIM), path, KEYS) as served:
        await joined(await two_devices(served, tmp_path), served.app[COORDINATOR])
        await actions(served, of_dim(LARGER)).begin_successor()
        with pytest.raises(Refusal, match="no successor is learnt"):
            await actions(served, of_dim(LARGER)).judge_successor()
    async with serve(of_dim(LARGER), path, KEYS) as served:
        coordinator = served.app[COORDINATOR]
        await coordinator.advance()
        devices = [await served.device(tmp_path / one, [], floor=NO_PRIVACY) for one in ("a", "b")]
        await joined(devices, coordinator)
        await actions(served, of_dim(LARGER)).judge_successor()
        await coordinator.advance()
        await coordinator.advance()
        row = await coordinator.store.rollout()
        assert row is not None
        assert row.state == "running"
        assert row.version is not None
        staged = await coordinator.store.release(row.version)
        assert staged is not None
        assert load_model(staged).common.dim == LARGER
        assert coordinator.model is not None
        assert (coordinator.model.common.dim, row.base) == (DIM, coordinator.model.stored.version)
    async with serve(of_dim(LARGER), path, KEYS) as served:  # also after a restart
        await actions(served, of_dim(LARGER)).promote()
        await served.app[COORDINATOR].advance()
        model = served.app[COORDINATOR].model
        assert model is not None
        assert model.common.dim == LARGER


@pytest.mark.spec("9.8")
async def test_a_device_follows_no_successor_that_was_not_staged(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    async with serve(of_dim(DIM), path, KEYS) as served:
        coordinator = served.app[COORDINATOR]
        devices = await two_devices(served, tmp_path)
        await joined(devices, coordinator)
        sync = devices[0]._session
        slots = coordinator._slots
        honest = slots._offer

        def dishonest(*given: object) -> Offer:  # the release in use as a successor of itself
            offer = honest(*given)  # type: ignore[arg-type]
            return msgspec.structs.replace(offer, beside=offer.release)

        slots._offer = dishonest  # type: ignore[assignment, method-assign]
        slots._context = None
        assert (await devices[0].run_round_async()).blocked_by == "not-signed"
        assert sync.distrusted == "not-signed"
        assert devices[0].status().rounds == 1


async def test_rows_of_another_dim_say_the_same_as_far_as_they_can(tmp_path: Path) -> None:
    async with serve(of_dim(DIM), str(tmp_path / "c.sqlite"), KEYS) as served:
        await joined(await two_devices(served, tmp_path), served.app[COORDINATOR])
        model = served.app[COORDINATOR].model
        assert model is not None
    old = model.common.items.to_float()
    larger = successor_model(model, of_dim(LARGER)).common.items.to_float()
    assert np.allclose(larger[:, :DIM], old, atol=np.abs(larger).max() / 100)
    smaller = successor_model(model, of_dim(DIM - 1)).common.items.to_float()
    products, exact = smaller @ smaller.T, old @ old.T
    lost = np.linalg.svd(old, compute_uv=False)[-1] ** 2
    assert np.linalg.norm(products - exact, 2) <= 1.05 * lost + 0.05 * np.abs(exact).max()


async def test_a_successor_needs_rounds_and_something_to_succeed(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    async with serve(of_dim(DIM, total=1), path, KEYS) as served:
        with pytest.raises(ConfigError, match="nothing was learnt yet"):
            await actions(served, of_dim(LARGER, 1)).begin_successor()
        await joined(await two_devices(served, tmp_path), served.app[COORDINATOR])
        with pytest.raises(ConfigError, match=r"raise round\.total"):
            await actions(served, of_dim(LARGER, 1)).begin_successor()
