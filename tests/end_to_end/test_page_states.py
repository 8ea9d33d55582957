"""The operator's page never lies: outage, full disk, learning stopped, task over, recovery, age.

Each state is photographed into FEDRAP_PICTURES, where that is set.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.catalogue_actions import CatalogueActions
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.app import ADMIN_RUNNER
from fedrap_coordinator.errors import StoreGone
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.settings import AdminApi
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.memory import MemoryStore
from testkit.browser import PHONE, need_chromium, open_browser, picture
from testkit.harness import PATIENCE, LiveServer, one_cell, serve, small_settings
from tests.end_to_end.test_operator_page import Site, sign_in, text


class Breakable:
    """A store that answers as long as a test lets it; reads go on where only the disk is full."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner = inner
        self.broken = ""  # what the database says
        self.reads_work = False

    @property
    def serves(self) -> bool:
        return not self.broken

    @property
    def trouble(self) -> str:
        return self.broken

    READS = frozenset({
        "admin_of", "session_ended", "rounds", "refusals", "release_history", "quality", "extent",
        "progress", "device_states", "counts", "items", "release", "catalogue", "categories",
    })  # fmt: skip

    def __getattr__(self, name: str) -> object:
        found = getattr(self._inner, name)
        if not callable(found) or name in ("alone", "charges", "sealed_updates", "close", "open"):
            return found

        def verb(*args: object, **kwargs: object) -> object:
            if self.broken and not (self.reads_work and name in self.READS):
                return _gone(self.broken)
            return found(*args, **kwargs)

        return verb


async def _gone(said: str) -> None:
    raise StoreGone(said)


@asynccontextmanager
async def a_site(total: int = 100, cap: int = 10) -> AsyncIterator[tuple[Site, Breakable]]:
    need_chromium()
    settings = small_settings(updates=2, separation=1, noise=1.0, total=total, cap=cap)
    settings = msgspec.structs.replace(settings, admin=AdminApi(port=0))
    inner, keyring = MemoryStore(), fresh_keyring()
    store = Breakable(inner)
    async with serve(settings, store, keyring) as served:  # type: ignore[arg-type]
        admin = AdminActions(inner, settings, SYSTEM, "test", keyring=keyring)
        token = (await admin.add_admin("ann", Role.VIEWER)).token
        await _rounds(served, 1)
        port = served.app[ADMIN_RUNNER].addresses[0][1]
        yield Site(served, f"http://127.0.0.1:{port}", token, CatalogueActions(admin), admin), store


async def _rounds(served: LiveServer, count: int) -> None:
    for _ in range(count):
        for _ in range(2):
            await (await served.player()).join(one_cell(0))
        await served.app[COORDINATOR].advance()


def wait_for(driver: Chrome, state: str, words: str = "") -> None:
    WebDriverWait(driver, PATIENCE).until(
        lambda d: (
            d.find_element(By.TAG_NAME, "body").get_attribute("data-state") == state
            and words in text(d, "#notice")
        )
    )


def photograph(driver: Chrome, name: str) -> None:
    if folder := os.environ.get("FEDRAP_PICTURES"):
        picture(driver, Path(folder) / f"{name}.png", None if "phone" in name else 900)


async def in_browser(
    site: Site, act: Callable[[Chrome], Awaitable[None]], size: tuple[int, int] = (1280, 900)
) -> None:
    with open_browser(need_chromium(), size) as driver:
        await asyncio.to_thread(sign_in, driver, site)
        await act(driver)


async def test_an_outage_is_said_with_the_age_and_passes_by_itself() -> None:
    async with a_site() as (site, store):

        async def act(driver: Chrome) -> None:
            await asyncio.to_thread(wait_for, driver, "live")
            await asyncio.to_thread(photograph, driver, "live")
            store.broken = "connection refused"
            await asyncio.to_thread(wait_for, driver, "database-away", "does not answer")
            await asyncio.to_thread(wait_for, driver, "database-away", " old")
            await asyncio.to_thread(photograph, driver, "database-away")
            await asyncio.to_thread(driver.refresh)  # what was known is still shown
            await asyncio.to_thread(wait_for, driver, "database-away", " old")
            assert "v2" in text(driver, "#figures")
            store.broken = ""
            await asyncio.to_thread(wait_for, driver, "live")
            assert not driver.find_element(By.ID, "notice").is_displayed()

        await in_browser(site, act)


