"""Keys, models and plans that are not what they seem: who swaps or replays them gains nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fedrap.transport.credentials import Signer
from fedrap_coordinator.domain.rounds import Phase
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import Keyring
from fedrap_core.wire.codec import decode_value, encode, encode_value
from fedrap_core.wire.keys import new_private_key
from fedrap_core.wire.messages import Signed
from testkit.harness import one_cell, serve, small_settings
from tests.contracts.one_by_one import round_phase
from tests.sdk.made import PLAN, MadeCoordinator, a_device, a_release


class Replaying(MadeCoordinator):
    """Gives the first offer again and again, whatever has happened since."""

    first: Signed | None = None

    async def offer(self, signer: Signer, release: int, wait: float = 0.0) -> Signed:
        fresh = await super().offer(signer, release)
        if self.first is None:
            self.first = fresh
        return self.first


@pytest.mark.spec("7.1", "7.5")
def test_a_replayed_offer_gets_no_second_update(tmp_path: Path) -> None:
    coordinator = Replaying()
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().joined
        coordinator.latest = a_release(version=2, seed=1)
        report = device.run_round()  # the old plan, for a model that is gone
        assert (report.joined, report.blocked_by) == (False, "old-offer")
        assert len(coordinator.sent) == 1
        assert device.status().rounds == 1


@pytest.mark.spec("7.1")
def test_an_offer_for_a_swapped_model_is_refused_before_anything_is_computed(
    tmp_path: Path,
) -> None:
    """One C for the victim and another for the rest would single it out: the hash is checked."""
    coordinator = MadeCoordinator()
    with a_device(tmp_path, coordinator) as device:
        device.sync()
        coordinator.latest = msgspec.structs.replace(coordinator.latest, model=bytes(32))
        report = device.run_round()
        assert (report.joined, report.blocked_by) == (False, "forked-release")
        assert coordinator.sent == []


@pytest.mark.parametrize(
    "change",
    [{"noise": 0.0}, {"clip": 1e5}, {"coefficients": (1.0, 0.2)}, {"cap": 4}],
    ids=["noise", "clip", "coefficients", "cap"],
)
@pytest.mark.spec("4.2", "7.9")
async def test_an_update_made_under_another_plan_is_not_counted(
    change: dict[str, object], tmp_path: Path
) -> None:
    """The plan's hash is sealed in: no update made for one promise is summed under another."""
    async with serve(small_settings(noise=1.0), str(tmp_path / "c.sqlite")) as served:
        player = await served.player()
        offer = await player.offer()
        plan = decode_value(type(PLAN), offer.plan)
        rule = msgspec.structs.replace(plan.privacy, **change)
        other = encode_value(msgspec.structs.replace(plan, privacy=rule))
        forged = player.update(msgspec.structs.replace(offer, plan=other), one_cell(0))
        answer = await player.post(offer.round, encode(forged))
        assert answer.problem == "stale-model"
        named = player.update(offer, one_cell(0)).plan  # the right name on the wrong bytes
        relabelled = msgspec.structs.replace(forged, plan=named)
        assert (await player.post(offer.round, encode(relabelled))).problem == "malformed"


def _with_bands(bands: list[float], separation: int) -> bytes:
    """A plan whose noise would break its claim, as a hostile coordinator would write it."""
    tree = msgspec.to_builtins(PLAN)
    tree["privacy"] |= {"coefficients": bands, "separation": separation}
    return encode_value(tree)


@pytest.mark.spec("5.1", "5.5")
def test_a_plan_with_more_bands_than_its_separation_is_refused_by_the_device(
    tmp_path: Path,
) -> None:
    coordinator = MadeCoordinator(plan=_with_bands([1.0, 0.9, 0.8], 2))
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().blocked_by == "unreachable"  # nothing of this protocol
        assert coordinator.sent == []
        coordinator.plan = _with_bands([1.0, 0.9], 2)
        assert device.run_round().joined


async def test_with_another_sealing_key_stored_updates_stay_closed_and_nothing_is_released(
    tmp_path: Path,
) -> None:
    """Who has the database and not the key can't sum: the round is abandoned, and its bodies go."""
    path, settings = str(tmp_path / "c.sqlite"), small_settings(updates=3, min_updates=2)
    async with serve(settings, path) as served:
        mine, current = served.app[COORDINATOR].keyring, served.app[COORDINATOR].round
        assert current is not None
        for row in range(2):
            await (await served.player()).join(one_cell(row))
    stranger = Keyring(new_private_key(), mine.noise, mine.authority)
    async with serve(settings, path, stranger) as served:
        await (await served.player()).join(one_cell(2))
        coordinator = served.app[COORDINATOR]
        assert (await coordinator.release(None)).version == 1
        assert await round_phase(coordinator.store, current.id) is Phase.ABANDONED
        assert [body async for body in coordinator.store.sealed_updates(current.id)] == []
