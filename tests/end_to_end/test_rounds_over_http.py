"""Real devices of the SDK and the real coordinator on a real socket."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from fedrap import FedRap, Floor
from fedrap.transport.http import HttpTransport
from fedrap_coordinator.domain.rounds import Phase
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Catalogue, Delta, Forget, Release
from fedrap_core.wire.releases import MAX_RELEASE_BYTES, model_hash, unpack_release
from testkit.harness import ITEMS, LiveServer, serve, small_settings


@pytest_asyncio.fixture
async def served(tmp_path: Path) -> AsyncIterator[LiveServer]:
    async with serve(small_settings(updates=2), str(tmp_path / "c.sqlite")) as running:
        yield running


async def _pair(served: LiveServer, folder: Path, name: str) -> tuple[FedRap, FedRap]:
    return (
        await served.device(folder / f"{name}-1", ITEMS[:5]),
        await served.device(folder / f"{name}-2", ITEMS[4:9]),
    )


@pytest.mark.spec("5.4", "7.7")
async def test_one_update_walks_from_a_tap_to_a_new_release(
    served: LiveServer, tmp_path: Path
) -> None:
    one, two = await _pair(served, tmp_path, "a")
    first = await one.run_round_async()
    assert first.joined
    assert first.step == 1
    assert first.loss is not None
    assert (await two.run_round_async()).joined
    await one.sync_async()
    assert one.status().release == 2
    assert one.status().rounds == 1
    assert {item for item, _ in one.recommend(5)} <= set(ITEMS[5:])


@pytest.mark.spec("7.5")
async def test_both_neighbours_of_b_on_the_server(served: LiveServer, tmp_path: Path) -> None:
    a, b = await _pair(served, tmp_path, "a"), await _pair(served, tmp_path, "b")
    for device in a:
        assert (await device.run_round_async()).joined  # step 1
    report = await a[0].run_round_async()  # step 2: one step later, too soon
    assert (report.joined, report.blocked_by) == (False, "too-soon")
    assert report.retry_after is not None
    for device in b:
        assert (await device.run_round_async()).joined  # step 2
    await asyncio.sleep(report.retry_after)
    assert (await a[0].run_round_async()).joined  # step 3: two steps later


@pytest.mark.spec("7.5")
async def test_the_device_refuses_consecutive_rounds_even_when_the_server_asks(
    tmp_path: Path,
) -> None:
    careless = small_settings(updates=2, separation=1)
    async with serve(careless, MemoryStore()) as served:
        one, two = await _pair(served, tmp_path, "a")
        for device in (one, two):
            assert (await device.run_round_async()).joined
        refused = await one.run_round_async()
        assert (refused.joined, refused.blocked_by) == (False, "ledger-separation")
        assert one.status().rounds == 1


@pytest.mark.spec("7.5")
async def test_the_cap_is_kept_by_the_server_and_the_floor_by_the_device(tmp_path: Path) -> None:
    async with serve(small_settings(updates=2, cap=1, separation=1), MemoryStore()) as served:
        free = Floor.without_privacy(separation=1, min_updates=2)
        one = await served.device(tmp_path / "1", ITEMS[:5], floor=free)
        two = await served.device(tmp_path / "2", ITEMS[:5], floor=free)
        for device in (one, two):
            assert (await device.run_round_async()).joined
        assert (await one.run_round_async()).blocked_by == "budget-spent"
        picky = await served.device(
            tmp_path / "3", ITEMS[:5], floor=Floor.without_privacy(min_updates=50)
        )
        assert (await picky.run_round_async()).blocked_by == "floor-cohort"
        noisy = await served.device(
            tmp_path / "4", ITEMS[:5], floor=Floor.without_privacy(min_noise=0.5, min_updates=2)
        )
        assert (await noisy.run_round_async()).blocked_by == "floor-noise"


@pytest.mark.spec("7.6")
async def test_asking_twice_gives_the_same_offer_and_is_charged_once(
    served: LiveServer,
) -> None:
    player = await served.player()
    first, second = await player.offer(), await player.offer()
    assert (first.round, first.step) == (second.round, second.step)
    current = served.app[COORDINATOR].round
    assert current is not None
    assert current.assigned == 1


@pytest.mark.spec("7.1")
async def test_a_device_with_another_release_is_not_charged(served: LiveServer) -> None:
    player = await served.player()
    assert (await player.ask(release=99)).problem == "stale-model"
    current = served.app[COORDINATOR].round
    assert current is not None
    assert current.assigned == 0


@pytest.mark.spec("7.12")
async def test_a_full_round_sends_devices_away_with_a_time(tmp_path: Path) -> None:
    settings = small_settings(updates=2, over_selection=1.0)
    async with serve(settings, MemoryStore()) as served:
        players = [await served.player() for _ in range(3)]
        for player in players[:2]:
            await player.offer()
        answer = await players[2].ask()
        assert answer.problem == "no-round"
        assert int(answer.headers["Retry-After"]) >= 0


@pytest.mark.spec("7.11")
async def test_a_round_without_enough_updates_is_abandoned_and_its_step_tried_again(
    tmp_path: Path,
) -> None:
    now = [1000.0]
    settings = small_settings(updates=2, max_seconds=60.0)
    async with serve(settings, MemoryStore(), clock=lambda: now[0]) as served:
        one = await served.device(tmp_path / "1", ITEMS[:5], clock=lambda: now[0])
        assert (await one.run_round_async()).joined
        before = served.app[COORDINATOR].round
        now[0] += 61.0
        await served.app[COORDINATOR].advance()
        after = served.app[COORDINATOR].round
        assert before is not None
        assert after is not None
        assert before.id != after.id
        assert (before.step, after.step) == (1, 1)
        two = await served.device(tmp_path / "2", ITEMS[4:], clock=lambda: now[0])
        assert (await one.run_round_async()).joined  # the same step: not charged a second time
        assert (await two.run_round_async()).joined
        assert one.status().rounds == 1
        assert (await served.app[COORDINATOR].release(None)).version == 2


@pytest.mark.spec("2.5")
async def test_a_release_has_an_etag_a_304_and_a_gzip_form(served: LiveServer) -> None:
    url = served.url + "/v1/releases/latest"
    async with served.session.get(url, headers={"Accept-Encoding": "identity"}) as answer:
        plain, tag = await answer.read(), answer.headers["ETag"]
        assert tag == '"c1"'
    async with served.session.get(url, headers={"If-None-Match": tag}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")
    async with served.session.get(
        url, headers={"Accept-Encoding": "gzip"}, auto_decompress=False
    ) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(await answer.read()) == plain
    async with served.session.get(served.url + "/v1/releases/1") as answer:
        assert "immutable" in answer.headers["Cache-Control"]


@pytest.mark.spec("2.5")
async def test_the_catalogue_is_compressed_for_those_who_ask(served: LiveServer) -> None:
    await served.app[COORDINATOR].add_items([f"a-longer-id-{n}" for n in range(2_000)])
    url, said = served.url + "/v1/catalogue", {}
    for encoding in ("identity", "gzip"):
        headers = {"Accept-Encoding": encoding}
        async with served.session.get(url, headers=headers, auto_decompress=False) as answer:
            assert answer.headers["Vary"] == "Accept-Encoding"
            assert ("Content-Encoding" in answer.headers) == (encoding == "gzip")
            said[encoding] = await answer.read()
    assert gzip.decompress(said["gzip"]) == said["identity"]
    assert len(said["gzip"]) < len(said["identity"]) / 3


@pytest.mark.spec("7.2", "7.3", "7.4")
async def test_new_items_get_new_rows_and_old_ones_keep_theirs(
    served: LiveServer, tmp_path: Path
) -> None:
    coordinator = served.app[COORDINATOR]
    assert await coordinator.add_items(["brand-new", ITEMS[3]]) == 1
    for device in await _pair(served, tmp_path, "a"):
        assert (await device.run_round_async()).joined
    raw = (await coordinator.release(None)).body
    common = unpack_release(decode(Release, raw, MAX_RELEASE_BYTES))
    assert common.size == len(ITEMS) + 1
    assert not np.any(common.items.values[-1])
    async with served.session.get(served.url + "/v1/catalogue?start=10") as answer:
        catalogue = decode(Catalogue, await answer.read())
    assert catalogue.items.decode().split() == [*ITEMS[10:], "brand-new"]


@pytest.mark.spec("7.14")
async def test_when_all_rounds_are_over_devices_are_told_so(tmp_path: Path) -> None:
    async with serve(small_settings(updates=2, total=1), MemoryStore()) as served:
        for device in await _pair(served, tmp_path, "a"):
            assert (await device.run_round_async()).joined
        other = await served.device(tmp_path / "x", ITEMS[:3])
        assert (await other.run_round_async()).blocked_by == "task-over"
        answer = await (await served.player()).ask()
        assert (answer.status, answer.problem) == (403, "task-over")
        days = float(answer.headers["Retry-After"]) / 86_400  # time alone does not cure it
        assert 3 < days < 11


async def test_a_round_sleeps_through_a_restart_and_wakes_with_its_updates(tmp_path: Path) -> None:
    path, keyring = str(tmp_path / "c.sqlite"), None
    settings = small_settings(updates=2)
    async with serve(settings, path) as served:
        keyring = served.app[COORDINATOR].keyring
        await (await served.player()).join()
    async with serve(settings, path, keyring) as served:
        current = served.app[COORDINATOR].round
        assert current is not None
        assert (current.phase, current.accepted) == (Phase.COLLECTING, 1)
        await (await served.player()).join()
        assert (await served.app[COORDINATOR].release(None)).version == 2


@pytest.mark.spec("4.5")
async def test_the_database_never_holds_a_plaintext_and_no_body_after_the_release(
    tmp_path: Path,
) -> None:
    path = tmp_path / "c.sqlite"
    async with serve(small_settings(updates=2), str(path)) as served:
        one, two = await _pair(served, tmp_path, "a")
        assert (await one.run_round_async()).joined
        stored = _database_bytes(tmp_path)
        assert b"triangle_scales" not in stored  # a field name of every plaintext share
        assert b"sealed" in stored
        assert (await two.run_round_async()).joined
        bodies = [
            body async for body in served.app[COORDINATOR].store.sealed_updates(_last(served))
        ]
        assert bodies == []


def _database_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("c.sqlite*"))


def _last(served: LiveServer) -> bytes:
    current = served.app[COORDINATOR].round
    assert current is not None
    return current.id


@pytest.mark.spec("2.5", "7.13")
async def test_a_device_is_brought_up_to_date_with_a_delta_and_ends_with_the_same_c(
    served: LiveServer, tmp_path: Path
) -> None:
    coordinator = served.app[COORDINATOR]
    one, two = await _pair(served, tmp_path, "a")
    await one.sync_async()
    for device in (one, two):
        assert (await device.run_round_async()).joined
    async with served.session.get(served.url + "/v1/releases/latest?have=1") as answer:
        raw = await answer.read()
    # Nine of twelve rows were touched: too many for a delta, so the whole comes.
    assert decode(Release, raw, MAX_RELEASE_BYTES).version == 2
    three, four = [await served.device(tmp_path / f"{n}", ITEMS[:2]) for n in (3, 4)]
    for device in (three, four):
        assert (await device.run_round_async()).joined
    transport = HttpTransport(served.url, served.session)
    delta = await transport.release(2)
    assert isinstance(delta, Delta)
    assert len(delta.rows) // 4 == 2
    await three.sync_async()
    whole = decode(Release, (await coordinator.release(None)).body, MAX_RELEASE_BYTES)
    held = three._state.contents().model
    assert held is not None
    assert (held.common.version, held.digest) == (3, whole.model)
    assert model_hash(held.common.items) == whole.model


async def test_a_device_that_holds_a_version_nobody_knows_gets_the_whole(
    served: LiveServer,
) -> None:
    async with served.session.get(served.url + "/v1/releases/latest?have=0") as answer:
        assert decode(Release, await answer.read(), MAX_RELEASE_BYTES).version == 1


@pytest.mark.spec("2.6")
async def test_a_device_that_asks_to_be_forgotten_is_unknown_afterwards(
    served: LiveServer,
) -> None:
    player = await served.player()
    answer = await player.send("POST", "/v1/forget", encode(Forget()))
    assert answer.status == 200
    assert (await player.ask()).problem == "not-enrolled"
    assert await served.app[COORDINATOR].store.device(player.id) is None
