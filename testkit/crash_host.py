"""A coordinator in a process of its own that dies where it is told to: kill -9, nothing cleaned up.

Tests and `make soak` walk the fault points of the coordinator with it. The function that
learns from a sum is wrapped, so that every sum is written down before it is used.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import socket
from collections.abc import Awaitable
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from aiohttp import web

from fedrap_coordinator.app import create_app, usual_aggregator
from fedrap_coordinator.domain.fault_points import Reached
from fedrap_coordinator.http.helper_client import HelperClient
from fedrap_coordinator.http.limits import make_runner
from fedrap_coordinator.keyring import open_keyring
from fedrap_coordinator.rounds import driver
from fedrap_coordinator.rounds.driver import Learn
from fedrap_coordinator.rounds.releases import Model, next_model
from fedrap_coordinator.rounds.split_aggregator import Helper
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store import engine
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.solve.server_step import RoundSum
from fedrap_core.wire.shares import (
    BatchChecked,
    CloseRound,
    OpenQuestion,
    OpenRound,
    ReportBatch,
    RoundClosed,
    RoundOpened,
)

A = TypeVar("A")
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["testkit.crash_host", "testkit.load_client"])


@dataclass(frozen=True)
class Fault:
    """Die when `point` is reached for the `nth` time; without a point, at the nth of any.

    Of several processes of one site that have a fault for `one` of them, the first dies of it.
    """

    point: str | None
    nth: int
    one: bool = False


@dataclass(frozen=True)
class Site:
    """Where a coordinator lives: its settings, and a folder for keys, sums and the trace."""

    settings: Settings
    folder: Path

    @property
    def sums(self) -> Path:
        """One line for each sum that was learnt from: step, devices, rows, first numbers."""
        return self.folder / "sums"

    @property
    def whole(self) -> Path:
        """A folder for whole sums, one file for each step; whoever wants them makes it."""
        return self.folder / "whole"

    @property
    def trace(self) -> Path:
        """One line for each fault point that was reached."""
        return self.folder / "trace"


@dataclass
class Running:
    """A coordinator that serves on `port` until it dies."""

    process: BaseProcess
    port: int

    @property
    def alive(self) -> bool:
        """Is it?"""
        return self.process.is_alive()

    def kill(self) -> None:
        """kill -9, and wait for it."""
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()


def start(site: Site, fault: Fault | None = None, synchronous: str = "FULL") -> Running | None:
    """A coordinator that serves; None when it died before it did."""
    here, there = _context.Pipe()
    raw = msgspec.json.encode(site.settings)
    process = _context.Process(
        target=_serve, args=(raw, str(site.folder), fault, synchronous, there), daemon=True
    )
    process.start()
    there.close()
    try:
        return Running(process, int(here.recv()))
    except EOFError:
        process.join()
        return None
    finally:
        here.close()


def _serve(
    raw: bytes, folder: str, fault: Fault | None, synchronous: str, ready: Pipe[Any, Any]
) -> None:
    site = Site(msgspec.json.decode(raw, type=Settings), Path(folder))
    engine.SYNCHRONOUS = synchronous
    driver.HELPER_RETRY_SECONDS = 0.05
    asyncio.run(_run(site, _Death(site, fault), ready))


async def _run(site: Site, death: _Death, ready: Pipe[Any, Any]) -> None:
    keyring = open_keyring(site.folder / "keys")
    store = SqlStore(site.settings.database, death.reached)
    aggregator = None
    if site.settings.split is not None:
        told = _Told(HelperClient(site.settings.split.helper), death.reached)
        aggregator = usual_aggregator(site.settings, keyring, told)
    app = create_app(
        site.settings, store, keyring, aggregator=aggregator, learn=_writing_sums(site),
        reached=death.reached,
    )  # fmt: skip
    runner = make_runner(app)
    await runner.setup()
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    await web.SockSite(runner, listening).start()
    ready.send(listening.getsockname()[1])
    await asyncio.Event().wait()


class _Told:
    """The helper over the network, with a fault point before and after each call of it."""

    def __init__(self, helper: Helper, reached: Reached) -> None:
        self._helper, self._reached = helper, reached

    async def open_round(self, asked: OpenRound) -> RoundOpened:
        return await self._told("round", self._helper.open_round(asked))

    async def open_question(self, asked: OpenQuestion) -> RoundOpened:
        return await self._told("question", self._helper.open_question(asked))

    async def check_batch(self, batch: ReportBatch) -> BatchChecked:
        return await self._told("batch", self._helper.check_batch(batch))

    async def close_round(self, asked: CloseRound, share_bytes: int) -> RoundClosed:
        return await self._told("close", self._helper.close_round(asked, share_bytes))

    async def _told(self, verb: str, call: Awaitable[A]) -> A:
        self._reached(f"helper asked: {verb}")
        answer = await call
        self._reached(f"helper answered: {verb}")
        return answer


class _Death:
    """Counts fault points, and kills this process at one of them."""

    def __init__(self, site: Site, fault: Fault | None) -> None:
        self._fault, self._taken = fault, site.folder / "fault-taken"
        self._left = 0 if fault is None else fault.nth
        self._trace = os.open(site.trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def reached(self, point: str) -> None:
        os.write(self._trace, point.encode() + b"\n")
        if self._fault is None or self._fault.point not in (None, point):
            return
        self._left -= 1
        if self._left == 0 and (not self._fault.one or self._is_first()):
            os.kill(os.getpid(), signal.SIGKILL)

    def _is_first(self) -> bool:
        try:
            self._taken.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def _writing_sums(site: Site) -> Learn:
    """The product's learning step, with every sum written down before it is used."""

    def learn(task: bytes, model: Model, total: RoundSum, *rest: Any) -> Model:
        cells = [[int(row), round(float(cell), 4)] for row, cell in zip(
            total.rows, total.values[:, 0], strict=True)]  # fmt: skip
        line = {"step": model.stored.step + 1, "devices": total.devices, "cells": cells}
        with site.sums.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if site.whole.is_dir():
            np.savez(site.whole / f"{line['step']}.npz", rows=total.rows, values=total.values,
                     gram=total.packed_gram, devices=total.devices)  # fmt: skip
        return next_model(task, model, total, *rest)

    return learn
