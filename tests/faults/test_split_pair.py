"""The pair of leader and helper, with a fault in every round: at each point of either, and between.

A leader that dies is started anew on the same database, keys and helper; a helper that dies on its
own disk. Whatever happens, each step is summed from one set, every device counts once in it, and a
sum that has to be made again is the same to the last bit, noise included.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrap import FedRap, Floor
from fedrap.transport.http import HttpTransport
from fedrap_coordinator.app import create_app, usual_aggregator
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.rounds import driver
from fedrap_coordinator.rounds.releases import Model, next_model
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.solve.server_step import RoundSum
from testkit.harness import PATIENCE, LiveServer, serve_app, small_settings, until_async
from testkit.pair import LocalHelper, with_split
from testkit.postgres import postgres_url

BETWEEN = [
    (kind, fault)
    for kind in ("OpenRound", "ReportBatch", "CloseRound")
    for fault in ("cut", "lost", "doubled")
]
OF_HELPER = [
    ("OpenRound", "helper: key made"),
    ("OpenRound", "helper: round kept"),
    ("ReportBatch", "helper: batch kept"),
    ("CloseRound", "helper: summed"),
    ("CloseRound", "helper: sum kept"),
    ("CloseRound", "helper: key destroyed"),
]
OF_LEADER = ["summing", "summed", "learnt", "step claimed"]
DEVICES = 2
FLOOR = Floor(min_updates=2, max_epsilon=1e9, cap=1000, separation=1)


class Killed(asyncio.CancelledError):
    """The leader's process is gone; nothing of it answers any more."""


class Leader:
    """A coordinator that can be killed at a fault point, and what its learning step was given."""

    def __init__(self, url: str, helper: LocalHelper, rounds: int) -> None:
        settings = small_settings(
            updates=DEVICES, total=rounds, separation=1, cap=rounds, noise=1.0
        )
        self.settings = with_split(settings, helper.identity)
        self.url, self.helper, self.keyring = url, helper, fresh_keyring()
        self.kill_at, self.was_killed = "", asyncio.Event()
        self.sums: dict[int, list[RoundSum]] = {}

    def reached(self, point: str) -> None:
        if point == self.kill_at:
            self.kill_at = ""
            self.was_killed.set()
            raise Killed

    def learn(self, task: bytes, model: Model, total: RoundSum, *rest: Any) -> Model:
        self.sums.setdefault(model.stored.step + 1, []).append(total)
        return next_model(task, model, total, *rest)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[LiveServer]:
        self.was_killed.clear()
        app = create_app(
            self.settings, SqlStore(self.url), self.keyring,
            aggregator=usual_aggregator(self.settings, self.keyring, self.helper),
            learn=self.learn, reached=self.reached,
        )  # fmt: skip
        async with serve_app(app) as live:
            yield live


async def released(live: LiveServer, step: int, killed: asyncio.Event) -> bool:
    """Once that step is out, or False when the leader died over it."""
    coordinator = live.app[COORDINATOR]

    def known() -> bool:
        model = coordinator.model
        return killed.is_set() or (model is not None and model.stored.step >= step)

    await until_async(known)
    return not killed.is_set()


async def open_devices(live: LiveServer, folder: Path) -> Callable[[LiveServer], list[FedRap]]:
    tokens = [await live.token() for _ in range(DEVICES)]
    opened: list[FedRap] = []

    def again(now: LiveServer) -> list[FedRap]:
        """The same devices, at the address that the leader has now."""
        for device in opened:
            device.close()
        opened[:] = [
            FedRap.open(
                folder / f"device{n}", transport=HttpTransport(now.url, now.session),
                token=tokens[n], floor=FLOOR,
                aggregation="split", helper=helper_of(folder),
            )
            for n in range(DEVICES)
        ]  # fmt: skip
        return opened

    for n, device in enumerate(again(live)):
        device.consent(train=True, policy="test")
        for item in range(3):
            device.record(f"item-{3 * n + item}")
    return again


def helper_of(folder: Path) -> str:
    return (folder / "pin").read_text()


async def walk(url: str, folder: Path, faults: list[tuple[str, str]]) -> None:
    helper = LocalHelper(folder / "helper")
    (folder / "pin").write_text(helper.identity)
    leader = Leader(url, helper, len(faults))
    step, again, left = 0, None, list(faults)
    helper.planned = dict([left[0]]) if left[0][0] == "OpenRound" else {}
    while left:
        async with leader.serve() as live:
            if again is None:
                again = await open_devices(live, folder)
            devices = again(live)
            while left:
                where, fault = left[0]
                if where == "leader" and step + 1 not in leader.sums:
                    leader.kill_at = fault
                elif where not in ("leader", "OpenRound", "none"):
                    helper.planned = {where: fault}
                step += 1
                for device in devices:
                    await joined(device, step)
                if len(left) > 1 and left[1][0] == "OpenRound":
                    helper.planned.update([left[1]])  # of the round that follows at once
                if not await released(live, step, leader.was_killed):
                    step -= 1
                    left[0] = ("none", "")  # the next leader finishes this step
                    break
                left.pop(0)
            for device in devices:
                device.close()
        if left and left[0][0] == "none":
            async with leader.serve() as live:
                step += 1
                assert await released(live, step, leader.was_killed)
                left.pop(0)
    check(leader, helper, folder, len(faults))
    helper.close()


async def joined(device: FedRap, step: int) -> None:
    """Until this device is in the round; what a fault spoilt is tried again."""
    said = None
    try:
        async with asyncio.timeout(PATIENCE):
            while device.status().rounds < step or device.status().pending:
                said = await device.run_round_async(wait=1.0)
                await asyncio.sleep(0.01)
    except TimeoutError as error:
        raise AssertionError(f"step {step}: {said}") from error


def check(leader: Leader, helper: LocalHelper, folder: Path, steps: int) -> None:
    """One set for each step, all devices in it, and the same numbers whenever they were made."""
    assert sorted(leader.sums) == list(range(1, steps + 1))
    for made in leader.sums.values():
        assert all(one.devices == DEVICES for one in made)
        for again in made[1:]:
            assert np.array_equal(again.values, made[0].values)
            assert np.array_equal(again.packed_gram, made[0].packed_gram)
    first = [made[0].values for made in leader.sums.values()]
    for one, other in itertools.pairwise(first):
        assert not np.array_equal(one, other)  # no noise twice
    db = sqlite3.connect(folder / "helper" / "helper.sqlite")
    closed = db.execute("SELECT step, count FROM closed ORDER BY step").fetchall()
    db.close()
    assert closed == [(step, DEVICES) for step in range(1, steps + 1)]
    assert not list((folder / "helper" / "helper-keys").glob("round-*"))  # all destroyed


FAULTS = [("none", ""), *BETWEEN, *OF_HELPER, *(("leader", point) for point in OF_LEADER)]


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
async def test_a_fault_in_every_round(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "HELPER_RETRY_SECONDS", 0.02)
    url = f"sqlite:///{tmp_path / 'c.sqlite'}" if kind == "sqlite" else postgres_url()
    await walk(url, tmp_path, FAULTS)
