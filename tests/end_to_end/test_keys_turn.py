"""Sealing keys turn while rounds go on: old offers stay good, and dead keys open nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import SealKeyGone, open_keyring
from fedrap_coordinator.settings import Sealing
from fedrap_coordinator.sources import Sources
from fedrap_core.wire.codec import encode
from testkit.harness import one_cell, serve, small_settings


@pytest.mark.spec("4.6", "4.7")
async def test_an_old_offer_is_good_while_its_round_lives_and_its_key_dies_with_it(
    tmp_path: Path,
) -> None:
    keyring = open_keyring(tmp_path / "keys")
    async with serve(small_settings(updates=2), str(tmp_path / "c.sqlite"), keyring) as served:
        early, late = await served.player(), await served.player()
        offer = await early.offer()
        open_keyring(tmp_path / "keys").rotate(1.0)  # by the command line, in another process
        assert (await late.offer()).seal_id == offer.seal_id
        captured = encode(early.update(offer, one_cell(0)))
        assert (await early.post(offer.round, captured)).status == 200
        keyring.private(offer.seal_id)
        await late.join()  # the round is released, and the next one opened
        following = await (await served.player()).offer()
        assert following.seal_id != offer.seal_id
        assert following.seal_id == keyring.seal_id
        with pytest.raises(SealKeyGone):
            keyring.private(offer.seal_id)
        assert not (tmp_path / "keys" / f"seal-{offer.seal_id.hex()}.key").exists()
        # The same bytes are still answered, other bytes of that round are not.
        assert (await early.post(offer.round, captured)).status == 200
        other = await early.post(offer.round, encode(early.update(offer, one_cell(1))))
        assert other.problem == "round-closed"


@pytest.mark.spec("4.6")
async def test_a_round_keeps_its_key_through_a_turn_and_a_restart(tmp_path: Path) -> None:
    settings, database = small_settings(updates=2), str(tmp_path / "c.sqlite")
    async with serve(settings, database, open_keyring(tmp_path / "keys")) as served:
        player = await served.player()
        offer = await player.offer()
        assert (await player.post(offer.round, encode(player.update(offer, one_cell(0))))).status
    open_keyring(tmp_path / "keys").rotate(1.0)
    async with serve(settings, database, open_keyring(tmp_path / "keys")) as served:
        other = await served.player()
        again = await other.offer()
        assert (again.round, again.seal_id) == (offer.round, offer.seal_id)
        await other.join()
        assert (await served.app[COORDINATOR].release(None)).version == 2


@pytest.mark.spec("4.7")
async def test_what_a_kill_left_undestroyed_is_destroyed_at_the_next_start(tmp_path: Path) -> None:
    settings, database = small_settings(updates=2), str(tmp_path / "c.sqlite")
    async with serve(settings, database, open_keyring(tmp_path / "keys")) as served:
        offer = await (await served.player()).offer()
    other = open_keyring(tmp_path / "keys").rotate(1.0).id
    open_keyring(tmp_path / "keys").rotate(2.0)  # now two are retired; a round names the first
    keyring = open_keyring(tmp_path / "keys")
    async with serve(settings, database, keyring):
        keyring.private(offer.seal_id)
        with pytest.raises(SealKeyGone):
            keyring.private(other)


async def test_a_round_whose_key_was_lost_is_abandoned_and_its_step_tried_again(
    tmp_path: Path,
) -> None:
    settings, database = small_settings(updates=2), str(tmp_path / "c.sqlite")
    async with serve(settings, database, open_keyring(tmp_path / "keys")) as served:
        await (await served.player()).join()
        before = served.app[COORDINATOR].round
    (tmp_path / "other").mkdir()
    for name in ("noise.key", "authority.key"):  # without these two it would not start
        shutil.copy(tmp_path / "keys" / name, tmp_path / "other" / name)
    async with serve(settings, database, open_keyring(tmp_path / "other")) as served:
        after = served.app[COORDINATOR].round
        assert before is not None
        assert after is not None
        assert (before.step, after.step) == (1, 1)
        assert (before.id != after.id, after.accepted) == (True, 0)
        for _ in range(2):
            await (await served.player()).join()
        assert (await served.app[COORDINATOR].release(None)).version == 2


@pytest.mark.spec("4.7")
async def test_age_alone_turns_the_keys_and_the_database_never_has_one(tmp_path: Path) -> None:
    now = [1000.0]
    settings = msgspec.structs.replace(
        small_settings(updates=1, separation=1), sealing=Sealing(rotate_hours=1.0)
    )
    keyring = open_keyring(tmp_path / "keys", Sources(lambda: 1000.0))
    database = str(tmp_path / "c.sqlite")
    named, secrets = [], set()
    async with serve(settings, database, keyring, clock=lambda: now[0]) as served:
        for _ in range(4):
            secrets |= {path.read_text().strip() for path in (tmp_path / "keys").glob("*.key")}
            player = await served.player()
            named.append((await player.offer()).seal_id)
            now[0] += 1800.0
            await player.join()
    assert named[0] != named[2]
    assert named == [named[0], named[0], named[2], named[2]]
    with pytest.raises(SealKeyGone):
        keyring.private(named[0])
    for name in os.listdir(tmp_path):
        if name.startswith("c.sqlite"):
            raw = (tmp_path / name).read_bytes()
            assert not any(bytes.fromhex(one) in raw or one.encode() in raw for one in secrets)
