"""Rounds from one to the next: open, end, sum, release. The only owner of round state.

Every change of the round happens under `turn`, with no await between reading and writing it; what
is stored is stored before it is counted.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import replace

from fedrap_coordinator.aggregator import Aggregator
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.releases import Model, first_model, load_model, next_model, plan_after
from fedrap_coordinator.round_keys import RoundKeys
from fedrap_coordinator.rounds import Phase, Round
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.protocol import Store
from fedrap_core.errors import BrokenModel
from fedrap_core.plan import Plan
from fedrap_core.wire.codec import decode_value, encode_value

log = logging.getLogger(__name__)


class Stepper:
    """Drives the rounds of one task. `clock` gives seconds of wall time."""

    def __init__(
        self, store: Store, keyring: Keyring, settings: Settings, clock: Callable[[], float]
    ) -> None:
        self.turn = asyncio.Lock()
        self.aggregator = Aggregator(keyring, settings.serve.max_body_bytes)
        self._store = store
        self._keyring = keyring
        self._settings = settings
        self._clock = clock
        self._keys = RoundKeys(keyring, settings.sealing.rotate_hours, clock)
        self._plan = settings.plan()
        self._task = b""
        self._model: Model | None = None
        self._round: Round | None = None

    @property
    def task(self) -> bytes:
        """The id of the task; known after `start`."""
        return self._task

    @property
    def plan(self) -> Plan:
        """The plan of the open round, or of the next."""
        return self._plan

    @property
    def model(self) -> Model | None:
        """The latest release."""
        return self._model

    @property
    def round(self) -> Round | None:
        """The open round, as a value."""
        return self._round

    @property
    def is_over(self) -> bool:
        """The budget of rounds is spent; no settings but `total` open another one."""
        return self._model is not None and self._model.stored.step >= self._settings.round.total

    def count(self, round_: Round) -> None:
        """The open round with one more place or update, which is in the store already."""
        self._round = round_

    async def start(self) -> None:
        """Take up where the store left off: the latest release, and the round that was open.

        Raises:
            ConfigError: nothing was changed.
        """
        self._task = await self._store.task_id(os.urandom(16))
        stored = await self._store.release(None)
        if stored is not None:
            self._model = await asyncio.to_thread(load_model, stored)
            self._check_settings(self._model)
        async with self.turn:
            await self._resume()
            await self.advance()

    def _check_settings(self, model: Model) -> None:
        """A task keeps its method and its k; everything else an operator may change."""
        method, known = self._settings.method, model.common.dim
        same = type(model.message.scoring) is type(self._settings.released_scoring())
        if method.dim != known or not same:
            raise ConfigError(
                f"this database holds a task of another method or another dim ({known}); "
                "set them back, or start a new task with a new database"
            )

    async def sleep(self) -> None:
        """Put the open round to sleep. Only called with `turn` held."""
        if self._round is not None and self._round.phase is Phase.COLLECTING:
            await self._move(Phase.SHUTDOWN)

    async def advance(self) -> None:
        """Everything that is due now. Only called with `turn` held."""
        if self._model is None:
            await self._make_first_release()
        if self._round is not None:
            due = self._round.tick(self._settings.round, self._clock())
            if due.phase is not self._round.phase:
                await self._move(due.phase)
            if due.phase is Phase.SUMMING:
                await self._release_round()
            elif due.phase is Phase.ABANDONED:
                self._round = None
        if self._round is None:
            await self._open_round()

    async def _resume(self) -> None:
        found = await self._store.current_round()
        if found is None:
            return
        self._round, raw = found
        self._plan = decode_value(Plan, raw)  # a round keeps the rules that it was opened with
        if not self._round.seal_id:  # opened before keys were rotated
            self._round = replace(self._round, seal_id=self._keyring.seal_id)
        if self._round.phase is Phase.SHUTDOWN:
            await self._move(Phase.COLLECTING)
        if not self._keys.has(self._round.seal_id):  # its updates cannot be opened any more
            await self._move(Phase.ABANDONED)
            self._round = None
        else:  # a kill -9 may have come before the last keys were destroyed
            await self._keys.tidy({self._round.seal_id})

    async def _make_first_release(self) -> None:
        view = await self._store.extent()
        if view.items:
            model = await asyncio.to_thread(
                first_model, self._task, view, self._settings, self._clock()
            )
            await self._store.add_release(model.stored, None)
            self._model = model

    async def _open_round(self) -> None:
        if self._model is None or self.is_over:
            await self._keys.tidy(set())
            return
        self._plan = plan_after(self._model, self._settings)
        stored, now = self._model.stored, self._clock()
        seal = await self._keys.for_a_round()
        round_ = Round(os.urandom(16), stored.step + 1, stored.version, now, seal_id=seal)
        await self._store.open_round(round_, encode_value(self._plan))
        self._round = round_
        await self._keys.tidy({seal})
        log.info("round opened", extra={"step": round_.step, "release": round_.release})

    async def _move(self, phase: Phase) -> None:
        assert self._round is not None
        moved = self._round.to(phase)
        await self._store.set_phase(moved.id, phase, self._clock())
        self._round = moved
        log.info(
            "round moved",
            extra={"step": moved.step, "phase": phase.value, "updates": moved.accepted},
        )

    async def _release_round(self) -> None:
        """Sum what was stored, learn, publish. Repeatable until the release is in the store."""
        assert self._round is not None
        assert self._model is not None
        round_, model, view = self._round, self._model, await self._store.extent()
        try:
            summed = await self.aggregator.total(
                self._store.sealed_updates(round_.id),
                model.common,
                self._plan,
                self._task,
                round_.step,
            )
            total = summed.total
            alike = await self._store.alike(model.common.size)  # of items that are new
            made = await asyncio.to_thread(
                next_model, self._task, model, total, view, self._settings, summed.clip,
                alike, self._clock(),
            )  # fmt: skip
        except BrokenModel:
            log.exception("round abandoned", extra={"step": round_.step})
            await self._move(Phase.ABANDONED)
        else:
            await self._store.add_release(made.stored, round_.id)
            self._model = made
            log.info("released", extra={"version": made.stored.version, "updates": total.devices})
            await self._store.prune_releases(self._settings.releases.keep)
        self._round = None
