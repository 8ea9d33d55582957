"""Devices that take part in rounds of a coordinator that keeps dying, and the records at the end.

Each device touches its own row of C, so the sums show who was counted, and how often. What the
devices were told is held against what the database has: no update that was accepted is lost, none
counted twice, no budget spent twice, and every round goes on to its release.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import sqlalchemy as sa

from fedrap_coordinator.domain.rate_limits import Pace
from fedrap_coordinator.domain.rounds import RoundLimits
from fedrap_coordinator.settings import (
    Enrolment,
    HelperServer,
    Limits,
    Sealing,
    Serve,
    Settings,
    SplitSettings,
)
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store import sql_releases
from fedrap_coordinator.store.engine import open_engine
from fedrap_coordinator.store.migrations import open_schema
from fedrap_coordinator.store.sql_items import add_items
from fedrap_core.plan import Privacy, SequenceMethod, SolveMethod
from fedrap_core.solve.server_step import Learning
from testkit.crash_host import Running, Site
from testkit.load_client import (
    CheapDevice,
    Connection,
    PairDevice,
    Reply,
    http_bytes,
    one_row,
)

DIM = 4
_FREE = Pace(burst=1e9, per_minute=1e9)


def settings_for(url: str, devices: int, rounds: int) -> Settings:
    """Rounds that need every device, and a new sealing key for each of them."""
    return Settings(
        database=url,
        serve=Serve(retry_seconds=0.0),
        limits=Limits(device=_FREE, address=_FREE),
        round=RoundLimits(
            min_updates=devices, max_updates=devices, min_seconds=0, total=rounds,
            over_selection=1.0,
        ),
        method=SolveMethod(dim=DIM, sequence=SequenceMethod(dim=2, taus=(1.0,))),
        privacy=Privacy(clip=30.0, cap=rounds, separation=1),
        learning=Learning(),
        enrolment=Enrolment(wait_steps=0),
        sealing=Sealing(rotate_hours=1e-9),
    )  # fmt: skip


def two_servers(settings: Settings, helper: HelperServer) -> Settings:
    """The same as leader of a pair; steps of .2, so that a device's 1 is a whole number of them."""
    change = msgspec.structs.replace
    rule = change(settings.privacy, clip=31.0)
    return change(settings, privacy=rule, split=SplitSettings(helper=helper, rows=4, peak=0.2))


def prepare(url: str, count: int, *, split: bool = False) -> list[CheapDevice]:
    """A database with a catalogue and these devices, of one server or of two."""
    devices = [
        PairDevice(row, id=row.to_bytes(16, "big"), items=count + 2)
        if split
        else CheapDevice(row, id=row.to_bytes(16, "big"))
        for row in range(count)
    ]
    engine = open_engine(url)
    with engine.begin() as db:
        open_schema(db)
        add_items(db, [f"item-{row}" for row in range(count + 2)])
        rows = [{"id": one.id, "public_key": one.point, "enrolled_at": 0.0} for one in devices]
        db.execute(t.device.insert(), rows)
    engine.dispose()
    return devices


@dataclass
class Walk:
    """Devices that do not give up. `revive` gives a coordinator that lives, and counts deaths."""

    devices: list[CheapDevice]
    revive: Callable[[], Running]
    accepted: set[tuple[bytes, bytes]] = field(default_factory=set)  # round, device: as told
    deaths: int = 0
    _connection: Connection | None = None

    async def run(self, rounds: int) -> None:
        """Every device takes part in every round, one after the other."""
        for step in range(1, rounds + 1):
            for device in self.devices:
                await self._take_part(device, step)
        self._hang_up()

    async def _take_part(self, device: CheapDevice, step: int) -> None:
        kept: tuple[bytes, bytes] | None = None  # as the outbox of the SDK would have it
        for _ in range(5000):
            if kept is None:
                reply = await self._send(lambda: device.asks(step))
                if reply.status == 200:
                    offer = device.offer_in(reply.body)
                    if offer.step != step:
                        raise AssertionError(f"step {offer.step} came before {step} was counted")
                    kept = offer.round, device.sealed(offer, one_row(device.number, DIM))
                else:
                    await asyncio.sleep(0.002)
                continue
            round_id, body = kept
            reply = await self._send(lambda: device.sends(round_id, body))  # noqa: B023
            if reply.status == 200:
                self.accepted.add((round_id, device.id))
                return
            if reply.status < 500 and reply.problem != "replayed":
                raise AssertionError(f"an update was refused: {reply.body!r}")
        raise AssertionError(f"device {device.number} found no end of step {step}")

    async def _send(self, request: Callable[[], bytes]) -> Reply:
        """Until somebody answers; each time with a fresh nonce."""
        while True:
            try:
                if self._connection is None:
                    self._connection = Connection("127.0.0.1", self.revive().port)
                return await self._connection.send(request())
            except (OSError, EOFError):
                self.deaths += 1
                self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


async def until_released(rounds: int, revive: Callable[[], Running]) -> None:
    """Until the last round is released, however often the coordinator dies over it."""
    for _ in range(20_000):
        connection = Connection("127.0.0.1", revive().port)
        try:
            reply = await connection.send(http_bytes("/v1/privacy", b"", "", "GET"))
            if json.loads(reply.body)["rounds"]["released"] == rounds:
                return
        except (OSError, EOFError):
            continue
        finally:
            connection.close()
        await asyncio.sleep(0.005)
    raise AssertionError("the round did not go on")


def check_records(site: Site, walk: Walk, rounds: int) -> None:
    """Hold what devices were told against what the database and the sums have.

    Raises:
        AssertionError: something is lost, or twice.
    """
    engine = open_engine(site.settings.database)
    with engine.connect() as db:
        phases = {bytes(row.id): row for row in db.execute(t.round_.select())}
        stored = {
            (bytes(row.round_id), bytes(row.device_id)) for row in db.execute(t.update.select())
        }
        charged = list(db.scalars(sa.select(t.device.c.participations)))
        releases = list(db.scalars(sa.select(t.release.c.version)))
        states = [version for version in releases if sql_releases.learner(db, version)]
    engine.dispose()
    kept = site.settings.releases.keep_states
    # A state more stays where the process died between a release and the cleaning up after it.
    last = sorted(releases)[-kept:]
    _same(sorted(states)[-kept:], last, "the last releases have the state of their learner")
    steps = sorted(row.step for row in phases.values() if row.phase == "released")
    _same(steps, list(range(1, rounds + 1)), "each step is released once")
    _same(walk.accepted - stored, set(), "no accepted update is lost")
    _same(set(charged), {rounds}, "no budget is spent twice")
    released = {one for one, row in phases.items() if row.phase == "released"}
    _same({pair[0] for pair in walk.accepted}, released, "rounds with accepted updates go on")
    everybody = [[device.number, 1.0] for device in walk.devices]
    sums: dict[int, list[object]] = {}
    for line in site.sums.read_text().splitlines():
        total = json.loads(line)
        sums.setdefault(total["step"], []).append(total["cells"])
    _same(sorted(sums), list(range(1, rounds + 1)), "each step is summed")
    for step, attempts in sums.items():
        for cells in attempts:
            _same(cells, everybody, f"everybody is counted once in step {step}")


def _same(found: object, expected: object, invariant: str) -> None:
    if found != expected:
        raise AssertionError(f"{invariant}: {found!r} is not {expected!r}")
