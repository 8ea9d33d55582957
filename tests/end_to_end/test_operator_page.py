"""The operator's page in a real Chromium: sign in, see a round live, search, phone, dark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import pytest_asyncio
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.catalogue_actions import CatalogueActions
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.admin.rollout_actions import RolloutActions
from fedrap_coordinator.app import ADMIN_RUNNER
from fedrap_coordinator.domain.records import NewItem
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.settings import AdminApi
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.memory import MemoryStore
from testkit.browser import PHONE, need_chromium, open_browser
from testkit.harness import PATIENCE, LiveServer, serve, small_settings

SPITEFUL = "<img src=x onerror=document.title='owned'>"


@dataclass
class Site:
    served: LiveServer
    url: str
    token: str
    catalogue: CatalogueActions
    admin: AdminActions


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    need_chromium()
    settings = small_settings(updates=2, separation=1, noise=1.0)
    settings = msgspec.structs.replace(settings, admin=AdminApi(port=0))
    store = MemoryStore()
    keyring = fresh_keyring()
    async with serve(settings, store, keyring) as served:
        admin = AdminActions(store, settings, SYSTEM, "test", keyring=keyring)
        catalogue = CatalogueActions(admin)
        await catalogue.import_items([NewItem("item-1", {"category": "film", "title": SPITEFUL})])
        token = (await admin.add_admin("ann", Role.VIEWER)).token
        for _ in range(2):
            await (await served.player()).join()
        port = served.app[ADMIN_RUNNER].addresses[0][1]
        yield Site(served, f"http://127.0.0.1:{port}", token, catalogue, admin)


def sign_in(driver: Chrome, site: Site) -> None:
    driver.get(site.url)
    wait = WebDriverWait(driver, PATIENCE)
    wait.until(lambda d: d.find_element(By.ID, "token").is_displayed())
    driver.find_element(By.ID, "token").send_keys(site.token)
    driver.find_element(By.CSS_SELECTOR, "#door button").click()
    wait.until(lambda d: d.find_element(By.TAG_NAME, "body").get_attribute("data-drawn"))
    wait.until(lambda d: d.find_elements(By.CSS_SELECTOR, "#items tbody tr"))


def text(driver: Chrome, where: str) -> str:
    """In one call: the page is drawn anew every second."""
    script = "return document.querySelector(arguments[0]).textContent"
    return str(driver.execute_script(script, where))


async def test_an_operator_signs_in_and_sees_the_next_update_come(site: Site) -> None:
    def look(driver: Chrome) -> None:
        driver.get(site.url)
        WebDriverWait(driver, PATIENCE).until(
            lambda d: d.find_element(By.ID, "token").is_displayed()
        )
        driver.find_element(By.ID, "token").send_keys("nobody's")
        driver.find_element(By.CSS_SELECTOR, "#door button").click()
        WebDriverWait(driver, PATIENCE).until(lambda d: "Nobody has" in text(d, "#wrong"))
        sign_in(driver, site)
        WebDriverWait(driver, PATIENCE).until(lambda d: "0 of 2 updates" in text(d, "#round"))
        assert "v2" in text(driver, "#figures")
        assert "spent of" in text(driver, "#privacy svg")
        assert "odds that grow at most" in text(driver, "#privacy")
        assert "released" in text(driver, "#history")
        assert "Not known yet" in text(driver, "#quality")
        assert "may take part now" in text(driver, "#devices")
        cookie = driver.get_cookie("fedrap-session")
        assert cookie is not None
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")

    def wait_for(driver: Chrome, where: str, words: str) -> None:
        WebDriverWait(driver, PATIENCE).until(lambda d: words in text(d, where))

    with open_browser(need_chromium()) as driver:
        await asyncio.to_thread(look, driver)
        await (await site.served.player()).join()
        await asyncio.to_thread(wait_for, driver, "#round", "1 of 2 updates")
        await site.catalogue.note_quality(2, "HR@10", 0.25, "")
        await asyncio.to_thread(wait_for, driver, "#quality", "0.250")
        await RolloutActions(site.admin).start()
        await asyncio.to_thread(wait_for, driver, "#quality", "waitingroll-out of next")
        assert "10 % of devices: waiting, 0 answers" in text(driver, "#quality")
        search = driver.find_element(By.ID, "search")
        await asyncio.to_thread(search.send_keys, "film")
        await asyncio.to_thread(
            WebDriverWait(driver, PATIENCE).until,
            lambda d: len(d.find_elements(By.CSS_SELECTOR, "#items tbody tr")) == 1,
        )
        assert SPITEFUL in text(driver, "#items")  # what a file says stays text
        assert driver.title == "FedRAP coordinator"
        await asyncio.to_thread(driver.find_element(By.ID, "leave").click)
        await asyncio.to_thread(wait_for, driver, "#door", "Sign in")
        assert driver.get_cookie("fedrap-session") is None
        severe = [line for line in driver.get_log("browser") if line["level"] == "SEVERE"]  # type: ignore[no-untyped-call]
        assert [line for line in severe if "401" not in line["message"]] == []


async def test_on_a_phone_in_the_dark_nothing_is_cut_off_and_contrast_holds(site: Site) -> None:
    def look() -> None:
        with open_browser(need_chromium(), PHONE, dark=True) as driver:
            sign_in(driver, site)
            width = driver.execute_script("return document.documentElement.scrollWidth")
            assert width <= PHONE[0]
            assert driver.execute_script(CONTRAST) == []
            names = driver.execute_script(UNNAMED)
            assert names == []

    await asyncio.to_thread(look)


async def test_in_the_light_contrast_holds_too(site: Site) -> None:
    def look() -> None:
        with open_browser(need_chromium()) as driver:
            sign_in(driver, site)
            assert driver.execute_script(CONTRAST) == []

    await asyncio.to_thread(look)


# WCAG 2 AA: every text against the first background behind it that is not transparent.
CONTRAST = """
const linear = (v) => (v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
const luminance = ([r, g, b]) =>
  .2126 * linear(r / 255) + .7152 * linear(g / 255) + .0722 * linear(b / 255);
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const bad = [];
for (const node of document.querySelectorAll("main *, header *")) {
  const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
  if (!own || !node.getClientRects().length) continue;
  if (node.closest("svg") || node.closest(".unseen")) continue;
  let behind = node, ground = [0, 0, 0, 0];
  while (behind) {
    const found = parse(getComputedStyle(behind).backgroundColor);
    if (found.length === 3 || found[3] > 0) { ground = found; break; }
    behind = behind.parentElement;
  }
  const ink = luminance(parse(getComputedStyle(node).color)), paper = luminance(ground);
  const ratio = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
  if (ratio < 4.5) bad.push(`${ratio} ${node.className} ${node.textContent.slice(0, 30)}`);
}
return bad;
"""
# What can be reached by keyboard or read aloud has a name.
UNNAMED = """
const known = "button, input, svg[role=img], [role=region], [role=progressbar]";
return [...document.querySelectorAll(known)]
  .filter((n) => n.getClientRects().length)
  .filter((n) => !(n.textContent.trim() || n.ariaLabel || (n.labels && n.labels.length)))
  .map((n) => n.outerHTML.slice(0, 80));
"""
