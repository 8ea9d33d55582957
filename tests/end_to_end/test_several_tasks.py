"""Two tasks in one process, one database and on two ports, each with devices of its own.

What should happen: rounds, budgets, pages and metrics of each, as if it were alone.
What should not happen: that anything of the one is good for the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from fedrap import FedRap, Floor
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.app import BELOW
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.settings import Enrolment, Settings
from fedrap_coordinator.sources import SYSTEM
from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import OfferRequest
from testkit.harness import ITEMS, LiveServer, one_cell, small_settings
from testkit.several import Several, serve_several, settings_of_tasks
from tests.end_to_end.test_identity import enrol, issuer, register

CAPS = {"main": 2, "music": 1}  # K of each


@pytest.fixture
def settings(database: str, tmp_path: Path) -> dict[str, Settings]:
    waiting = Enrolment(wait_steps=0, account_devices=1)
    wanted = {
        name: msgspec.structs.replace(small_settings(updates=2, cap=cap), enrolment=waiting)
        for name, cap in CAPS.items()
    }
    return settings_of_tasks(wanted, database, tmp_path / "keys")


@pytest_asyncio.fixture
async def served(settings: dict[str, Settings]) -> AsyncIterator[Several]:
    async with serve_several(settings) as several:
        yield several


def admin_of(one: LiveServer, settings: Settings) -> AdminActions:
    return AdminActions(one.app[COORDINATOR].store, settings, SYSTEM, "a test")


@pytest.mark.spec("2.8")
async def test_real_devices_of_both_take_part_at_once_and_each_pays_in_its_own(
    served: Several, settings: dict[str, Settings], tmp_path: Path
) -> None:
    devices: dict[str, list[FedRap]] = {}
    for name, one in served.tasks.items():
        made = [await one.device(tmp_path / f"{name}{n}", ITEMS[n : n + 4]) for n in range(4)]
        devices[name] = made
    joined = dict.fromkeys(devices, 0)
    for turn in range(6):  # two of each at a time, and more often than either K allows
        now = [(name, one) for name, some in devices.items() for one in some[turn % 2 :: 2]]
        reports = await asyncio.gather(*(one.run_round_async() for _, one in now))
        for (name, _), report in zip(now, reports, strict=True):
            joined[name] += report.joined
        for one in served.tasks.values():
            await one.app[COORDINATOR].advance()
    assert joined == {name: 4 * cap for name, cap in CAPS.items()}
    for name, one in served.tasks.items():
        latest = await one.app[COORDINATOR].release(None)
        assert latest.version == 1 + 2 * CAPS[name]
        for device in devices[name]:
            assert device.status().rounds == CAPS[name]
            assert device.recommend(3)
        books = await admin_of(one, settings[name]).ledger()
        assert (books.devices_charged, books.violations) == (4, [])
        records = await one.app[COORDINATOR].store.devices(b"", 99)
        assert [record.participations for record in records] == [CAPS[name]] * 4
    ids = [one.app[COORDINATOR].task for one in served.tasks.values()]
    assert len(set(ids)) == 2


@pytest.mark.spec("2.8", "3.1", "7.5")
async def test_what_belongs_to_one_is_refused_by_the_other(served: Several) -> None:
    main, music = served.tasks["main"], served.tasks["music"]
    token = await main.token()
    assert (await enrol(music, token))[1].problem == "token-refused"
    assert (await enrol(main, token))[1].status == 200
    player, other = await main.player(), await music.player()
    offer, there = await player.offer(), await other.offer()
    sealed = encode(player.update(offer, one_cell(0)))
    before = await music.app[COORDINATOR].store.counts()
    for device in (player, other):
        home = device._served
        device._served = main if home is music else music
        assert (await device.ask(1)).problem == "not-enrolled"
        assert (await device.post(offer.round, sealed)).problem == "not-enrolled"
        assert (await device.post(there.round, sealed)).problem == "not-enrolled"
        device._served = home
    assert (await other.post(offer.round, sealed)).problem == "not-found"
    for_music = encode(other.update(offer, one_cell(0)))  # sealed to the key of the other task
    assert (await other.post(there.round, for_music)).status >= 400
    assert await music.app[COORDINATOR].store.counts() == before
    assert (await player.post(offer.round, sealed)).status == 200  # it was good, at home
    # Who signs for the whole address signs for another one.
    whole = player.signed("POST", "/t/music/v1/offers", encode(OfferRequest(release=1)))
    answer = await player.send("POST", "/v1/offers", encode(OfferRequest(release=1)), whole)
    assert answer.problem == "bad-signature"


async def test_a_backends_token_is_good_for_the_task_that_it_names(served: Several) -> None:
    main, music = served.tasks["main"], served.tasks["music"]
    for one in (main, music):
        await register(one)
    token = issuer(audience="tasks-music").token(account="ann")
    assert (await enrol(main, token))[1].problem == "token-refused"
    assert (await enrol(music, token))[1].status == 200
    # An account may have one device, in each task for itself.
    again = issuer(audience="tasks-music").token(account="ann")
    assert (await enrol(music, again))[1].problem == "too-many-devices"
    elsewhere = issuer(audience="tasks-main").token(account="ann")
    assert (await enrol(main, elsewhere))[1].status == 200


async def test_a_device_that_is_pointed_at_another_task_takes_nothing_from_it(
    served: Several, tmp_path: Path
) -> None:
    main, music = served.tasks["main"], served.tasks["music"]
    first = await main.device(tmp_path / "d", ITEMS[:4])
    await main.device(tmp_path / "e", ITEMS[3:6])
    assert (await first.run_round_async()).joined
    kept = (first.status().release, first.recommend(3))
    first.close()
    floor = Floor.without_privacy(min_updates=2)
    with FedRap.open(tmp_path / "d", server=music.url, floor=floor) as moved:
        report = await moved.run_round_async()
        assert not report.joined
        assert report.blocked_by in {"broken-release", "not-enrolled"}
        assert (moved.status().release, moved.recommend(3)) == kept


async def test_pages_cookies_and_metrics_are_of_one_task(
    served: Several, settings: dict[str, Settings]
) -> None:
    tokens = {}
    for name, one in served.tasks.items():
        made = await admin_of(one, settings[name]).add_admin("ann", Role.VIEWER)
        tokens[name] = made.token
    base = {"main": served.admin, "music": f"{served.admin}/t/music"}
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:

        async def status(of: str, path: str, token: str | None = None) -> int:
            headers = {} if token is None else {"Authorization": f"Bearer {tokens[token]}"}
            async with http.get(base[of] + path, headers=headers) as answer:
                return answer.status

        for own, other in (("main", "music"), ("music", "main")):
            assert await status(own, "/admin/v1/status", own) == 200
            assert await status(own, "/admin/v1/status", other) == 401
            assert await status(own, "/metrics", other) == 401
        async with http.post(f"{base['main']}/session", json={"token": tokens["main"]}) as answer:
            said = await answer.json()
            assert "Path=/;" in answer.headers["Set-Cookie"]
        assert said["tasks"] == [{"name": "main", "at": "./"}, {"name": "music", "at": "t/music/"}]
        assert await status("main", "/admin/v1/status") == 200
        assert await status("music", "/admin/v1/status") == 401  # the cookie came along, in vain
        async with http.post(f"{base['music']}/session", json={"token": tokens["music"]}) as answer:
            said = await answer.json()
            assert "Path=/t/music/;" in answer.headers["Set-Cookie"]
        assert said["tasks"] == [{"name": "main", "at": "../../"}, {"name": "music", "at": "./"}]
        assert await status("main", "/admin/v1/status") == 200  # both at once
        assert await status("music", "/admin/v1/status") == 200
        async with http.delete(f"{base['music']}/session") as answer:
            assert answer.status == 200
        assert await status("music", "/admin/v1/status") == 401
        assert await status("main", "/admin/v1/status") == 200
        async with http.get(f"{served.admin}/t/music", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (308, "music/")
        assert await status("music", "/page.js") == 200

    player = await served.tasks["music"].player()
    assert (await player.offer()).round
    everything = await text_of(f"{served.admin}/metrics", tokens["main"])
    of_music = await text_of(f"{base['music']}/metrics", tokens["music"])
    assert 'fedrap_devices{state="ready",task="music"}' in everything.replace(
        'task="music",state="ready"', 'state="ready",task="music"'
    )
    for name in ("main", "music"):
        assert f'fedrap_release_version{{task="{name}"}} 1.0' in everything
    assert 'fedrap_round_assigned{task="music"} 1.0' in everything
    assert 'fedrap_round_assigned{task="main"} 0.0' in everything
    for once in (
        "# TYPE fedrap_release_version ",
        "process_cpu_seconds_total ",
        "fedrap_build_info{",
    ):
        assert len([line for line in everything.splitlines() if line.startswith(once)]) == 1
    assert "task=" not in of_music
    assert "fedrap_round_assigned 1.0" in of_music


async def text_of(url: str, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
        assert answer.status == 200
        return await answer.text()


async def test_readiness_is_that_of_all_and_an_empty_catalogue_holds_up_nobody(
    settings: dict[str, Settings],
) -> None:
    async with serve_several(settings, items=[]) as several:
        main, music = several.tasks["main"], several.tasks["music"]

        async def ready(url: str) -> int:
            async with main.session.get(f"{url}/readyz") as answer:
                return answer.status

        both = (main.url, several.admin)
        of_music = (music.url, f"{several.admin}/t/music")
        assert [await ready(url) for url in (*both, *of_music)] == [503] * 4
        await music.app[COORDINATOR].add_items(ITEMS)
        assert [await ready(url) for url in (*both, *of_music)] == [200] * 4
        assert (await main.session.get(f"{main.url}/t/books/v1/log")).status == 404
        music.app[COORDINATOR].store.serves = False
        assert await ready(main.url) == 503


async def test_both_go_on_after_a_restart(settings: dict[str, Settings]) -> None:
    async with serve_several(settings) as several:
        before = {name: one.app[COORDINATOR].task for name, one in several.tasks.items()}
        player = await several.tasks["music"].player()
        await player.join()
    async with serve_several(settings) as several:
        assert {name: one.app[COORDINATOR].task for name, one in several.tasks.items()} == before
        music = several.tasks["music"]
        assert music.app is several.tasks["main"].app[BELOW]["music"]
        await (await music.player()).join()
        assert (await music.app[COORDINATOR].release(None)).version == 2
        assert (await several.tasks["main"].app[COORDINATOR].release(None)).version == 1
