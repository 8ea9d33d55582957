"""The signed log of releases over HTTP: what whoever compares can fetch, and what devices check."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrap_coordinator.domain.records import Extent
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.rounds.releases import first_model
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire.authority import (
    NOTHING_BEFORE,
    check_leads,
    check_release,
    entry_digest,
    is_signed_by,
    read_entry,
)
from fedrap_core.wire.codec import decode
from fedrap_core.wire.keys import public_point
from fedrap_core.wire.messages import Log, Release, Signed
from testkit.harness import ITEMS, LiveServer, one_cell, serve, small_settings

SETTINGS = small_settings(updates=1, separation=1)


async def get(served: LiveServer, path: str) -> bytes:
    async with served.session.get(served.url + path) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.read()


async def the_log(served: LiveServer, since: int = 0) -> Log:
    return decode(Log, await get(served, f"/v1/log?since={since}"))


@pytest.mark.spec("9.6")
async def test_every_release_is_an_entry_that_follows_the_one_before(tmp_path: Path) -> None:
    async with serve(SETTINGS, str(tmp_path / "c.sqlite")) as served:
        for row in range(3):
            await (await served.player()).join(one_cell(row))
        log = await the_log(served)
        first, *others = log.entries
        assert read_entry(first).before == NOTHING_BEFORE
        check_leads(first, others)
        assert [read_entry(one).version for one in log.entries] == [1, 2, 3, 4]
        latest = decode(Release, await get(served, "/v1/releases/latest"))
        assert log.head == log.entries[-1] == latest.entry
        authority = (await served.player()).authority
        check_release(authority, latest)
        assert all(is_signed_by(authority, one) for one in log.entries)
        assert [entry_digest(one) for one in (await the_log(served, 2)).entries] == [
            entry_digest(one) for one in log.entries[2:]
        ]
        assert (await the_log(served, 4)).entries == []
        assert (await the_log(served, 4)).head == log.head


async def test_a_release_of_before_there_was_a_log_becomes_its_first_entry(tmp_path: Path) -> None:
    store, keyring = MemoryStore(), fresh_keyring()
    task = await store.task_id(b"t" * 16)
    await store.add_items(ITEMS)
    unsigned = first_model(task, Extent(len(ITEMS), 1), SETTINGS)
    assert unsigned.message.entry == b""
    await store.add_release(unsigned.stored, None)
    for _ in range(2):  # a second start finds it done
        async with serve(SETTINGS, store, keyring) as served:
            log = await the_log(served)
            assert len(log.entries) == 1
            latest = decode(Release, await get(served, "/v1/releases/latest"))
            assert latest.model == unsigned.message.model
            check_release(public_point(keyring.authority.public_key()), latest)
    async with serve(SETTINGS, store, keyring) as served:
        await (await served.player()).join()
        check_leads(log.head, (await the_log(served, 1)).entries)


@pytest.mark.spec("9.1")
async def test_all_devices_of_a_round_get_the_same_signed_offer(tmp_path: Path) -> None:
    async with serve(small_settings(updates=3), str(tmp_path / "c.sqlite")) as served:
        offers = {(await (await served.player()).ask()).body for _ in range(3)}
        assert len(offers) == 1
        decode(Signed, offers.pop())
        coordinator = served.app[COORDINATOR]
        assert coordinator.round is not None


async def test_other_keys_than_those_of_the_database_stop_the_start(tmp_path: Path) -> None:
    """A lost folder of keys is made anew on first use: no device would trust what it signs."""
    store, keyring = MemoryStore(), fresh_keyring()
    async with serve(SETTINGS, store, keyring) as served:
        await (await served.player()).join(one_cell(0))
    with pytest.raises(ConfigError, match=r"did not sign release 2.*back from their backup"):
        async with serve(SETTINGS, store, fresh_keyring()):
            pass
    async with serve(SETTINGS, store, keyring):
        pass
