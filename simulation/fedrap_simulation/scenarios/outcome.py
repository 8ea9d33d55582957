"""What a run gives: everything the report shows, as values that also go into JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from fedrap.rounds import ledger
from fedrap_coordinator.domain.rounds import Phase
from fedrap_coordinator.rounds.releases import load_model
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.protocol import Store
from fedrap_core.privacy.statement import state_policy
from fedrap_simulation.scenarios.device import SimulatedDevice
from fedrap_simulation.scenarios.invariants import HISTORY, InvariantChecker, most_in_a_window
from fedrap_simulation.scenarios.network import Trouble
from fedrap_simulation.scenarios.population import Population
from fedrap_simulation.scenarios.quality import EvaluationSnapshot, central_name
from fedrap_simulation.scenarios.scenario import DAY, Scenario


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """One round."""

    step: int
    day: float  # when it was opened
    phase: str
    places: int
    updates: int
    minutes: float | None  # until the next one was opened
    zeros: float | None  # exact zeros in the C that it made


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A run and what came of it."""

    scenario: Scenario
    dataset: str
    people: int
    devices: int  # that came
    healed: int  # that enrolled anew, because the coordinator did not know them any more
    items: int
    dim: int  # k of the last release
    clock: str
    engine: str
    rounds: list[Played]
    looks: list[EvaluationSnapshot]
    reports: dict[str, int]  # what became of tries: joined, or the reason
    trouble: dict[str, int]  # what the network did
    epsilon: float | None  # charged to the device that took part most; None: no noise
    epsilon_window: float | None  # the most that any device was charged in one window of the policy
    promised: float | None  # at most, by the policy: in a window, where it has one
    epsilons: list[float]  # quantiles 0, .25, .5, .75, 1 over devices that took part
    took_part: int
    bytes_up_per_day: float  # per device that is there, bodies without headers
    bytes_down_per_day: float
    checked: dict[str, int]
    promoted: str
    central: str
    seconds: float  # of real time
    peak_mb: float
    digest: str  # of the last C: equal runs have equal ones

    @property
    def released(self) -> list[Played]:
        """Rounds that made a release."""
        return [one for one in self.rounds if one.phase == Phase.RELEASED.value]


async def make_outcome(
    scenario: Scenario,
    settings: Settings,
    population: Population,
    store: Store,
    watch: InvariantChecker,
    looks: Sequence[EvaluationSnapshot],
    devices: Sequence[SimulatedDevice],
    reports: Counter[str],
    trouble: Trouble,
    promoted: int,
    engine: str,
    seconds: float,
    peak_mb: float,
) -> Outcome:
    """Gather it from the database and from the devices."""
    rounds = await _played(store)
    latest = await store.release(None)
    entries = [one.state.entries() for one in devices if one.state.entries()]
    spent = [ledger.epsilon(some) for some in entries]
    window = settings.privacy.window
    noisy = settings.privacy.noise > 0
    ends = scenario.seconds
    days = sum(max(0.0, ends - float(population.arrive[one.person])) for one in devices) / DAY
    bound = state_policy(settings.privacy).epsilon
    return Outcome(
        scenario=scenario,
        dataset=population.dataset,
        people=len(population),
        devices=len(devices),
        healed=sum(bool(one.state.former) for one in devices),
        items=len(population.items),
        dim=0 if latest is None else load_model(latest).common.dim,
        clock=scenario.clock,
        engine=engine,
        rounds=rounds,
        looks=list(looks),
        reports=dict(reports.most_common()),
        trouble=dict(trouble.counts.most_common()),
        epsilon=max(spent, default=0.0) if noisy else None,
        epsilon_window=max((most_in_a_window(some, window) for some in entries), default=0.0)
        if noisy
        else None,
        promised=bound if noisy and math.isfinite(bound) else None,
        epsilons=np.quantile(spent, [0, 0.25, 0.5, 0.75, 1]).tolist() if spent and noisy else [],
        took_part=len(spent),
        bytes_up_per_day=sum(one.transport.traffic.up for one in devices) / max(days, 1e-9),
        bytes_down_per_day=sum(one.transport.traffic.down for one in devices) / max(days, 1e-9),
        checked={
            "rounds": watch.checked.rounds,
            "updates": watch.checked.updates,
            "releases computed again": watch.checked.sums,
            "ledgers": watch.checked.ledgers,
        },
        promoted=population.items[promoted],
        central=central_name(len(population.items), scenario.looks),
        seconds=seconds,
        peak_mb=peak_mb,
        digest="" if latest is None else load_model(latest).message.model.hex(),
    )


async def _played(store: Store) -> list[Played]:
    rows = list(reversed(await store.rounds(HISTORY)))
    if not rows:
        return []
    first, played = rows[0].opened_at, list[Played]()
    for place, row in enumerate(rows):
        after = rows[place + 1].opened_at if place + 1 < len(rows) else None
        zeros = None
        if row.phase is Phase.RELEASED:
            made = await store.release(row.release + 1)
            if made is not None:
                zeros = float(np.mean(load_model(made).common.items.values == 0))
        played.append(
            Played(
                step=row.step,
                day=(row.opened_at - first) / DAY,
                phase=row.phase.value,
                places=row.assigned,
                updates=row.accepted,
                minutes=None if after is None else (after - row.opened_at) / 60.0,
                zeros=zeros,
            )
        )
    return played


def to_json(outcome: Outcome) -> bytes:
    """Everything, indented."""
    raw: Any = msgspec.to_builtins(outcome)
    return msgspec.json.format(msgspec.json.encode(raw), indent=1)
