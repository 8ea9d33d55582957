"""Everything at once against one coordinator, while honest devices finish their rounds. JSON out.

Idle sockets that announce bodies, bodies that trickle, msgpack bombs, garbage, reconnect storms,
and forged offers and updates, beside 200 honest devices, over loopback. Attackers, devices and the
coordinator share the cores of one machine, so each kind of attacker is held to a rate: the rates,
the machine's load and the coordinator's share of a core are in the output. At the end every update
that was said to be accepted must be in the database, in a released round or the open one.

    python benchmarks/soak_attack.py [--seconds 600] [--devices 200] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import msgspec
import numpy as np

from fedrap_coordinator.domain.rounds import RoundLimits
from fedrap_coordinator.settings import Limits, Serve, Settings
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.engine import open_engine
from fedrap_core.plan import Privacy
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Offer, Signed
from testkit.crash_host import Site, start
from testkit.crash_walk import prepare, settings_for
from testkit.load_client import CheapDevice, Connection, http_bytes, one_row

DIM = 4
COHORT = 50
MEGABYTES = 300  # that the coordinator may take
P99_SECONDS = 1.0  # of an honest request for an offer
PAUSE_SECONDS = (1.0, 3.0)  # of an honest device between two tries: a phone waits for hours
LONGEST_WAIT = 10.0  # that it waits when it is told to come back later
RATES = {"idle": 20.0, "slow": 5.0, "bomb": 5.0, "garbage": 20.0, "storm": 20.0, "forged": 20.0}
BOMBS = [
    b"\xdd\x00\x0f\xff\xff" + b"\x90" * 3000,
    b"\x91" * 3000,
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\x7f",
]


@dataclass
class Run:
    """What the devices were told, and what was measured."""

    port: int
    ends: float
    devices: list[CheapDevice]
    insiders: list[CheapDevice]  # enrolled, and hostile
    accepted: set[tuple[bytes, bytes]] = field(default_factory=set)  # round, device
    asked: list[float] = field(default_factory=list)  # seconds of honest requests for offers
    attacks: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)  # honest requests nobody answered
    releases: int = 1

    @property
    def over(self) -> bool:
        """Is it time to stop?"""
        return time.monotonic() > self.ends


def settings(url: str, devices: int) -> Settings:
    """The shipped limits; rounds of 50 without noise, as often as they fill."""
    base = settings_for(url, devices, 100_000)
    return msgspec.structs.replace(
        base,
        serve=Serve(retry_seconds=1.0),
        limits=Limits(device=base.limits.device),  # by address: as shipped
        round=RoundLimits(
            min_updates=COHORT, max_updates=COHORT, min_seconds=0, max_seconds=30, total=100_000
        ),
        privacy=Privacy(clip=30.0, cap=100_000, separation=1),
        sealing=Settings().sealing,
    )


async def honest(run: Run, device: CheapDevice) -> None:
    """Round after round until the time is over, as the SDK would: it waits when it is told to."""
    connection, chance = Connection("127.0.0.1", run.port), random.Random(device.number)
    while not run.over:
        await asyncio.sleep(chance.uniform(*PAUSE_SECONDS))
        try:
            begun = time.monotonic()
            reply = await connection.send(device.asks(run.releases))
            run.asked.append(time.monotonic() - begun)
            if reply.status != 200:
                if reply.problem == "stale-model":
                    await _learn_release(run, connection)
                await asyncio.sleep(min(reply.retry_after, LONGEST_WAIT))
                continue
            offer = decode(Offer, decode(Signed, reply.body).body)
            if (offer.round, device.id) in run.accepted:  # the same slot again: it is done
                continue
            body = device.sealed(offer, one_row(device.number, DIM))
            while not run.over:
                sent = await connection.send(device.sends(offer.round, body))
                if sent.status == 200:
                    run.accepted.add((offer.round, device.id))
                elif sent.status == 503:
                    await asyncio.sleep(min(sent.retry_after, 1.0))
                    continue
                else:
                    run.failed[sent.problem] += sent.problem not in ("round-closed", "round-full")
                break
        except (OSError, EOFError) as error:
            run.failed[type(error).__name__] += 1
    connection.close()


async def _learn_release(run: Run, connection: Connection) -> None:
    reply = await connection.send(http_bytes("/v1/privacy", b"", "", "GET"))
    run.releases = json.loads(reply.body)["rounds"]["released"] + 1


async def _raw(run: Run, sent: bytes, hold: float) -> None:
    """Send, wait for an answer or for so long, and hang up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
    try:
        writer.write(sent)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(hold):
                await reader.read(65536)
    finally:
        writer.close()


