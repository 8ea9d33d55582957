"""The whole product on one machine: a coordinator on loopback, real devices, real rounds.

What is measured is what a user would see: `recommend` of the SDK on a held-out item, beside
popularity, beside a C that never learnt, and beside the planted truth.

How good recommendations are: HR@10 of one held-out item, beside what they must beat.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec
import numpy as np
import numpy.typing as npt
from aiohttp import web

from fedrap import FedRap, Floor, Recommendation, RoundReport
from fedrap.recommend.scorers import PaperScorer, SolveScorer
from fedrap.transport.http import HttpTransport
from fedrap_coordinator.app import create_app
from fedrap_coordinator.domain.rounds import RoundLimits
from fedrap_coordinator.http.device_api import COORDINATOR, REGISTRY
from fedrap_coordinator.http.limits import make_runner
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.settings import Enrolment, Serve, Settings, SplitSettings
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.model import History
from fedrap_core.paper.problem import first_state
from fedrap_core.paper.variants import make_variant
from fedrap_core.plan import Method, PaperMethod, PaperScoring, Privacy, Scoring, SolveMethod
from fedrap_core.solve.server_step import Learning
from fedrap_core.wire.codec import decode
from fedrap_core.wire.keys import new_private_key
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import MAX_RELEASE_BYTES, unpack_release
from fedrap_simulation.data.synthetic import PlantedPopulation, Shape, make_population
from fedrap_simulation.evaluation.metrics import hit, rank_of
from fedrap_simulation.scenarios.helper_process import helper_process


def device_hit_rate(devices: Sequence[FedRap], population: PlantedPopulation) -> float:
    """HR@10 of what the SDK recommends: full ranking without the items already seen."""
    hits = [
        population.items[target] in {one.item for one in device.recommend(10)}
        for device, target in zip(devices, population.held_out, strict=True)
    ]
    return float(np.mean(hits))


def frozen_hit_rate(release: Release, population: PlantedPopulation) -> float:
    """HR@10 of a C as it was before the first round, solved and scored like any other.

    Devices do not recommend from such a C; they show the first of the catalogue.
    """
    common, gram = unpack_release(release), unpack_release(release).gram()
    hits = []
    for history, target in zip(population.histories, population.held_out, strict=True):
        allowed = np.ones(common.size, dtype=np.bool_)
        allowed[history] = False
        if isinstance(release.scoring, PaperScoring):
            start = first_state(release.scoring.seed, common.dim)
            best = PaperScorer(common, start).rank(10, allowed)
        else:
            interactions = History(history[::-1].copy(), np.ones(len(history)))
            best = SolveScorer(common, gram, interactions, release.scoring).rank(10, allowed)
        hits.append(target in best.rows)
    return float(np.mean(hits))


def popularity_hit_rate(population: PlantedPopulation) -> float:
    """HR@10 of the most popular items the user has not seen."""
    counts = population.popularity().astype(np.float64)
    return _table_hit_rate(np.tile(counts, (len(population.histories), 1)), population)


def planted_hit_rate(population: PlantedPopulation) -> float:
    """HR@10 of the true chances: nobody can do better but by luck."""
    return _table_hit_rate(population.planted, population)


def _table_hit_rate(table: npt.NDArray[np.float64], population: PlantedPopulation) -> float:
    hits = []
    for scores, history, target in zip(
        table, population.histories, population.held_out, strict=True
    ):
        shown = scores.copy()
        shown[history] = -np.inf
        hits.append(hit(rank_of(shown, int(target))))
    return float(np.mean(hits))


@dataclass(frozen=True)
class DemoPlan:
    """What the demo runs. Half of the devices join each round, so none joins twice in a row."""

    shape: Shape = field(default_factory=Shape)
    method: str = "solve"  # or a variant of the paper by name: paper/variants.py
    rounds: int = 20
    dim: int = 12
    noise: float = 0.3
    clip: float = 4.0
    seed: int = 7
    split: bool = False  # two servers, of which none reads an update; the helper is a process


@dataclass(frozen=True)
class RoundLine:
    """One line of progress."""

    round: int
    participants: int
    loss: float
    upload_bytes: int


@dataclass(frozen=True)
class DemoResult:
    """What the demo shows at its end; `fedrap-sim demo --json` writes the same."""

    method: str
    rounds: int
    devices: int
    items: int
    dim: int
    seed: int
    hr10: float
    hr10_popularity: float
    hr10_planted: float
    hr10_frozen: float  # with C as it was before the first round
    upload_bytes_per_update: float
    dense_bytes: int  # C as float32
    zeros_in_c: float
    epsilon: float | None  # charged to each device; None: no noise, so nothing is guaranteed
    delta: float
    noise: float
    participations: int  # rounds that each device was charged for
    losses: tuple[float, ...]
    example: tuple[Recommendation, ...]
    example_history: tuple[str, ...]


Progress = Callable[[RoundLine], None]


def settings_for(plan: DemoPlan, folder: Path, population: PlantedPopulation) -> Settings:
    """The operator's settings for this population.

    Raises:
        ValueError: there is no such method, or it is not a federated one.
    """
    cohort = plan.shape.users // 2
    lengths = [len(history) for history in population.histories]
    privacy = Privacy(
        clip=plan.clip,
        noise=plan.noise,
        cap=math.ceil(plan.rounds / 2),
        delta=min(1e-5, plan.shape.users**-1.1),
    )
    method, privacy = _method(plan, privacy)
    return Settings(
        database=f"sqlite:///{folder / 'coordinator.sqlite'}",
        seed=plan.seed,
        serve=Serve(port=0, retry_seconds=0.2),
        round=RoundLimits(
            min_updates=cohort,
            max_updates=cohort,
            over_selection=1.0,
            max_seconds=120.0,
            total=plan.rounds,
        ),
        method=method,
        privacy=privacy,
        learning=Learning(
            eta=0.3,
            decay=0.95,
            memory=0.8,
            population=plan.shape.users,
            density=float(np.mean(lengths)) / plan.shape.items,
            settled=plan.rounds,
        ),
        scoring=Scoring(),
        enrolment=Enrolment(wait_steps=0),
    )


def _method(plan: DemoPlan, privacy: Privacy) -> tuple[Method, Privacy]:
    if plan.method == "solve":
        return SolveMethod(dim=plan.dim), privacy
    # The paper neither clips nor noises, but for fedrap-noise: a clip that never binds.
    plain = msgspec.structs.replace(privacy, clip=1e4, noise=0.0)
    variant = make_variant(plan.method, PaperMethod(dim=plan.dim, seed=plan.seed), plain)
    if variant.centralised:
        raise ValueError(f"{plan.method} is centralised; the demo runs what devices compute")
    return variant.method, variant.privacy


async def run_demo(plan: DemoPlan, folder: Path, progress: Progress) -> DemoResult:
    """Run it, calling `progress` after each round."""
    population = make_population(plan.shape, plan.seed)
    settings = settings_for(plan, folder, population)
    async with AsyncExitStack() as stack:
        helper = None
        if plan.split:
            process = stack.enter_context(helper_process(folder / "helper"))
            helper = process.identity
            longest = max(len(history) for history in population.histories)
            part = SplitSettings(helper=process.server(), rows=longest)
            settings = msgspec.structs.replace(settings, split=part)
        app, url = await stack.enter_async_context(_serve(settings))
        await app[COORDINATOR].add_items(population.items)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64))
        )
        tokens = [secrets.token_urlsafe(16) for _ in range(plan.shape.users)]
        await app[REGISTRY].add_tokens(tokens)
        devices = [
            stack.enter_context(
                _device(folder / "devices" / f"{i:04d}", url, session, token, helper)
            )
            for i, token in enumerate(tokens)
        ]
        for device, history in zip(devices, population.histories, strict=True):
            for row in history:
                device.record(population.items[row])
        await asyncio.gather(*(device.sync_async() for device in devices))
        frozen = frozen_hit_rate(await _released(app), population)
        reports: list[RoundReport] = []
        losses: list[float] = []
        for number in range(1, plan.rounds + 1):
            joined = await _play_round(devices[number % 2 :: 2])
            reports += joined
            losses.append(float(np.mean([one.loss for one in joined if one.loss is not None])))
            progress(
                RoundLine(number, len(joined), losses[-1], sum(one.sent_bytes for one in joined))
            )
        await asyncio.gather(*(device.sync_async() for device in devices))
        common = unpack_release(await _released(app))
        spent = max(device.status().epsilon for device in devices)
        example, example_history = _example(devices, population)
        return DemoResult(
            method=plan.method,
            rounds=plan.rounds,
            devices=plan.shape.users,
            items=plan.shape.items,
            dim=plan.dim,
            seed=plan.seed,
            hr10=device_hit_rate(devices, population),
            hr10_popularity=popularity_hit_rate(population),
            hr10_planted=planted_hit_rate(population),
            hr10_frozen=frozen,
            upload_bytes_per_update=float(np.mean([one.sent_bytes for one in reports])),
            dense_bytes=4 * plan.shape.items * plan.dim,
            zeros_in_c=float(np.mean(common.items.values == 0)),
            epsilon=None if math.isinf(spent) else spent,
            delta=settings.privacy.delta,
            noise=settings.privacy.noise,
            participations=max(device.status().rounds for device in devices),
            losses=tuple(losses),
            example=example,
            example_history=example_history,
        )


@asynccontextmanager
async def _serve(settings: Settings) -> AsyncIterator[tuple[web.Application, str]]:
    """The real coordinator on a free port of loopback."""
    # The noise follows from the seed, so that the demo's numbers repeat. Never do so with people.
    noise = hashlib.sha256(b"fedrap demo %d" % settings.seed).digest()
    keyring = Keyring(new_private_key(), noise)
    app = create_app(settings, SqlStore(settings.database), keyring)
    runner = make_runner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.serve.host, 0)
        await site.start()
        port = runner.addresses[0][1]
        yield app, f"http://{settings.serve.host}:{port}"
    finally:
        await runner.cleanup()


def _device(
    folder: Path, url: str, session: aiohttp.ClientSession, token: str, helper: str | None
) -> FedRap:
    device = FedRap.open(
        folder,
        transport=HttpTransport(url, session),
        token=token,
        floor=Floor.without_privacy(min_updates=2),
        aggregation="sealed" if helper is None else "split",
        helper=helper,
    )
    device.consent(train=True, policy="demo")
    return device


async def _play_round(cohort: Sequence[FedRap]) -> list[RoundReport]:
    """Every device of the cohort joins; one that is told to wait comes back."""

    async def join(device: FedRap) -> RoundReport:
        for _ in range(50):
            report = await device.run_round_async()
            if report.joined:
                return report
            await asyncio.sleep(report.retry_after or 0.05)
        raise RuntimeError(f"a device could not join: {report.blocked_by}")

    return list(await asyncio.gather(*(join(device) for device in cohort)))


async def _released(app: web.Application) -> Release:
    served = await app[COORDINATOR].release(None)
    return decode(Release, served.body, MAX_RELEASE_BYTES)


def _example(
    devices: Sequence[FedRap], population: PlantedPopulation
) -> tuple[tuple[Recommendation, ...], tuple[str, ...]]:
    """The first device whose held-out item is found, with reasons."""
    shown = 0
    for place, (device, target) in enumerate(zip(devices, population.held_out, strict=True)):
        if population.items[target] in {one.item for one in device.recommend(10)}:
            shown = place
            break
    names = tuple(population.items[row] for row in population.histories[shown][::-1])
    return tuple(devices[shown].recommend(10, explain=True)), names


def result_json(result: DemoResult) -> bytes:
    """The result as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2)
