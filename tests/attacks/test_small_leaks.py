"""Small things that an audit of version 0.1 found open, one by one."""

from __future__ import annotations

import gzip
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import Mock

import aiohttp
import msgspec
import pytest
from aiohttp.test_utils import make_mocked_request

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.app import ADMIN_RUNNER
from fedrap_coordinator.http import dashboard
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.http.limits import RequestLimits
from fedrap_coordinator.keyring import Keyring, fresh_keyring
from fedrap_coordinator.settings import AdminApi, Limits, Settings
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.engine import copy_database
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.plan import Adapt
from fedrap_core.privacy.mechanisms import adapted_clip
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Catalogue
from testkit.harness import ITEMS, serve, small_settings
from testkit.postgres import postgres_url

WITH_ADMINS = msgspec.structs.replace(small_settings(), admin=AdminApi(port=0))


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes_of(path: Path) -> set[int]:
    return {mode_of(one) for one in path.parent.glob(f"{path.name}*")}


async def test_a_database_and_its_backup_are_read_by_their_owner_alone(tmp_path: Path) -> None:
    """0.1: both were 0644."""
    path, old = tmp_path / "fedrap.sqlite", tmp_path / "old.sqlite"
    old.touch(0o644)
    for one in (path, old):
        store = SqlStore(f"sqlite:///{one}")
        await store.open()
        await store.add_items(["a"])
        assert modes_of(one) == {0o600}
        await store.close()
    copy_database(f"sqlite:///{path}", tmp_path / "backup.sqlite")
    assert mode_of(tmp_path / "backup.sqlite") == 0o600


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::7", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("[2001:db8:1:3::1]", "2001:db8:1:3::/64"),
        ("not an address", "not an address"),
    ],
)
def test_of_ipv6_the_network_counts(address: str, counted: str) -> None:
    """0.1 counted each of the 2^64 addresses of a house for itself."""
    limits = RequestLimits(Settings(limits=Limits(proxies=1)), lambda: 0.0)
    request = make_mocked_request("POST", "/v1/enrol", headers={"X-Forwarded-For": address})
    assert limits.address(request) == counted


@pytest.mark.parametrize(
    ("proxies", "said", "secure"),
    [(1, "https", True), (1, "http", False), (0, "https", False), (1, "", False)],
)
def test_a_cookie_is_secure_where_the_browser_came_over_tls(
    proxies: int, said: str, secure: bool
) -> None:
    """0.1 made cookies without `Secure` behind every proxy."""
    settings = Settings(limits=Limits(proxies=proxies))
    app = Mock(__getitem__=lambda _, key: settings)
    request = make_mocked_request("POST", "/session", headers={"X-Forwarded-Proto": said}, app=app)
    assert dashboard._is_secure(request) is secure


def test_an_adapted_clip_has_three_digits() -> None:
    """0.1 published all 53 bits of it."""
    for fitting in (-3.14159, 0.0, 2.71828, 17.0):
        clip = adapted_clip(7.123456789, Adapt(), fitting, 40)
        assert clip == float(f"{clip:.3g}")


async def test_a_catalogue_is_compressed_once_for_all_who_ask() -> None:
    """0.1 compressed it for every GET: a small question, a second of work."""
    async with serve(small_settings(), MemoryStore()) as served:
        url = f"{served.url}/v1/catalogue"
        bodies = []
        for start in (0, 0, 3, len(ITEMS), len(ITEMS) + 5):
            async with served.session.get(f"{url}?start={start}", auto_decompress=False) as answer:
                raw = await answer.read()
                packed = answer.headers.get("Content-Encoding") == "gzip"
                assert packed == (start == 0)
                bodies.append((start, gzip.decompress(raw) if packed else raw, raw))
        assert bodies[0][2] == bodies[1][2]
        for start, body, _ in bodies:
            page = decode(Catalogue, body)
            names = page.items.decode().split("\n")[:-1]
            assert (page.start, page.count, names) == (start, len(names), ITEMS[start:])


async def test_a_new_item_is_in_the_next_catalogue() -> None:
    async with serve(small_settings(), MemoryStore()) as served:
        async with served.session.get(f"{served.url}/v1/catalogue") as answer:
            before = decode(Catalogue, await answer.read())
        await served.app[COORDINATOR].add_items(["brand-new"])
        async with served.session.get(f"{served.url}/v1/catalogue") as answer:
            after = decode(Catalogue, await answer.read())
        assert after.count == before.count + 1
        assert after.version > before.version
        assert after.items.endswith(b"brand-new\n")


@asynccontextmanager
async def admin_process(url: str, keyring: Keyring) -> AsyncIterator[str]:
    """The admin address of one more process over this database and these keys."""
    async with serve(WITH_ADMINS, SqlStore(url), keyring) as served:
        yield f"http://127.0.0.1:{served.app[ADMIN_RUNNER].addresses[0][1]}"


async def signed_in(http: aiohttp.ClientSession, address: str, token: str) -> str:
    """The cookie of a new session."""
    async with http.post(f"{address}/session", json={"token": token}) as answer:
        assert answer.status == 200
        return answer.cookies[dashboard.COOKIE].value


async def looks(http: aiohttp.ClientSession, address: str, cookie: str) -> int:
    """What a thief of this cookie is answered."""
    headers = {"Cookie": f"{dashboard.COOKIE}={cookie}"}
    async with http.get(f"{address}/admin/v1/overview", headers=headers) as answer:
        return answer.status


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_a_cookie_is_dead_after_sign_out_everywhere_and_for_good(
    database: str, tmp_path: Path
) -> None:
    """0.1 only asked the browser to forget it: a copy looked on until it ended by itself."""
    url = f"sqlite:///{tmp_path / 'fedrap.sqlite'}" if database == "sqlite" else postgres_url()
    keyring = fresh_keyring()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        async with admin_process(url, keyring) as one, admin_process(url, keyring) as other:
            store = SqlStore(url)
            await store.open()
            admin = AdminActions(store, WITH_ADMINS, SYSTEM, "test")
            token = (await admin.add_admin("ann", Role.VIEWER)).token
            await store.close()
            stolen, second = [await signed_in(http, one, token) for _ in range(2)]
            assert stolen != second
            assert [await looks(http, place, stolen) for place in (one, other)] == [200, 200]
            headers = {"Cookie": f"{dashboard.COOKIE}={stolen}"}
            async with http.delete(f"{one}/session", headers=headers) as answer:
                assert answer.status == 200
            assert [await looks(http, place, stolen) for place in (one, other)] == [401, 401]
            assert await looks(http, other, second) == 200  # another browser stays signed in
        async with admin_process(url, keyring) as restarted:
            assert await looks(http, restarted, stolen) == 401
            assert await looks(http, restarted, second) == 200


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_what_is_kept_of_ended_sessions_goes_when_they_are_over(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "fedrap.sqlite"
    store = MemoryStore() if kind == "memory" else SqlStore(f"sqlite:///{path}")
    await store.open()
    await store.end_session(b"a" * 16, until=10.0, now=1.0)
    await store.end_session(b"a" * 16, until=10.0, now=2.0)  # signing out twice is no error
    assert await store.session_ended(b"a" * 16)
    assert not await store.session_ended(b"b" * 16)
    await store.end_session(b"b" * 16, until=30.0, now=10.0)
    assert not await store.session_ended(b"a" * 16)  # its cookie has ended by itself
    assert await store.session_ended(b"b" * 16)
    await store.close()
