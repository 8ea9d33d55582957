"""The dashboard over the demo's population: to look at, or as a picture for the README.

python -m tools.dashboard --picture docs/operator-page.png      (needs Chromium)
python -m tools.dashboard --stay                                (prints address and token)
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
import numpy as np
from aiohttp import web
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from fedrap import FedRap, Floor
from fedrap.transport.http import HttpTransport
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.catalogue_actions import CatalogueActions
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.app import ADMIN_RUNNER, create_app
from fedrap_coordinator.domain.records import NewItem
from fedrap_coordinator.http.device_api import COORDINATOR, REGISTRY
from fedrap_coordinator.http.limits import make_runner
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.settings import AdminApi, Settings
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.sql import SqlStore
from fedrap_simulation.data.synthetic import PlantedPopulation, Shape, make_population
from fedrap_simulation.scenarios.demo import DemoPlan, device_hit_rate, settings_for
from testkit.browser import DESK, PHONE, find_chromium, open_browser, picture

SHELVES = ("Fiction", "History", "Science", "Travel", "Cooking", "Poetry", "Art", "Children")


@dataclass(frozen=True)
class Site:
    """A coordinator with a past, and who may look at it."""

    url: str
    token: str


def shelf_of(row: int, population: PlantedPopulation) -> str:
    """A category that follows from who likes an item: the taste that its chances follow most."""
    likes = population.planted[:, row]
    return SHELVES[int(np.argsort(-likes)[0]) % len(SHELVES)]


@asynccontextmanager
async def past(folder: Path, users: int, rounds: int, seed: int) -> AsyncIterator[Site]:
    """`rounds` rounds of real devices, one release taken back, and a round half full."""
    plan = DemoPlan(shape=Shape(users=users), rounds=rounds + 8, noise=1.0, seed=seed)
    population = make_population(plan.shape, plan.seed)
    base = settings_for(plan, folder, population)
    settings: Settings = msgspec.structs.replace(base, admin=AdminApi(port=0))
    store = SqlStore(settings.database)
    app = create_app(settings, store, fresh_keyring())
    runner = make_runner(app)
    await runner.setup()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        admin = AdminActions(store, settings, SYSTEM, "tool")
        curator = CatalogueActions(admin)
        items = [
            NewItem(name, {"category": shelf_of(row, population), "title": f"Volume {row + 1}"})
            for row, name in enumerate(population.items)
        ]
        await curator.import_items(items)
        await app[COORDINATOR].advance()
        connector = aiohttp.TCPConnector(limit=64)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        devices = await _devices(stack, folder, url, session, app, population)
        for number in range(1, rounds + 1):
            await _play(devices[number % 2 :: 2])
            await app[COORDINATOR].advance()
            if number % 2 == 0:
                await asyncio.gather(*(device.sync_async() for device in devices))
                version = (await store.progress())[1] or 1
                rate = device_hit_rate(devices, population)
                await curator.note_quality(version, "HR@10", rate, "held-out item, demo devices")
            if number == rounds // 2:
                await curator.roll_back(number)  # as if the last release had been a bad one
                await app[COORDINATOR].advance()
        late = devices[(rounds + 1) % 2 :: 2]
        await _play(late[: len(late) * 2 // 3])
        await curator.retire_items(population.items[7:11])
        for device in devices[rounds % 2 :: 2][:6]:  # these took part in the round before
            await device.run_round_async()
        token = (await admin.add_admin("ann", Role.VIEWER)).token
        port = app[ADMIN_RUNNER].addresses[0][1]
        await asyncio.sleep(1.5)
        yield Site(f"http://127.0.0.1:{port}", token)


async def _devices(
    stack: AsyncExitStack,
    folder: Path,
    url: str,
    session: aiohttp.ClientSession,
    app: web.Application,
    population: PlantedPopulation,
) -> list[FedRap]:
    tokens = [secrets.token_urlsafe(16) for _ in range(len(population.histories) + 12)]
    await app[REGISTRY].add_tokens(tokens)
    made = []
    for number, history in enumerate(population.histories):
        transport = HttpTransport(url, session)
        device = FedRap.open(
            folder / f"device-{number}",
            transport=transport,
            token=tokens[number],
            floor=Floor.without_privacy(min_updates=2),
        )
        stack.callback(device.close)
        device.consent(train=True, policy="demo")
        for row in history:
            device.record(population.items[row])
        made.append(device)
    await asyncio.gather(*(device.sync_async() for device in made))
    return made


async def _play(cohort: Sequence[FedRap]) -> None:
    async def join(device: FedRap) -> None:
        for _ in range(50):
            report = await device.run_round_async()
            if report.joined:
                return
            await asyncio.sleep(report.retry_after or 0.05)

    await asyncio.gather(*(join(device) for device in cohort))


def take_pictures(where: tuple[str, str], site: Site, path: Path, every: bool) -> list[Path]:
    """The page as the README shows it; with `every`, also dark and on a phone."""
    wanted = [(path, DESK, False, 1180)]
    if every:
        for device, size in (("", DESK), ("-phone", PHONE)):
            for light, dark in (("-light", False), ("-dark", True)):
                wanted.append((path.with_stem(f"{path.stem}{device}{light}"), size, dark, 0))
    for file, size, dark, height in wanted:
        with open_browser(where, size, dark) as driver:
            driver.get(site.url)
            wait = WebDriverWait(driver, 30)
            wait.until(lambda d: d.find_element(By.ID, "token").is_displayed())
            driver.find_element(By.ID, "token").send_keys(site.token)
            driver.find_element(By.CSS_SELECTOR, "#door button").click()
            wait.until(lambda d: d.find_element(By.TAG_NAME, "body").get_attribute("data-drawn"))
            wait.until(lambda d: d.find_elements(By.CSS_SELECTOR, "#items tr"))
            driver.execute_script("document.activeElement.blur()")
            picture(driver, file, height or None)
    return [file for file, *_ in wanted]


async def run(arguments: argparse.Namespace) -> None:
    """Make the past, then show it."""
    where = find_chromium()
    if arguments.picture and where is None:
        raise SystemExit("no Chromium here: apt install chromium chromium-driver")
    with tempfile.TemporaryDirectory() as folder:
        async with past(Path(folder), arguments.users, arguments.rounds, arguments.seed) as site:
            if arguments.picture:
                assert where is not None
                made = await asyncio.to_thread(
                    take_pictures, where, site, arguments.picture, arguments.every
                )
                print("\n".join(f"wrote {file}" for file in made))
            if arguments.stay:
                print(f"{site.url}\ntoken {site.token}\nCtrl-C ends it", flush=True)
                await asyncio.Event().wait()


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, help="write a PNG of the page")
    parser.add_argument("--every", action="store_true", help="light, dark and phone as well")
    parser.add_argument("--stay", action="store_true", help="serve until Ctrl-C")
    parser.add_argument("--users", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=18)
    parser.add_argument("--seed", type=int, default=7)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