async def test_a_full_disk_is_told_from_a_database_that_is_away() -> None:
    async with a_site() as (site, store):

        async def act(driver: Chrome) -> None:
            store.broken, store.reads_work = "database or disk is full", True
            await asyncio.to_thread(wait_for, driver, "disk-full", "The disk")
            await asyncio.to_thread(photograph, driver, "disk-full")
            store.broken = ""
            await asyncio.to_thread(wait_for, driver, "live")

        await in_browser(site, act)


async def test_why_learning_stopped_is_said_and_what_would_help() -> None:
    async with a_site(cap=1) as (site, _):

        async def act(driver: Chrome) -> None:
            await asyncio.to_thread(wait_for, driver, "stopped", "2 devices have spent the budget")
            assert "policy change" in text(driver, "#notice")
            await asyncio.to_thread(photograph, driver, "stopped")

        await in_browser(site, act)


async def test_a_task_that_is_over_is_no_fault_and_a_server_that_is_gone_is_one() -> None:
    async with a_site(total=1) as (site, _):

        async def act(driver: Chrome) -> None:
            await asyncio.to_thread(wait_for, driver, "task-over", "All 1 rounds")
            await asyncio.to_thread(photograph, driver, "task-over")
            await site.served.app[ADMIN_RUNNER].cleanup()
            await asyncio.to_thread(wait_for, driver, "unreachable", " old")
            await asyncio.to_thread(photograph, driver, "unreachable")

        await in_browser(site, act)


async def test_a_round_is_looked_into_and_two_releases_are_compared() -> None:
    async with a_site() as (site, _):
        await _rounds(site.served, 2)
        await site.catalogue.note_quality(2, "ndcg@10", 0.1, "")
        await site.catalogue.note_quality(3, "ndcg@10", 0.12, "")

        async def act(driver: Chrome) -> None:
            def look() -> None:
                wait_for(driver, "live")
                driver.execute_script("document.querySelector('button.step').click()")
                WebDriverWait(driver, PATIENCE).until(
                    lambda d: (
                        d.find_elements(By.ID, "detail")
                        and "Summing, learning, publishing" in text(d, "#detail")
                    )
                )
                assert "an update" in text(driver, "#detail") or "–" in text(driver, "#detail")
                assert "Refused while it was open" in text(driver, "#detail")
                assert "Compare" in text(driver, "#compare")
                driver.execute_script(CHOOSE, "Earlier version", "2")
                driver.execute_script(CHOOSE, "Later version", "3")
                WebDriverWait(driver, PATIENCE).until(lambda d: "+0.0200" in text(d, "#compare"))
                assert "Updates in each round, by time" in text(driver, "#history")
                photograph(driver, "looked-into-phone")

            await asyncio.to_thread(look)

        await in_browser(site, act, PHONE)


CHOOSE = """
const box = document.querySelector(`#compare select[aria-label="${arguments[0]}"]`);
box.value = arguments[1];
box.dispatchEvent(new Event("change"));
"""


@pytest.mark.parametrize("size", [PHONE])
async def test_tables_on_a_phone_show_that_they_scroll(size: tuple[int, int]) -> None:
    async with a_site() as (site, _):

        async def act(driver: Chrome) -> None:
            def look(driver: Chrome) -> bool:
                found = driver.execute_script(
                    "return [...document.querySelectorAll('.scroll')].map(box => ["
                    "box.scrollWidth > box.clientWidth + 1,"
                    "getComputedStyle(box).backgroundImage,"
                    "getComputedStyle(box, '::after').content])"
                )
                assert all(shadow.count("linear-gradient") == 4 for _, shadow, _ in found)
                said = all(("swipe" in hint) is wide for wide, _, hint in found)
                return said and any(wide for wide, _, _ in found)

            await asyncio.to_thread(WebDriverWait(driver, PATIENCE).until, look)

        await in_browser(site, act, size)
