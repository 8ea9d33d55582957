"""The page of one of several tasks in a real Chromium: below a path, leading to the others."""

from __future__ import annotations

import asyncio
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.sources import SYSTEM
from testkit.browser import need_chromium, open_browser
from testkit.harness import PATIENCE, small_settings
from testkit.several import serve_several, settings_of_tasks


def visit(driver: Chrome, token: str) -> str:
    """Sign in where the browser is; the task that the foot names."""
    wait = WebDriverWait(driver, PATIENCE)
    wait.until(lambda d: d.find_element(By.ID, "token").is_displayed())
    driver.find_element(By.ID, "token").send_keys(token)
    driver.find_element(By.CSS_SELECTOR, "#door button").click()
    wait.until(lambda d: d.find_element(By.TAG_NAME, "body").get_attribute("data-drawn"))
    return str(wait.until(lambda d: d.find_element(By.ID, "foot").text))


async def test_the_pages_of_two_tasks_lead_to_each_other(tmp_path: Path) -> None:
    where = need_chromium()
    wanted = {name: small_settings(updates=2) for name in ("main", "music")}
    settings = settings_of_tasks(wanted, f"sqlite:///{tmp_path / 'c.sqlite'}", tmp_path / "keys")
    async with serve_several(settings) as several:
        tokens, ids = {}, {}
        for name, one in several.tasks.items():
            admin = AdminActions(one.app[COORDINATOR].store, settings[name], SYSTEM, "test")
            tokens[name] = (await admin.add_admin("ann", Role.VIEWER)).token
            ids[name] = one.app[COORDINATOR].task.hex()[:8]

        def look() -> None:
            with open_browser(where) as driver:
                driver.get(f"{several.admin}/t/music")  # without the slash
                assert ids["music"] in visit(driver, tokens["music"])
                links = driver.find_elements(By.CSS_SELECTOR, "#tasks a")
                assert [one.text for one in links] == ["main", "music"]
                assert links[1].get_attribute("aria-current") == "page"
                links[0].click()  # the session of the one is none of the other
                assert ids["main"] in visit(driver, tokens["main"])
                assert driver.current_url == f"{several.admin}/"
                driver.find_elements(By.CSS_SELECTOR, "#tasks a")[1].click()
                wait = WebDriverWait(driver, PATIENCE)
                wait.until(lambda d: ids["music"] in d.find_element(By.ID, "foot").text)

        await asyncio.to_thread(look)
