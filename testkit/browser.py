"""A real Chromium for the dashboard: the machine's own, driven by selenium."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

PHONE = (375, 812)
DESK = (1280, 900)


def find_chromium() -> tuple[str, str] | None:
    """Browser and driver, where the machine has both: apt install chromium chromium-driver."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next((found for name in names if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return None if browser is None or driver is None else (browser, driver)


def need_chromium() -> tuple[str, str]:
    """The same, or the test is skipped with the reason."""
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium here: apt install chromium chromium-driver")
    return found


@contextmanager
def open_browser(
    where: tuple[str, str], size: tuple[int, int] = DESK, dark: bool = False
) -> Iterator[Chrome]:
    """A window of this size that prefers light or dark."""
    options = ChromeOptions()
    options.binary_location = where[0]
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.add_argument("--hide-scrollbars")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(where[1]))
    try:
        driver.set_page_load_timeout(120)
        driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]},
        )
        resize(driver, *size)
        yield driver
    finally:
        driver.quit()


def resize(driver: Chrome, width: int, height: int) -> None:
    """A viewport of exactly these pixels, also narrower than a window may be."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def picture(driver: Chrome, path: Path, height: int | None = None) -> None:
    """The page from its top, whole or so many pixels of it."""
    whole = int(driver.execute_script("return document.documentElement.scrollHeight"))
    width = int(driver.execute_script("return window.innerWidth"))
    resize(driver, width, height or whole)
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    path.write_bytes(base64.b64decode(shot["data"]))
