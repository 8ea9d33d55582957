"""Runs a scenario: lets devices come, try, wait and try again; looks and checks while it goes."""

from __future__ import annotations

import asyncio
import hashlib
import math
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from fedrap.background.scheduler import Pace
from fedrap_coordinator.domain.rate_limits import Pace as Rate
from fedrap_coordinator.settings import Limits, Settings
from fedrap_coordinator.sources import Sources
from fedrap_simulation.scenarios.availability import compute_seconds, draw, next_ready
from fedrap_simulation.scenarios.behaviours import DeviceTemper, Kind, draw_kinds
from fedrap_simulation.scenarios.compute import Engine
from fedrap_simulation.scenarios.coordinators import (
    CoordinatorHost,
    CoordinatorProcess,
    InProcessCoordinator,
)
from fedrap_simulation.scenarios.device import SimulatedDevice
from fedrap_simulation.scenarios.device_memory import (
    LIE,
    DeviceMemory,
    SharedModel,
    SharedReleases,
)
from fedrap_simulation.scenarios.invariants import InvariantChecker
from fedrap_simulation.scenarios.network import SimulatedTransport, Trouble
from fedrap_simulation.scenarios.outcome import Outcome, make_outcome
from fedrap_simulation.scenarios.population import Population, Times, load_population
from fedrap_simulation.scenarios.quality import (
    EvaluationSnapshot,
    PersonQuestion,
    pick_people,
    take_snapshot,
)
from fedrap_simulation.scenarios.scenario import DAY, Scenario
from fedrap_simulation.scenarios.virtual_clock import run_virtual

EPOCH = 1.7e9  # what the coordinator's clock shows when a virtual scenario begins
_MUCH = Rate(burst=10**8, per_minute=10**8)
FREE = Limits(device=_MUCH, address=_MUCH)

Change = tuple[float, str, list[int]]  # when, what, and which items
WEEK = 7 * DAY
MEMBERSHIPS = 2  # of one device: it enrols anew where the coordinator lost it
TICK_SECONDS = 30.0  # of a coordinator in this process
TICKS = 50  # in the least time of a round: on a clock that jumps each costs as much as any event
OnProgress = Callable[[float, str], None]  # share of the scenario that is over, and a few words


def run_scenario(
    scenario: Scenario,
    engine: Engine,
    folder: Path,
    on_progress: OnProgress,
    data_dir: Path | None = None,
) -> Outcome:
    """The whole scenario.

    Raises:
        InvariantBroken: an invariant did not hold.
        BadData, FedRapError: the data is not there, or the coordinator could not be started.
    """
    population = load_population(scenario, data_dir)
    runner = ScenarioRunner(scenario, population, engine, folder, on_progress)
    if scenario.clock == "virtual":
        return run_virtual(runner.run())
    return asyncio.run(runner.run())