async def idle(run: Run, chance: random.Random) -> None:
    """Announces 4 MB and sends nothing more, some of it in a known device's name."""
    head = run.insiders[0].sends(bytes(16), b"").partition(b"Content-Length")[0]
    known = head if chance.random() < 0.5 else b"POST /v1/enrol HTTP/1.1\r\nHost: a\r\n"
    await _raw(run, known + b"Content-Length: 4000000\r\n\r\nx", 20.0)


async def slow(run: Run, chance: random.Random) -> None:
    """A byte now and then."""
    reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
    writer.write(b"POST /v1/enrol HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n")
    try:
        for _ in range(40):
            writer.write(b"x")
            await asyncio.sleep(0.5)
            if reader.at_eof() or writer.is_closing():
                break
    finally:
        writer.close()


async def bomb(run: Run, chance: random.Random) -> None:
    """A few bytes that state millions of values, signed well."""
    insider, body = chance.choice(run.insiders), chance.choice(BOMBS)
    path = chance.choice(["/v1/offers", "/v1/renew", f"/v1/rounds/{'00' * 16}/updates"])
    await _raw(run, insider._request(path, body), 5.0)


async def garbage(run: Run, chance: random.Random) -> None:
    """No HTTP, or HTTP with a body that is none of ours."""
    noise = chance.randbytes(chance.randrange(1, 2000))
    await _raw(run, noise if chance.random() < 0.5 else http_bytes("/v1/enrol", noise, ""), 2.0)


async def storm(run: Run, chance: random.Random) -> None:
    """Ten connections that say nothing and go."""
    opened = [await asyncio.open_connection("127.0.0.1", run.port) for _ in range(10)]
    for _, writer in opened:
        writer.close()


async def forged(run: Run, chance: random.Random) -> None:
    """In another's name; or an update of another device, sent in a slot of one's own."""
    insider = chance.choice(run.insiders)
    victim = chance.choice(run.devices)
    false = CheapDevice(victim.number, key=insider.key, id=victim.id, nonce=2**40)
    if chance.random() < 0.5:
        await _raw(run, false.asks(1), 5.0)
        return
    reply = await Connection("127.0.0.1", run.port).send(insider.asks(chance.randrange(1, 50)))
    if reply.status == 200:  # a slot of its own, filled with another device's update
        offer = decode(Offer, decode(Signed, reply.body).body)
        body = victim.sealed(offer, one_row(victim.number, DIM))
        await _raw(run, insider.sends(offer.round, body), 5.0)


ATTACKS: dict[str, Callable[[Run, random.Random], Awaitable[None]]] = {
    "idle": idle, "slow": slow, "bomb": bomb, "garbage": garbage, "storm": storm, "forged": forged,
}  # fmt: skip


async def attacker(run: Run, kind: str) -> None:
    """Begins `RATES[kind]` attacks a second, whatever becomes of those before."""
    chance, begun = random.Random(kind), set()

    async def one() -> None:
        with contextlib.suppress(OSError, EOFError):
            await ATTACKS[kind](run, chance)
            run.attacks[kind] += 1

    while not run.over:
        task = asyncio.create_task(one())
        begun.add(task)
        task.add_done_callback(begun.discard)
        await asyncio.sleep(1.0 / RATES[kind])
    for task in [*begun]:
        task.cancel()


