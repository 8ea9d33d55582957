"""The coordinator of a scenario: in this process on any clock, or a process that can be killed.

Both are the product. The checker reads the database from outside, with the store's own verbs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import aiohttp
import msgspec
import tomli_w
from aiohttp import web

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.catalogue_actions import CatalogueActions
from fedrap_coordinator.admin.rollout_actions import RolloutActions
from fedrap_coordinator.app import create_app
from fedrap_coordinator.http.device_api import COORDINATOR, REGISTRY
from fedrap_coordinator.identity.enrolment import Registry
from fedrap_coordinator.keyring import Keyring, open_keyring
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store import engine
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.protocol import Store
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.errors import FedRapError
from fedrap_core.wire.authority import read_entry
from fedrap_core.wire.keys import new_private_key
from fedrap_simulation.scenarios.network import Exchange, InProcess

START_SECONDS = 60.0


class CoordinatorHost(Protocol):
    """A running coordinator."""

    wire: Exchange | str  # what a transport speaks to
    session: aiohttp.ClientSession | None
    keyring: Keyring

    async def start(self, items: Sequence[str]) -> None:
        """Serve, with these items in the catalogue."""

    async def tokens(self, count: int) -> list[str]:
        """Enrolment tokens."""

    async def add_items(self, items: Sequence[str]) -> None:
        """More items."""

    async def retire_items(self, items: Sequence[str]) -> None:
        """Items that are no longer shown."""

    async def look(self) -> Store:
        """The database."""

    async def crash(self, down: float) -> None:
        """kill -9, and a new start after some seconds."""

    async def back_up(self) -> None:
        """Copy the database, as an operator does every night."""

    async def restore(self) -> None:
        """Lose the database, put the last copy in its place, and go on as the guide says."""

    async def succeed(self, settings: Settings) -> None:
        """`task next` and a restart: a successor by these settings is learnt from now on."""

    async def switch(self) -> None:
        """`task switch`: the successor is everybody's."""

    async def close(self) -> None:
        """End it."""


class InProcessCoordinator:
    """create_app of the product, without a socket, on whatever clock the loop has."""

    def __init__(
        self,
        settings: Settings,
        sources: Sources,
        noise: bytes,
        tick: float,
        folder: Path | None = None,
    ) -> None:
        """With a `folder` the database is a file there, which can be lost and put back.

        Nobody pulls a plug in this process, so that nothing has to wait for a disk.
        """
        engine.SYNCHRONOUS = "OFF"
        self._settings, self._sources, self._tick, self._folder = settings, sources, tick, folder
        self._store: Store = MemoryStore() if folder is None else SqlStore(self._url)
        self.keyring = Keyring(new_private_key(), noise)
        self._entrance = InProcess()
        self._driver: asyncio.Task[None] | None = None
        self.wire: Exchange | str = self._entrance
        self.session: aiohttp.ClientSession | None = None

    @property
    def _url(self) -> str:
        assert self._folder is not None
        return f"sqlite:///{self._folder / 'coordinator.sqlite'}"

    async def start(self, items: Sequence[str]) -> None:
        await self._store.open()
        app = await self._serve()
        await app[COORDINATOR].add_items(items)

    async def _serve(self) -> web.Application:
        app = create_app(self._settings, self._store, self.keyring, self._sources)
        app.freeze()
        await app[COORDINATOR].start()
        self._driver = asyncio.create_task(app[COORDINATOR].run(tick=self._tick))
        self._entrance.app = app
        return app

    async def tokens(self, count: int) -> list[str]:
        made = [self._sources.token_bytes(12).hex() for _ in range(count)]
        assert self._entrance.app is not None
        await self._entrance.app[REGISTRY].add_tokens(made)
        return made

    async def add_items(self, items: Sequence[str]) -> None:
        assert self._entrance.app is not None
        await self._entrance.app[COORDINATOR].add_items(items)

    async def retire_items(self, items: Sequence[str]) -> None:
        await self._store.retire_items(items)

    async def look(self) -> Store:
        return self._store

    async def crash(self, down: float) -> None:
        raise FedRapError("a coordinator in this process cannot be killed")

    async def back_up(self) -> None:
        engine.copy_database(self._url, self._copy)

    async def restore(self) -> None:
        await self.close()
        await self._store.close()
        assert self._folder is not None
        for old in self._folder.glob("coordinator.sqlite*"):
            old.unlink()
        self._copy.rename(self._folder / "coordinator.sqlite")
        self._store = SqlStore(self._url)
        await self._store.open()
        task = await self._store.task_id(bytes(16))
        last = read_entry(self.keyring.last_entry(task))
        await CatalogueActions(self._admin()).recover(last.version, self.keyring.last_step(task))
        await self._serve()

    async def succeed(self, settings: Settings) -> None:
        self._settings = settings
        await RolloutActions(self._admin()).begin_successor()
        await self.close()
        await self._serve()

    async def switch(self) -> None:
        await RolloutActions(self._admin()).promote()

    def _admin(self) -> AdminActions:
        return AdminActions(
            self._store, self._settings, self._sources, "scenario", keyring=self.keyring
        )

    @property
    def _copy(self) -> Path:
        assert self._folder is not None
        return self._folder / "backup.sqlite"

    async def close(self) -> None:
        app, self._entrance.app = self._entrance.app, None
        if app is not None and self._driver is not None:
            self._driver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._driver
            await app[COORDINATOR].stop()


