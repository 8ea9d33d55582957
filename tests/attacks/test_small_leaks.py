"""Small things that an audit of version 0.1 found open, one by one."""

from __future__ import annotations

import gzip
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest
from aiohttp.test_utils import make_mocked_request

from fedrap_coordinator.http import dashboard
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.http.limits import RequestLimits
from fedrap_coordinator.settings import Limits, Settings
from fedrap_coordinator.store.engine import copy_database
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.plan import Adapt
from fedrap_core.privacy.mechanisms import adapted_clip
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Catalogue
from testkit.harness import ITEMS, serve, small_settings


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