def megabytes_of(pid: int) -> float:
    """What a process has in memory now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def cpu_seconds_of(pid: int) -> float:
    """What a process has worked, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def watch(run: Run, pid: int) -> float:
    """The most memory that the coordinator had, MB."""
    most = 0.0
    while not run.over:
        most = max(most, megabytes_of(pid))
        await asyncio.sleep(0.5)
    return most


def lost_updates(url: str, run: Run) -> tuple[int, int]:
    """How many accepted updates are in no released and no open round; how many releases."""
    engine = open_engine(url)
    with engine.connect() as db:
        phases = {bytes(row.id): row.phase for row in db.execute(t.round_.select())}
        stored = {
            (bytes(row.round_id), bytes(row.device_id)) for row in db.execute(t.update.select())
        }
    engine.dispose()
    good = {one for one, phase in phases.items() if phase != "abandoned"}
    held = {pair for pair in stored if pair[0] in good}
    return len(run.accepted - held), sum(phase == "released" for phase in phases.values())


def attack(run: Run, done: Pipe[object, object]) -> None:
    """All kinds of attackers, in a process of their own: their work delays no honest device's."""

    async def all_kinds() -> None:
        await asyncio.gather(*(attacker(run, kind) for kind in ATTACKS))

    asyncio.run(all_kinds())
    done.send(dict(run.attacks))


async def soak(run: Run, pid: int) -> float:
    """Honest devices until the time is over; the most memory of the coordinator, MB."""
    watching = asyncio.create_task(watch(run, pid))
    await asyncio.gather(*(honest(run, one) for one in run.devices))
    return await watching


def soak_beside_attackers(run: Run, pid: int, alone: bool) -> float:
    """The same with attackers beside them, unless they are to be alone."""
    context = multiprocessing.get_context("fork")  # keys are no values that can be sent
    here, there = context.Pipe()
    process = context.Process(target=attack, args=(run, there))
    if not alone:
        process.start()
    most = asyncio.run(soak(run, pid))
    if not alone:
        run.attacks.update(here.recv())
        process.join()
    return most


def main() -> int:
    """1 when an update is lost, the coordinator grew too large, or honest devices waited."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--alone", action="store_true", help="no attackers, to compare with")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedrap-attack-") as name:
        url = f"sqlite:///{Path(name) / 'c.sqlite'}"
        devices = prepare(url, arguments.devices + 4)
        running = start(Site(settings(url, arguments.devices), Path(name)))
        assert running is not None
        try:
            assert running.process.pid is not None
            ends = time.monotonic() + arguments.seconds
            run = Run(running.port, ends, devices[4:], devices[:4])
            most = soak_beside_attackers(run, running.process.pid, arguments.alone)
            alive, worked = running.alive, cpu_seconds_of(running.process.pid)
        finally:
            running.kill()
        lost, releases = lost_updates(url, run)
    middle, p99 = np.quantile(run.asked or [np.inf], [0.5, 0.99]).tolist()
    result = {
        "seconds": arguments.seconds, "devices": arguments.devices, "attacks_per_second": RATES,
        "pause_seconds": PAUSE_SECONDS, "cohort": COHORT,
        "attacks": dict(run.attacks), "accepted": len(run.accepted), "releases": releases,
        "lost": lost, "unanswered": dict(+run.failed), "megabytes": round(most, 1),
        "offers_asked": len(run.asked), "offer_p50_seconds": round(middle, 4),
        "offer_p99_seconds": round(p99, 4),
        "load": os.getloadavg()[0], "share_of_a_core": round(worked / arguments.seconds, 3),
        "holds": alive and not lost and releases > 1 and most < MEGABYTES and p99 < P99_SECONDS,
    }  # fmt: skip
    print(json.dumps(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if result["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
