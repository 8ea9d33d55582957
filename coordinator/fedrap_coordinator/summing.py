"""From the sealed updates of a round to the release that it makes. Nothing is written here."""

from __future__ import annotations

import asyncio

from fedrap_coordinator.aggregator import Aggregator
from fedrap_coordinator.faults import Reached
from fedrap_coordinator.releases import Model, next_model
from fedrap_coordinator.rounds import Round
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.protocol import Store
from fedrap_coordinator.tempo import Tempo
from fedrap_core.plan import Plan


class Summing:
    """Reads what a round collected, sums it and learns from the sum."""

    def __init__(
        self,
        store: Store,
        aggregator: Aggregator,
        settings: Settings,
        tempo: Tempo,
        reached: Reached,
    ) -> None:
        self._store = store
        self._aggregator = aggregator
        self._settings = settings
        self._tempo = tempo
        self._reached = reached

    async def next_release(self, task: bytes, round_: Round, model: Model, plan: Plan) -> Model:
        """The version after `model`; asked again, it has the same numbers.

        Raises:
            BrokenModel: too few updates could be opened, or they give no usable C.
        """
        view = await self._store.extent()
        self._reached("summing")
        bodies = self._store.sealed_updates(round_.id)
        summed = await self._aggregator.total(bodies, model.common, plan, task, round_.step)
        self._reached("summed")
        alike = await self._store.alike(model.common.size)  # of items that are new
        made = await asyncio.to_thread(
            next_model, task, model, summed.total, view, self._settings, summed.clip, alike,
            self._tempo.now(round_),
        )  # fmt: skip
        self._reached("learnt")
        return made
