"""What is counted, who may see it, and the session of a browser: over real sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.app import ADMIN_RUNNER
from fedrap_coordinator.http.dashboard import (
    COOKIE,
    FILES,
    MONITOR,
    Session,
    make_session,
    read_session,
)
from fedrap_coordinator.settings import AdminApi
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.memory import MemoryStore
from testkit.harness import LiveServer, serve, small_settings, until_async

WEB = Path(__file__).parents[3] / "coordinator" / "fedrap_coordinator" / "http" / "static"


@dataclass
class AdminClient:
    served: LiveServer
    store: MemoryStore
    admin: AdminActions
    url: str
    token: str
    http: aiohttp.ClientSession

    async def get(self, path: str, bearer: bool = False) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {self.token}"} if bearer else {}
        async with self.http.get(self.url + path, headers=headers) as answer:
            return answer.status, await answer.text()

    async def metrics(self) -> dict[str, float]:
        found = text_string_to_metric_families((await self.get("/metrics", True))[1])
        return {
            "{}{}".format(
                one.name, "".join(f",{v}" for _, v in sorted(one.labels.items()))
            ): one.value
            for family in found
            for one in family.samples
        }


@pytest_asyncio.fixture
async def api() -> AsyncIterator[AdminClient]:
    settings = small_settings(updates=2, separation=2, noise=1.0)
    settings = msgspec.structs.replace(settings, admin=AdminApi(port=0))
    store = MemoryStore()
    async with (
        serve(settings, store) as served,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http,
    ):
        admin = AdminActions(store, settings, SYSTEM, "test")
        token = (await admin.add_admin("ann", Role.VIEWER)).token
        port = served.app[ADMIN_RUNNER].addresses[0][1]
        yield AdminClient(served, store, admin, f"http://127.0.0.1:{port}", token, http)


async def test_metrics_say_what_happened_and_name_no_device(api: AdminClient) -> None:
    players = [await api.served.player() for _ in range(2)]
    for player in players:
        await player.join()
    assert (await players[0].ask(99)).status == 409
    await (await api.served.player()).join()
    assert (await players[0].ask()).problem == "too-soon"
    monitor = api.served.app[MONITOR]
    await until_async(lambda: monitor.gauges()["epsilon_spent"] > 0)  # counted now and then
    await monitor.look()
    found = await api.metrics()
    assert found["fedrap_updates_accepted_total"] == 3
    assert found["fedrap_refusals_total,stale-model,offers"] == 1
    assert found["fedrap_refusals_total,too-soon,offers"] == 1
    assert found["fedrap_release_version"] == 2
    assert found["fedrap_round_phase,collecting"] == 1
    assert found["fedrap_round_accepted"] == 1
    assert found["fedrap_round_seconds_count,released"] == 1
    assert found["fedrap_received_bytes_total,updates"] > 300
    assert found["fedrap_request_seconds_count,updates,200"] == 3
    assert 0 < found["fedrap_epsilon_spent"] < found["fedrap_epsilon_promised"]
    assert 0 <= found["fedrap_common_zeros"] < 1
    assert "fedrap_ingest_queue" in found
    states = ("ready", "resting", "waiting", "spent", "expired", "revoked")
    assert sum(found[f"fedrap_devices,{state}"] for state in states) == 3
    assert found["fedrap_database_serves"] == 1
    assert found["process_resident_memory_bytes"] > 1e6
    assert any(name.startswith("fedrap_build_info,") for name in found)
    assert "fedrap_rounds_total" not in found  # `_total` is for counters
    text = (await api.get("/metrics", True))[1]
    assert not any(player.id.hex() in text for player in players)
    overview = json.loads((await api.get("/admin/v1/overview", True))[1])
    assert overview["rounds"][0]["refused"] == {"too-soon": 1, "stale-model": 1}
    assert overview["rounds"][1]["closed_at"] >= overview["rounds"][1]["opened_at"]
    assert not any(player.id.hex() in json.dumps(overview) for player in players)


async def test_metrics_need_a_token_unless_they_are_open(api: AdminClient) -> None:
    assert (await api.get("/metrics"))[0] == 401
    settings = msgspec.structs.replace(small_settings(), admin=AdminApi(port=0, open_metrics=True))
    async with serve(settings, MemoryStore()) as served:
        port = served.app[ADMIN_RUNNER].addresses[0][1]
        async with api.http.get(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.status == 200


async def test_alive_and_ready_are_two_things(api: AdminClient) -> None:
    assert await api.get("/healthz") == (200, '{"status": "ok"}')
    assert await api.get("/readyz") == (200, '{"ready": true}')
    settings = msgspec.structs.replace(small_settings(), admin=AdminApi(port=0))
    async with serve(settings, MemoryStore(), items=[]) as served:  # nothing to serve yet
        url = f"http://127.0.0.1:{served.app[ADMIN_RUNNER].addresses[0][1]}"
        async with api.http.get(url + "/readyz") as answer:
            assert (answer.status, await answer.json()) == (503, {"ready": False})
        async with api.http.get(url + "/healthz") as answer:
            assert answer.status == 200


async def test_a_browser_signs_in_looks_and_may_change_nothing(api: AdminClient) -> None:
    assert (await api.get("/session"))[0] == 401
    assert (await api.get("/events"))[0] == 401
    async with api.http.post(api.url + "/session", json={"token": "no"}) as answer:
        assert answer.status == 401
    async with api.http.post(api.url + "/session", data={"token": api.token}) as answer:
        assert answer.status == 400  # a form of another site
    operator = (await api.admin.add_admin("oto", Role.OPERATOR)).token
    async with api.http.post(api.url + "/session", json={"token": operator}) as answer:
        said = answer.headers["Set-Cookie"]
        assert (answer.status, await answer.json()) == (200, {"name": "oto", "role": "operator"})
    assert "HttpOnly" in said
    assert "SameSite=Strict" in said
    assert operator not in said
    assert (await api.get("/admin/v1/devices"))[0] == 200
    async with api.http.post(api.url + "/admin/v1/tokens", json={"count": 1}) as answer:
        assert answer.status == 401  # with a cookie one can only look
    await api.admin.remove_admin("oto")
    assert (await api.get("/session"))[0] == 401  # the rights are gone, so is the session


async def test_tokens_of_nobody_stand_in_the_audit_and_soon_have_to_wait(api: AdminClient) -> None:
    answers = []
    for number in range(14):
        sent = {"token": f"guess {number}"}
        async with api.http.post(f"{api.url}/session", json=sent) as answer:
            answers.append(answer.status)
    assert answers == [401] * 10 + [429] * 4
    wrong = {"Authorization": "Bearer another guess"}
    async with api.http.get(f"{api.url}/admin/v1/status", headers=wrong) as answer:
        assert (answer.status, "Retry-After" in answer.headers) == (429, True)
    assert (await api.get("/admin/v1/status", True))[0] == 200  # who is known waits for nobody
    tries = [row for row in await api.store.audit_rows(0, 50) if row.entry.action == "sign-in"]
    assert [row.entry.who for row in tries] == ["127.0.0.0/24"] * 10
    assert "guess" not in repr(tries)


async def test_the_stream_sends_the_document_at_once_and_again(api: AdminClient) -> None:
    headers = {"Authorization": f"Bearer {api.token}"}
    async with api.http.get(api.url + "/events", headers=headers) as answer:
        assert answer.content_type == "text/event-stream"
        first = json.loads((await answer.content.readuntil(b"\n\n"))[6:])
        assert (first["round"]["accepted"], first["devices"]["total"]) == (0, 0)
        await (await api.served.player()).join()
        await api.served.app[MONITOR].look()
        second = json.loads((await answer.content.readuntil(b"\n\n"))[6:])
        assert second["round"]["accepted"] == 1


def test_a_session_is_ours_and_ends() -> None:
    session = Session(b"i" * 16, 100, b"d" * 32)
    cookie = make_session(b"key", session)
    assert read_session(b"key", cookie, 99.0) == session
    assert read_session(b"key", cookie, 100.0) is None
    assert read_session(b"other", cookie, 99.0) is None
    for spoilt in (
        "",
        ".",
        "..",
        cookie[:-1],
        "9" + cookie,
        cookie.replace("64", "65", 1),
        "é.x.y",
    ):
        assert read_session(b"key", spoilt, 1.0) is None
    assert COOKIE.isascii()


async def test_every_file_of_the_page_is_served_with_a_policy_and_names_no_other_place(
    api: AdminClient,
) -> None:
    assert {path.name for path in WEB.iterdir()} == set(FILES)
    for name in FILES:
        path = "/" if name == "index.html" else f"/{name}"
        async with api.http.get(api.url + path) as answer:
            text = await answer.text()
            assert answer.status == 200
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        for word in ("http://", "https://", "innerHTML", "eval("):
            assert word not in text.replace("http://www.w3.org/2000/svg", ""), (name, word)


@pytest.mark.parametrize("path", ["/../settings.py", "/web/page.js", "/page.py"])
async def test_nothing_else_is_served(api: AdminClient, path: str) -> None:
    assert (await api.get(path))[0] == 404
