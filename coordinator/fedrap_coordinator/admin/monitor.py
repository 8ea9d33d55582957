"""Looks at a running coordinator: gauges, the dashboard, and what is noted of each round.

It changes no round. Refusals are gathered in memory and written once a second, for a row per
refusal would cost more than the refusal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

import msgspec
import numpy as np

from fedrap_coordinator.admin import documents
from fedrap_coordinator.admin.documents import CatalogueFigures, Dashboard, Traffic
from fedrap_coordinator.admin.health import Seen, health, of_the_database
from fedrap_coordinator.admin.quality import (
    quality_gauges,
    question_line,
    rollout_gauges,
    rollout_line,
)
from fedrap_coordinator.domain.records import DeviceStates
from fedrap_coordinator.errors import StoreGone
from fedrap_coordinator.rounds.coordinator import Coordinator
from fedrap_coordinator.rounds.releases import Model
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.privacy.accounting import gaussian_epsilon
from fedrap_core.privacy.statement import state_policy

log = logging.getLogger(__name__)
QUESTIONS = 40  # that are looked at, the newest
ROLLOUTS = 3  # that are shown, the newest
LOOK_SECONDS = 1.0  # between two looks
SLOW_SECONDS = 10.0  # between two counts of all devices
PHASES = ("none", "collecting", "summing", "shutdown")  # as numbers, in the gauges
STATES = ("ready", "resting", "waiting", "spent", "expired", "revoked")
MOST_OF_TIME = 0.01  # that counting takes: of a million devices it is done less often


class RequestCounts(Protocol):
    """What a process counts of its requests; the HTTP side has the implementation."""

    bytes_up: int
    bytes_down: int

    def take_refusals(self) -> dict[str, int]:
        """What was refused to devices in rounds since the last call."""
        ...

    def give_back(self, counts: Mapping[str, int]) -> None:
        """They could not be written down; they come with the next call."""
        ...

    def observe_round(self, phase: str, seconds: float) -> None:
        """A round is over."""
        ...


class Monitor:
    """One for each process."""

    def __init__(
        self,
        store: Store,
        coordinator: Coordinator,
        settings: Settings,
        sources: Sources,
        requests: RequestCounts,
        in_hand: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self._requests = requests
        self._store = store
        self._coordinator = coordinator
        self._settings = settings
        self._clock, self._monotonic = sources.clock, sources.monotonic
        self._in_hand = in_hand
        self._states = DeviceStates()
        self._catalogue = CatalogueFigures()
        self._tokens = 0
        self._quality: dict[str, float] = {}
        self._counted_at, self._counted_step = -math.inf, 0
        self._rest = 0.0  # seconds that the last count asks for
        self._zeros = (0, 0.0)  # version, share
        self._seen: bytes | None = None
        self._since = sources.clock()
        self._noted: set[bytes] = set()
        self._document: bytes = b""
        self._last: Dashboard | None = None
        self._changed = asyncio.Event()
        self._listeners = 0

    def gauges(self) -> Mapping[str, float]:
        """What is true now, without a word to the database."""
        coordinator = self._coordinator
        found: dict[str, float] = {}
        round_, model, rule = coordinator.round, coordinator.model, coordinator.plan.privacy
        if round_ is not None:
            found |= {
                "phase": float(PHASES.index(round_.phase.value)),
                "round_step": float(round_.step),
                "round_assigned": float(round_.assigned),
                "round_accepted": float(round_.accepted),
                "round_age_seconds": max(0.0, self._clock() - round_.opened_at),
            }
        if model is not None:
            found |= {
                "release_version": float(model.stored.version),
                "release_step": float(model.stored.step),
                "common_items": float(model.common.size),
                "common_zeros": self._share_of_zeros(model),
            }
        stated = state_policy(rule, self._states.most_promised)
        waiting, waiting_bytes = self._in_hand()
        return found | {
            "task_rounds": float(self._coordinator.settings.round.total),
            "round_max_seconds": self._settings.round.max_seconds,
            "database_serves": float(coordinator.is_ready),
            "helper_serves": float(not coordinator.helper_trouble),
            **{f"devices_{name}": float(getattr(self._states, name)) for name in STATES},
            "epsilon_promised": stated.epsilon,
            "epsilon_spent": gaussian_epsilon(math.sqrt(self._states.most_spent), rule.delta),
            **self._quality,
            "ingest_queue": float(waiting),
            "ingest_queue_bytes": float(waiting_bytes),
        }

    def _share_of_zeros(self, model: Model) -> float:
        if self._zeros[0] != model.stored.version:
            share = float(np.mean(model.common.items.values == 0))
            self._zeros = (model.stored.version, share)
        return self._zeros[1]

    async def run(self) -> None:
        """Look once a second, for ever; a database that is away is no reason to stop."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except StoreGone:  # the store has said so, once; the dashboard says it all the time
                if self._listeners and self._last is not None:
                    await self._tell()
            except Exception:
                log.exception("could not look at the coordinator; trying again")

    async def look(self) -> None:
        """Note what was refused and which rounds ended; tell those who listen."""
        await self._count()
        await self._note_refusals()
        await self._note_rounds()
        if self._listeners:
            await self._tell()

    async def _note_refusals(self) -> None:
        round_, counts = self._coordinator.round, self._requests.take_refusals()
        round_id = self._seen if round_ is None else round_.id
        if not counts or round_id is None:
            return
        try:
            await self._store.add_refusals(round_id, counts)
        except BaseException:
            self._requests.give_back(counts)
            raise

    async def _note_rounds(self) -> None:
        round_ = self._coordinator.round
        current = None if round_ is None else round_.id
        if current == self._seen:
            return
        self._seen = current or self._seen
        for row in await self._store.rounds(8):
            if row.closed_at is not None and row.closed_at >= self._since:
                if row.id not in self._noted:
                    self._requests.observe_round(row.phase.value, row.closed_at - row.opened_at)
                self._noted.add(row.id)
        if len(self._noted) > 1000:
            self._noted, self._since = set(), self._clock()

    async def _count(self) -> None:
        """Devices by state and the catalogue; a pass over all of them, so not at every look.

        A million devices take a second, and are counted again when 99 more have passed.
        """
        round_, model = self._coordinator.round, self._coordinator.model
        step = 1 if model is None else model.stored.step + 1
        if round_ is not None:
            step = round_.step
        extent = await self._store.extent()
        if self._catalogue.version != extent.catalogue:
            self._catalogue = await documents.catalogue_figures(self._store)
        age = self._clock() - self._counted_at
        if age < self._rest or (step == self._counted_step and age < SLOW_SECONDS):
            return
        self._counted_at, self._counted_step = self._clock(), step
        rule, started = self._coordinator.plan.privacy, self._monotonic()
        self._states = await self._store.device_states(step, rule, self._clock())
        self._tokens = (await self._store.counts()).tokens
        rows = await self._store.questions(QUESTIONS)
        self._quality = quality_gauges([question_line(row) for row in rows], self._clock())
        last = [await rollout_line(self._store, row) for row in await self._store.rollouts(1)]
        self._quality |= rollout_gauges(last[0] if last else None)
        self._rest = (self._monotonic() - started) / MOST_OF_TIME

    def privacy(self) -> dict[str, Any]:
        """The privacy guarantee, with what devices had spent when they were counted last."""
        return self._coordinator.privacy(self._states)

    async def document(self) -> Dashboard:
        """Everything that the dashboard shows.

        While the database is away, what was true when it was last asked, with its age.

        Raises:
            StoreGone: it was never asked.
        """
        try:
            self._last = await self._fresh_document()
        except StoreGone:
            if self._last is None:
                raise
            trouble = self._store.trouble or "away"
            self._last = msgspec.structs.replace(
                self._last, now=self._clock(), health=of_the_database(trouble)
            )
        return self._last

    async def _fresh_document(self) -> Dashboard:
        await self._count()
        coordinator, store = self._coordinator, self._store
        round_, rows = coordinator.round, await store.rounds(documents.ROUNDS)
        privacy = self.privacy()
        charged = self._states.charged
        privacy["spent"]["devices"] = {str(times): count for times, count in charged.items()}
        now, releases = self._clock(), await store.release_history(documents.RELEASES)
        seen = Seen(
            self._store.trouble, coordinator.model is not None, coordinator.is_over,
            coordinator.settings.round.total, coordinator.limits, self._states, rows,
            await store.rollout(), coordinator.helper_trouble, releases, now,
        )  # fmt: skip
        return Dashboard(
            at=now,
            now=now,
            health=health(seen),
            program=documents.program_version(),
            task=coordinator.task.hex(),
            method=privacy["method"],
            dim=self._settings.method.dim,
            over=coordinator.is_over,
            round=None
            if round_ is None
            else documents.open_round(round_, coordinator.limits, coordinator.slots),
            rounds=documents.round_lines(rows, await store.refusals(documents.ROUNDS)),
            releases=documents.release_lines(releases),
            quality=documents.quality_lines(await store.quality(200)),
            questions=[question_line(row) for row in await store.questions(QUESTIONS)],
            rollouts=[await rollout_line(store, row) for row in await store.rollouts(ROLLOUTS)],
            privacy=privacy,
            devices=documents.device_figures(self._states, self._tokens),
            catalogue=self._catalogue,
            traffic=Traffic(bytes_up=self._requests.bytes_up, bytes_down=self._requests.bytes_down),
        )

    async def _tell(self) -> None:
        self._document = msgspec.json.encode(await self.document())
        told, self._changed = self._changed, asyncio.Event()
        told.set()

    async def documents(self) -> AsyncIterator[bytes]:
        """The document now, and again after each look; made once for all who listen."""
        self._listeners += 1
        try:
            yield msgspec.json.encode(await self.document())
            while True:
                await self._changed.wait()
                yield self._document
        finally:
            self._listeners -= 1

    async def is_served(self) -> bool:
        """Does the database answer?"""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(2):
                await self._store.extent()
                return True
        return False

    @property
    def has_release(self) -> bool:
        """Is there something that devices can be given?"""
        return self._coordinator.model is not None
