"""A helper beside a coordinator in one process, with faults in between."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from fedrap_aggregator.errors import Refusal
from fedrap_aggregator.keys import KeyFolder
from fedrap_aggregator.rounds import HelperRounds
from fedrap_aggregator.settings import Settings as HelperSettings
from fedrap_aggregator.store import Store as HelperStore
from fedrap_coordinator.errors import HelperAway, HelperRefused
from fedrap_coordinator.settings import HelperServer, Settings, SplitSettings
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Message
from fedrap_core.wire.shares import (
    BatchChecked,
    CloseRound,
    OpenQuestion,
    OpenRound,
    ReportBatch,
    RoundClosed,
    RoundOpened,
)

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

    async def open_question(self, asked: OpenQuestion) -> RoundOpened:
        return await self._call(asked, OpenQuestion, self._question, RoundOpened)

    async def check_batch(self, batch: ReportBatch) -> BatchChecked:
        return await self._call(batch, ReportBatch, self._batch, BatchChecked)

    async def close_round(self, asked: CloseRound, share_bytes: int) -> RoundClosed:
        return await self._call(asked, CloseRound, self._close, RoundClosed)

    def _open(self, asked: OpenRound) -> RoundOpened:
        return self.rounds.open_round(asked)

    def _question(self, asked: OpenQuestion) -> RoundOpened:
        return self.rounds.open_question(asked)

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