class CoordinatorProcess:
    """`fedrap-coordinator serve` on a port of loopback, with SQLite and keys in `folder`."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        port = _free_port()
        serve = msgspec.structs.replace(settings.serve, host="127.0.0.1", port=port)
        database = settings.database
        if database == Settings().database:
            database = f"sqlite:///{folder / 'coordinator.sqlite'}"
        self._settings = msgspec.structs.replace(
            settings, serve=serve, database=database, keys=str(folder / "keys")
        )
        self._folder = folder
        self.wire: Exchange | str = f"http://127.0.0.1:{port}"
        self.session: aiohttp.ClientSession | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._store: SqlStore | None = None

    async def start(self, items: Sequence[str]) -> None:
        config = self._folder / "fedrap.toml"
        config.write_text(tomli_w.dumps(_plain(msgspec.to_builtins(self._settings))), "utf-8")
        self.keyring = open_keyring(Path(self._settings.keys))
        self._store = SqlStore(self._settings.database)
        await self._store.open()
        await self._store.add_items(items)
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        await self._serve()

    async def _serve(self) -> None:
        log = (self._folder / "coordinator.log").open("ab")
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "fedrap_coordinator",
                "--config", str(self._folder / "fedrap.toml"), "serve",
                stdout=log, stderr=log, env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"},
            )  # fmt: skip
        finally:
            log.close()
        assert self.session is not None
        for _ in range(int(START_SECONDS * 20)):
            if self._process.returncode is not None:
                raise FedRapError(f"the coordinator ended; see {self._folder / 'coordinator.log'}")
            try:
                async with self.session.get(f"{self.wire}/healthz") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
        raise FedRapError("the coordinator did not come up")

    async def tokens(self, count: int) -> list[str]:
        made = [secrets.token_urlsafe(12) for _ in range(count)]
        assert self._store is not None
        await Registry(self._store, lambda: 0.0).add_tokens(made)
        return made

    async def add_items(self, items: Sequence[str]) -> None:
        assert self._store is not None
        await self._store.add_items(items)

    async def retire_items(self, items: Sequence[str]) -> None:
        assert self._store is not None
        await self._store.retire_items(items)

    async def look(self) -> Store:
        assert self._store is not None
        self.keyring.refresh()
        return self._store

    async def crash(self, down: float) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
        await asyncio.sleep(down)
        await self._serve()

    async def back_up(self) -> None:
        raise FedRapError("a scenario copies databases of a coordinator in this process only")

    async def restore(self) -> None:
        raise FedRapError("a scenario restores databases of a coordinator in this process only")

    async def succeed(self, settings: Settings) -> None:
        raise FedRapError("a scenario has successions of a coordinator in this process only")

    async def switch(self) -> None:
        raise FedRapError("a scenario has successions of a coordinator in this process only")

    async def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()
        if self.session is not None:
            await self.session.close()
        if self._store is not None:
            await self._store.close()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _plain(tree: object) -> dict[str, object]:
    """The settings without what TOML has no word for."""
    assert isinstance(tree, dict)
    return {
        key: _plain(value) if isinstance(value, dict) else value
        for key, value in tree.items()
        if value is not None
    }
