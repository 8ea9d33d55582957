"""Waiting for a place, pace, and the limits: of bodies, of what is in hand, of how often."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from fedrap_coordinator.domain.rate_limits import Pace
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.settings import IngestLimits, Limits, Settings
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import OfferRequest
from testkit.harness import (
    ITEMS,
    NO_LIMITS,
    PATIENCE,
    Answer,
    Player,
    one_cell,
    serve,
    small_settings,
)


async def _ask(player: Player, release: int, wait: float) -> Answer:
    return await player.send("POST", "/v1/offers", encode(OfferRequest(release=release, wait=wait)))


@pytest.mark.spec("7.15")
async def test_a_device_that_waits_is_answered_when_something_has_changed() -> None:
    async with serve(small_settings(updates=1, over_selection=1.0), MemoryStore()) as served:
        first, second = await served.player(), await served.player()
        offer = await first.offer()
        at_once = await _ask(second, 1, 0.0)
        assert at_once.problem == "no-round"
        waiting = asyncio.create_task(_ask(second, 1, 30.0))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await first.post(offer.round, encode(first.update(offer, one_cell(0))))
        answer = await asyncio.wait_for(waiting, PATIENCE)
        assert answer.problem == "stale-model"  # the release it waited for is out
        assert second.offer_in(await _ask(second, 2, 20.0)).step == 2


@pytest.mark.spec("7.15", "2.3")
async def test_waiting_ends_in_time_and_its_nonce_is_counted() -> None:
    async with serve(small_settings(updates=1, over_selection=1.0), MemoryStore()) as served:
        first, second = await served.player(), await served.player()
        await first.offer()
        body = encode(OfferRequest(release=1, wait=0.1))
        headers = second.signed("POST", "/v1/offers", body)
        assert (await second.send("POST", "/v1/offers", body, headers)).problem == "no-round"
        assert (await second.send("POST", "/v1/offers", body, headers)).problem == "replayed"


@pytest.mark.spec("7.15")
async def test_the_sdk_waits_for_its_slot(tmp_path: Path) -> None:
    async with serve(small_settings(updates=2, over_selection=1.0), MemoryStore()) as served:
        players = [await served.player() for _ in range(2)]
        offers = [await player.offer() for player in players]
        device = await served.device(tmp_path, ITEMS[:3])
        joining = asyncio.create_task(device.run_round_async(wait=30.0))
        await asyncio.sleep(0.1)
        assert not joining.done()
        for player, offer in zip(players, offers, strict=True):
            await player.post(offer.round, encode(player.update(offer, one_cell(0))))
        assert (await asyncio.wait_for(joining, PATIENCE)).joined


def _with(**parts: object) -> Settings:
    return msgspec.structs.replace(small_settings(), **parts)


@pytest.mark.spec("2.7", "1.4")
async def test_a_body_is_refused_before_it_is_read() -> None:
    sizes = {"/v1/offers": 5000, "/v1/enrol": 40_000, "/v1/rounds/00/updates": 10**9}
    async with serve(small_settings(), MemoryStore()) as served:
        port = int(served.url.split(":")[2])
        for path, size in sizes.items():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n"
            writer.write(head.encode())
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
            assert b" 413 " in answer  # not a byte of the body was sent
            writer.close()


@pytest.mark.spec("2.7")
async def test_more_than_the_server_can_take_is_told_to_come_back() -> None:
    small = _with(ingest=IngestLimits(max_bytes=1024))
    async with serve(small, MemoryStore()) as served:
        player = await served.player()
        offer = await player.offer()
        answer = await player.post(offer.round, b"x" * 2000)
        assert (answer.status, answer.problem) == (503, "unavailable")
        assert answer.document["retry_after"] > 0
        assert int(answer.headers["Retry-After"]) >= 1
        body = encode(player.update(offer, one_cell(0)))
        assert len(body) < 1024
        assert (await player.post(offer.round, body)).status == 200


@pytest.mark.spec("2.7")
async def test_a_device_that_asks_too_often_is_slowed_down_and_nobody_else() -> None:
    slow = Limits(device=Pace(burst=3, per_minute=1), address=NO_LIMITS.address)
    async with serve(_with(limits=slow), MemoryStore()) as served:
        eager, other = await served.player(), await served.player()
        answers = [await eager.ask() for _ in range(4)]
        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        assert answers[-1].problem == "slow-down"
        assert 0 < answers[-1].document["retry_after"] <= 60
        forged = other.signed("POST", "/v1/offers", b"")
        for _ in range(5):  # somebody who cannot sign for it cannot use up its tokens
            await other.send("POST", "/v1/offers", b"x", forged)
        assert (await other.ask()).status == 200


@pytest.mark.spec("2.7")
async def test_an_address_that_enrols_or_guesses_too_often_is_slowed_down() -> None:
    slow = Limits(device=NO_LIMITS.device, address=Pace(burst=4, per_minute=1))
    async with serve(_with(limits=slow), MemoryStore()) as served:
        player = await served.player()
        headers = player.signed("POST", "/v1/offers", b"other bytes")
        answers = [await player.send("POST", "/v1/offers", b"", headers) for _ in range(4)]
        assert [answer.problem for answer in answers] == ["bad-signature"] * 3 + ["slow-down"]
        assert (await player.ask()).status == 200  # who proves it is not counted


@pytest.mark.spec("7.12", "7.16")
async def test_a_device_that_must_rest_is_told_for_how_long(tmp_path: Path) -> None:
    now = [1000.0]
    async with serve(
        small_settings(updates=1, separation=4), MemoryStore(), clock=lambda: now[0]
    ) as served:
        player = await served.player()
        now[0] += 100.0  # this round lasted 100 s
        await player.join()
        assert served.app[COORDINATOR].round is not None
        waits = [(await player.ask()).document["retry_after"] for _ in range(5)]
        assert all(250 <= wait <= 450 for wait in waits)  # three rounds of about 100 s, spread
        assert len(set(waits)) > 1
