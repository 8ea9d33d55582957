"""A helper beside a coordinator: in one process with faults in between, or in its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from fedrap_aggregator.cli import main as aggregator
from fedrap_aggregator.errors import Refusal
from fedrap_aggregator.keys import KeyFolder
from fedrap_aggregator.rounds import HelperRounds
from fedrap_aggregator.settings import Settings as HelperSettings
from fedrap_aggregator.store import Store as HelperStore
from fedrap_coordinator.commands import run as coordinator
from fedrap_coordinator.errors import HelperAway, HelperRefused
from fedrap_coordinator.settings import HelperServer, Settings, SplitSettings
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Message
from fedrap_core.wire.shares import (
    BatchChecked,
    CloseRound,
    OpenRound,
    ReportBatch,
    RoundClosed,
    RoundOpened,
)
from testkit.harness import until

M = TypeVar("M", bound=Message)
A = TypeVar("A", bound=Message)


class Crash(BaseException):
    """A kill -9 at a fault point: nothing after it happens."""


@dataclass
class LocalHelper:
    """The real helper in this process; what lies between is whatever a test wants of it.

    `faults` says what becomes of the next calls: "cut" before it arrives, "lost" after it was
    answered, "doubled" arrives twice, and the name of a fault point kills the helper there.
    """

    folder: Path
    least: int = 2
    noise: float = 0.0
    clock: Callable[[], float] = time.time
    faults: list[str] = field(default_factory=list)
    planned: dict[str, str] = field(default_factory=dict)  # by kind of message, once
    calls: list[str] = field(default_factory=list)
    seen: list[Message] = field(default_factory=list)  # all that a curious helper has
    rounds: HelperRounds = field(init=False)
    _store: HelperStore | None = None
    _kill_at: str = ""

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.start()

    @property
    def keys(self) -> KeyFolder:
        """Its secrets."""
        return KeyFolder(self.folder / "helper-keys", make=True)

    @property
    def identity(self) -> str:
        """What apps pin."""
        return self.keys.pin

    def start(self) -> None:
        """As after a crash: all that it knows comes from its disk."""
        if self._store is not None:
            self._store.close()
        self._store = HelperStore(self.folder / "helper.sqlite")
        settings = HelperSettings(name="a partner", least=self.least, noise=self.noise)
        self.rounds = HelperRounds(
            settings, self._store, self.keys, self.clock, os.urandom, self._reached
        )

    def close(self) -> None:
        """Give its database back."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _reached(self, point: str) -> None:
        if point == self._kill_at:
            self._kill_at = ""
            raise Crash(point)

    async def open_round(self, asked: OpenRound) -> RoundOpened:
        return await self._call(asked, OpenRound, self._open, RoundOpened)

    async def check_batch(self, batch: ReportBatch) -> BatchChecked:
        return await self._call(batch, ReportBatch, self._batch, BatchChecked)

    async def close_round(self, asked: CloseRound, share_bytes: int) -> RoundClosed:
        return await self._call(asked, CloseRound, self._close, RoundClosed)

    def _open(self, asked: OpenRound) -> RoundOpened:
        return self.rounds.open_round(asked)

    def _batch(self, batch: ReportBatch) -> BatchChecked:
        return self.rounds.check_batch(batch)

    def _close(self, asked: CloseRound) -> RoundClosed:
        return self.rounds.close_round(asked)

    async def _call(self, message: M, kind: type[M], verb: Callable[[M], A], answer: type[A]) -> A:
        fault = self.faults.pop(0) if self.faults else self.planned.pop(kind.__name__, "")
        self.calls.append(kind.__name__)
        if fault == "cut":
            raise HelperAway("the network is cut")
        if fault.startswith("helper:"):
            self._kill_at = fault
        self.seen.append(message)
        sent = encode(message)
        try:
            for _ in range(2 if fault == "doubled" else 1):
                found = await asyncio.to_thread(verb, decode(kind, sent))
        except Refusal as refusal:
            raise HelperRefused(refusal.problem, refusal.detail) from refusal
        except Crash as crash:
            self.start()
            raise HelperAway(f"killed at {crash}") from crash
        if fault == "lost":
            raise HelperAway("the answer was lost")
        return decode(answer, encode(found), 1 << 30)


def with_split(settings: Settings, identity: str, *, rows: int = 8, url: str = "") -> Settings:
    """The same coordinator as leader of a pair."""
    helper = HelperServer(url=url or "https://helper.invalid", identity=identity)
    split = SplitSettings(helper=helper, rows=rows)
    return msgspec.structs.replace(settings, split=split)


@dataclass
class HelperProcess:
    """`fedrap-aggregator serve` as a process of its own, over mTLS."""

    folder: Path
    port: int
    monitor: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until it is healthy."""
        with (self.folder / "helper.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fedrap_aggregator", "serve",
                 "--config", str(self.folder / "helper.toml")],
                stderr=log, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
        until(self.health)

    def health(self) -> dict[str, object] | None:
        """What its monitor says; None where it is away."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/healthz") as answer:
                found: dict[str, object] = json.load(answer)
                return found
        except OSError:
            return None

    def metrics(self) -> str:
        """As a scraper reads them."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/metrics") as answer:
            return bytes(answer.read()).decode()

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @property
    def identity(self) -> str:
        """What apps pin."""
        return KeyFolder(self.folder / "helper-keys").pin

    def server(self) -> HelperServer:
        """How the leader reaches it."""
        return HelperServer(
            url=f"https://127.0.0.1:{self.port}",
            identity=self.identity,
            certificate=str(self.folder / "helper.pem"),
            own_certificate=str(self.folder / "leader.pem"),
            own_key=str(self.folder / "keys" / "leader.key"),
        )


@contextlib.contextmanager
def helper_process(folder: Path, least: int = 2) -> Iterator[HelperProcess]:
    """Set up as the docs say, with both sides' certificates, and served."""
    port, monitor = _free_port(), _free_port()
    config = folder / "helper.toml"
    init = ["init", "--config", str(config), "--name", "a partner", "--port", str(port)]
    assert aggregator([*init, "--listen", "127.0.0.1"]) == 0
    assert coordinator(["--config", str(folder / "fedrap.toml"), "helper", "certificate"]) == 0
    text = config.read_text(encoding="utf-8")
    text = text.replace("monitor_port = 9471", f"monitor_port = {monitor}")
    config.write_text(text.replace("least = 20", f"least = {least}"), encoding="utf-8")
    helper = HelperProcess(folder, port, monitor)
    helper.start()
    try:
        yield helper
    finally:
        if helper.process is not None and helper.process.poll() is None:
            helper.process.terminate()
            helper.process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
