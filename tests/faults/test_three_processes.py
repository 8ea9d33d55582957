"""Three coordinators on one PostgreSQL share rounds under load; one of them is killed midway."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import sqlalchemy as sa

from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.engine import open_engine
from fedrap_core.wire.messages import Offer
from testkit.crash_host import Running, Site, start
from testkit.crash_walk import DIM, prepare, settings_for
from testkit.load_client import CheapDevice, Connection, Reply, one_row
from testkit.postgres import postgres_url

DEVICES, COHORT, ROUNDS = 40, 16, 6


def _settings(url: str) -> Settings:
    plain = settings_for(url, COHORT, ROUNDS)
    limits = msgspec.structs.replace(plain.round, over_selection=1.5)
    rule = msgspec.structs.replace(plain.privacy, separation=2)
    return msgspec.structs.replace(plain, round=limits, privacy=rule)


@dataclass
class Balancer:
    """Sends each request to the next process that lives."""

    processes: list[Running]
    _turn: itertools.count[int] = field(default_factory=itertools.count)

    async def send(self, device: CheapDevice, request: bytes) -> Reply | None:
        """None when the process died over it."""
        alive = [one for one in self.processes if one.alive]
        chosen = alive[next(self._turn) % len(alive)]
        connection = Connection("127.0.0.1", chosen.port)
        try:
            return await connection.send(request)
        except (OSError, EOFError):
            return None
        finally:
            connection.close()


@dataclass
class Field:
    """Greedy devices; what they were told is written down."""

    balancer: Balancer
    accepted: set[tuple[bytes, bytes]] = field(default_factory=set)
    over: bool = False

    async def play(self, device: CheapDevice) -> None:
        release, done = 1, b""
        while not self.over:
            reply = await self.balancer.send(device, device.asks(release, wait=0.5))
            if reply is None:
                continue
            if reply.status == 200:
                offer = device.offer_in(reply.body)
                if offer.round != done:
                    await self._hand_in(device, offer)
                done = offer.round
                await asyncio.sleep(0.01)
            elif reply.problem == "stale-model":
                release = int(json.loads(reply.body)["detail"].split("release ")[1].split(";")[0])
            elif reply.problem in ("task-over", "budget-spent"):
                return
            else:
                assert reply.problem in ("no-round", "too-soon", "replayed"), reply.body
                await asyncio.sleep(0.01)

    async def _hand_in(self, device: CheapDevice, offer: Offer) -> None:
        body = device.sealed(offer, one_row(device.number, DIM))
        while not self.over:
            reply = await self.balancer.send(device, device.sends(offer.round, body))
            if reply is None:
                continue
            if reply.status == 200:
                self.accepted.add((offer.round, device.id))
                return
            if reply.problem == "round-closed":  # asked as one too many
                return
            assert reply.problem in ("unavailable", "replayed"), reply.body


async def test_three_processes_share_rounds_and_one_of_them_dies(tmp_path: Path) -> None:
    url = postgres_url()
    site = Site(_settings(url), tmp_path)
    devices = prepare(url, DEVICES)
    processes = [made for _ in range(3) if (made := start(site)) is not None]
    assert len(processes) == 3
    scene = Field(Balancer(processes))

    async def kill_one() -> None:
        while len(scene.accepted) < COHORT * 5 // 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)  # in the middle of the third round
        await asyncio.to_thread(processes[0].kill)

    try:
        async with asyncio.timeout(600):
            await asyncio.gather(kill_one(), *(scene.play(device) for device in devices))
        assert [one.alive for one in processes] == [False, True, True]
    finally:
        scene.over = True
        for one in processes:
            one.kill()
    _check(site, scene)


def _check(site: Site, scene: Field) -> None:
    engine = open_engine(site.settings.database)
    with engine.connect() as db:
        steps = list(db.scalars(sa.select(t.release.c.step).order_by(t.release.c.step)))
        rounds = {bytes(row.id): row for row in db.execute(t.round_.select())}
        stored = {(bytes(r.round_id), bytes(r.device_id)) for r in db.execute(t.update.select())}
        places = [(bytes(r.round_id), r.device_id) for r in db.execute(t.assignment.select())]
        charged = {
            row.id: row.participations
            for row in db.execute(sa.select(t.device.c.id, t.device.c.participations))
        }
    engine.dispose()
    assert steps == list(range(ROUNDS + 1))  # each step once
    assert len(rounds) == ROUNDS  # and no round had to be tried again
    assert scene.accepted <= stored  # nothing that was accepted is lost
    assert {row.phase for row in rounds.values()} == {"released"}
    for device, times in charged.items():
        assert times == sum(name == device for _, name in places)  # a place is charged once
    by_step: dict[int, list[int]] = {}
    for round_id, device in stored:
        by_step.setdefault(rounds[round_id].step, []).append(int.from_bytes(device, "big"))
    sums = [json.loads(line) for line in site.sums.read_text().splitlines()]
    assert {total["step"] for total in sums} == set(range(1, ROUNDS + 1))
    for total in sums:  # everybody who is stored is counted once, and nobody else
        assert total["devices"] == COHORT
        assert total["cells"] == [[number, 1.0] for number in sorted(by_step[total["step"]])]
    for step in range(2, ROUNDS + 1):
        assert not set(by_step[step]) & set(by_step[step - 1])  # b holds across processes