class ScenarioRunner:
    """One run. Time is seconds since its start, on whichever clock the event loop has."""

    def __init__(
        self,
        scenario: Scenario,
        population: Population,
        engine: Engine,
        folder: Path,
        on_progress: OnProgress,
    ) -> None:
        self._scenario, self._population, self._engine, self._on_progress = (
            scenario,
            population,
            engine,
            on_progress,
        )
        self._settings = _settings(scenario, population)
        self._folder = folder
        self._invariants = InvariantChecker(self._settings)
        self._releases = SharedReleases(population.items)
        self._trouble = Trouble()
        self._reports: Counter[str] = Counter()
        self._snapshots: list[EvaluationSnapshot] = []
        self._frozen: SharedModel | None = None
        self._devices: dict[int, SimulatedDevice] = {}
        self._turns: set[asyncio.Task[None]] = set()
        self._failed: BaseException | None = None
        self._over = asyncio.Event()
        self._began = 0.0
        self._listed = np.zeros(len(population.items), dtype=np.bool_)
        self._kinds = draw_kinds(
            len(population), scenario.behaviours, np.random.default_rng([scenario.seed, 0xB34])
        )
        counts = np.bincount(population.item, minlength=len(population.items))
        liked = np.where(counts > 0, counts, counts.max() + 1)
        chosen = scenario.behaviours.promoted
        self.promoted = int(np.argmin(liked)) if chosen < 0 else chosen

    def now(self) -> float:
        """Seconds of the scenario."""
        return asyncio.get_running_loop().time() - self._began

    async def run(self) -> Outcome:
        """Everything, from the first device to the report."""
        started, loop = time.perf_counter(), asyncio.get_running_loop()
        self._began = loop.time()
        host = self._host()
        items, changes = self._catalogue()
        try:
            await host.start([self._population.items[one] for one in items])
            self._listed[items] = True
            count = len(self._population)
            made = await host.tokens(MEMBERSHIPS * count)
            for person in range(count):
                at = self._began + float(self._population.arrive[person])
                loop.call_at(at, self._begin_turn, person, made[person::count], host)
            await self._beside(host, changes)
            for turn in list(self._turns):
                turn.cancel()
            await asyncio.gather(*self._turns, return_exceptions=True)
            for device in self._devices.values():
                await device.transport.settle()
            if self._failed is not None:
                raise self._failed
            store = await host.look()
            await self._invariants.check(store, host.keyring)
            states = [device.state for device in self._devices.values()]
            self._invariants.check_ledgers(states)
            await self._take_snapshot()
            return await make_outcome(
                self._scenario, self._settings, self._population, store, self._invariants,
                self._snapshots,
                list(self._devices.values()), self._reports, self._trouble, self.promoted,
                self._engine.name, time.perf_counter() - started,
                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            )  # fmt: skip
        finally:
            await host.close()

    def _host(self) -> CoordinatorHost:
        scenario = self._scenario
        if scenario.joined == "http":
            return CoordinatorProcess(self._settings, self._folder)
        noise = hashlib.sha256(b"fedrap field %d" % scenario.seed).digest()
        epoch = EPOCH if scenario.clock == "virtual" else time.time()
        tick = max(TICK_SECONDS, self._settings.round.min_seconds / TICKS)
        folder = None if scenario.faults.restore_day is None else self._folder
        return InProcessCoordinator(self._settings, self._sources(epoch), noise, tick, folder)

    def _sources(self, epoch: float) -> Sources:
        """Time of the scenario, and chance that follows from its seed: a run repeats.

        Keys that protect somebody are made by the cryptography library, and stay random.
        """
        rng = np.random.default_rng([self._scenario.seed, 0xCA5])

        def clock() -> float:
            return epoch + self.now()

        return Sources(clock, monotonic=clock, uniform=rng.random, token_bytes=rng.bytes)

    def _catalogue(self) -> tuple[list[int], list[Change]]:
        """Items that are there at the start, and what becomes of the catalogue when."""
        churn, count = self._scenario.churn, len(self._population.items)
        seconds = self._scenario.seconds
        if churn.follow:
            return follow_items(*self._population.lives(), seconds)
        order = np.random.default_rng([self._scenario.seed, 0xCA7]).permutation(count)
        first = sorted(order[: max(1, round(churn.at_start * count))].tolist())
        later = order[len(first) :].tolist()
        gone = order[: round(churn.retired * count)].tolist()
        return first, _spread(later, seconds, "add") + _spread(gone, seconds, "go")

    def _schedule(
        self, person: int, tokens: Sequence[str], host: CoordinatorHost, when: float
    ) -> None:
        """The person's next try at `when`, or as soon after it as the phone is ready."""
        scenario = self._scenario
        at = next_ready(scenario.phones, scenario.seed, person, max(when, self.now()))
        if at < scenario.seconds and not self._over.is_set():
            loop = asyncio.get_running_loop()
            loop.call_at(self._began + at, self._begin_turn, person, tokens, host)

    def _begin_turn(self, person: int, tokens: Sequence[str], host: CoordinatorHost) -> None:
        if self._over.is_set():
            return
        turn = asyncio.get_running_loop().create_task(self._turn(person, tokens, host))
        self._turns.add(turn)
        turn.add_done_callback(self._turns.discard)

    async def _turn(self, person: int, tokens: Sequence[str], host: CoordinatorHost) -> None:
        device, wait = self._devices.get(person), 0.0
        try:
            if device is None:  # any network will do for the first release; rounds wait for wifi
                device = self._devices[person] = self._make_device(person, tokens, host)
                await device.open_app()
            else:
                wait = await device.turn(self._reports)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a broken invariant, or a fault of ours: end loudly
            self._failed = self._failed or error
            self._over.set()
            return
        self._schedule(person, tokens, host, self.now() + wait)

    def _make_device(
        self, person: int, tokens: Sequence[str], host: CoordinatorHost
    ) -> SimulatedDevice:
        scenario, seed = self._scenario, self._scenario.seed
        kind = self._kinds[person]
        rng = np.random.default_rng([seed, 0xDE5, person])
        epoch = EPOCH if scenario.clock == "virtual" else time.time()
        state = DeviceMemory(
            person, self._population, self._releases, self.now, epoch,
            consent=draw(seed, person, 7) < scenario.phones.consent,
            weight=LIE if kind is Kind.LYING else 1.0,
        )  # fmt: skip
        transport = SimulatedTransport(
            host.wire, scenario.network, rng, self._trouble, host.session,
            replay=kind is Kind.REPLAYING,
        )  # fmt: skip
        seconds = compute_seconds(scenario.phones, seed, person)
        temper = DeviceTemper(
            kind, seconds, scenario.drop, rng, self.promoted, self._engine, (seed, person),
            self._invariants, scenario.behaviours.attack == "shrink",
        )  # fmt: skip
        phones = scenario.phones
        pace = Pace(
            period=phones.period, look=min(phones.period, 600.0), backoff=phones.backoff,
            longest=phones.refresh,
        )  # fmt: skip
        return SimulatedDevice(person, state, transport, temper, tokens, pace, phones.refresh)

    async def _beside(self, host: CoordinatorHost, changes: list[Change]) -> None:
        """Looks, checks, kills and changes of the catalogue, until the scenario is over."""
        scenario = self._scenario
        plan: list[Change] = []
        step = scenario.looks.every_hours * 3600.0
        plan += [(at, "look", []) for at in np.arange(step, scenario.seconds, step).tolist()]
        rng = np.random.default_rng([scenario.seed, 0xFA1])
        within = (scenario.faults.within_days or scenario.days) * DAY
        kills = np.sort(rng.uniform(0.05, 0.95, scenario.faults.kills)) * within
        plan += [(at, "kill", []) for at in kills.tolist()]
        plan += changes
        for day, what in (
            (scenario.faults.backup_day, "backup"),
            (scenario.faults.restore_day, "restore"),
            (scenario.succession.day, "succeed"),
            (scenario.succession.switch_day, "switch"),
        ):
            plan += [] if day is None else [(day * DAY, what, [])]
        due = sorted((one for one in plan if one[0] < scenario.seconds), key=lambda one: one[0])
        for at, what, which in due:
            if await self._wait_until(at):
                break
            if what == "look":
                await self._invariants.check(await host.look(), host.keyring)
                await self._take_snapshot()
                if self._invariants.last_step >= (scenario.until_round or math.inf):
                    break
            elif what == "kill":
                await host.crash(scenario.faults.down_seconds)
            elif what == "succeed":
                await self._invariants.check(await host.look(), host.keyring)
                method = msgspec.structs.replace(self._settings.method, dim=scenario.succession.dim)
                self._settings = msgspec.structs.replace(self._settings, method=method)
                await host.succeed(self._settings)
                self._invariants.succeeded(self._settings)
            elif what == "switch":
                await host.switch()
            elif what == "backup":
                await host.back_up()
            elif what == "restore":
                await self._invariants.check(await host.look(), host.keyring)  # what will be lost
                self._invariants.restored()
                await host.restore()
            else:
                names = [self._population.items[one] for one in which]
                await (host.add_items if what == "add" else host.retire_items)(names)
                self._listed[which] = what == "add"
        else:
            await self._wait_until(scenario.seconds)
        self._over.set()

    async def _wait_until(self, at: float) -> bool:
        """Let time pass; True when the run was ended before."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._began + at):
                await self._over.wait()
        return self._over.is_set()

    async def _take_snapshot(self) -> None:
        now, looks = self.now(), self._scenario.looks
        people = pick_people(self._population, looks.users, self._scenario.seed)
        asked, histories, targets = self._population.ask(people, now)
        known = self._listed[targets]
        question = PersonQuestion(
            asked[known], histories.some(np.flatnonzero(known)), targets[known], self._listed.copy()
        )
        models = {one: device.state.model() for one, device in self._devices.items()}
        if self._frozen is None and looks.frozen_day is not None and now >= looks.frozen_day * DAY:
            held = [model for model in models.values() if model is not None]
            self._frozen = max(held, key=lambda model: model.step, default=None)
        look = await asyncio.to_thread(
            take_snapshot, self._population, question, models, now, self.promoted, looks,
            self._frozen,
        )  # fmt: skip
        if look is not None:
            self._snapshots.append(look)
            popular = look.ndcg10_popularity
            words = f"day {look.day:.1f}: NDCG@10 {look.ndcg10:.3f}, popularity {popular:.3f}"
            words += f", of late {look.ndcg10_recent:.3f}"
            if look.ndcg10_frozen is not None:
                words += f", frozen {look.ndcg10_frozen:.3f}"
            if look.ndcg10_central is not None:
                words += f", centralised {look.ndcg10_central:.3f}"
            self._on_progress(min(1.0, now / self._scenario.seconds), words)


def follow_items(first: Times, last: Times, seconds: float) -> tuple[list[int], list[Change]]:
    """By the data: items are there before their first touch, and a week at least after their last.

    Whoever is touched in the last weeks of the scenario stays.
    """
    weeks = np.arange(WEEK, seconds, WEEK).tolist()
    comes = np.floor(first / WEEK) * WEEK  # (m,) the week in which it is wanted begins
    goes = np.ceil(last / WEEK) * WEEK + WEEK
    changes: list[Change] = []
    for at in weeks:
        changes.append((at, "add", np.flatnonzero(comes == at).tolist()))
        ends = (goes == at) & (goes < seconds - 4 * WEEK)
        changes.append((at, "go", np.flatnonzero(ends).tolist()))
    return np.flatnonzero(comes <= 0).tolist(), [one for one in changes if one[2]]


def _spread(items: list[int], seconds: float, what: str) -> list[Change]:
    """Changes of the catalogue in twenty portions."""
    portions = [one.tolist() for one in np.array_split(np.array(items, dtype=int), 20) if len(one)]
    return [
        ((place + 1) / (len(portions) + 1) * seconds, what, some)
        for place, some in enumerate(portions)
    ]


def _settings(scenario: Scenario, population: Population) -> Settings:
    """The scenario's settings; N, p and the number of steps follow from the people if not said."""
    settings, usual = scenario.coordinator, Settings()
    learning = settings.learning
    if learning.population == usual.learning.population:
        density = len(population.item) / len(population) / len(population.items)
        learning = msgspec.structs.replace(
            learning,
            population=len(population),
            density=min(1.0, max(1e-9, density)),
            settled=settings.round.total,
        )
    # States are kept as long as releases, so that each release can be computed once more.
    states = max(settings.releases.keep, settings.releases.keep_states)
    releases = msgspec.structs.replace(settings.releases, keep_states=states)
    # A clock that jumps, and thousands of devices behind one address, would meet limits that
    # protect from strangers; the rest of the settings is what an operator would have.
    return msgspec.structs.replace(settings, learning=learning, limits=FREE, releases=releases)
