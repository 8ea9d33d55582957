"""The coordinator: the only owner of round state.

Every change of the round happens under one lock, with no await between reading and writing it;
what is stored is stored before it is counted. CPU work (verify, unseal, sum) runs in threads.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedrap_coordinator.admission import check_envelope, read_update
from fedrap_coordinator.aggregator import Aggregator
from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.participation import why_not, why_too_new
from fedrap_coordinator.releases import (
    Model,
    Served,
    first_model,
    load_model,
    next_model,
    plan_after,
    serve_release,
    serve_since,
)
from fedrap_coordinator.round_keys import RoundKeys
from fedrap_coordinator.rounds import Phase, Round
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.statement import privacy_document
from fedrap_coordinator.store.protocol import Added, CatalogueView, Store
from fedrap_core.errors import BrokenModel
from fedrap_core.items import is_item_id, join_ids
from fedrap_core.plan import Plan
from fedrap_core.wire import problems
from fedrap_core.wire.codec import decode_value, encode_value
from fedrap_core.wire.messages import (
    Accepted,
    Catalogue,
    Offer,
    OfferRequest,
)

log = logging.getLogger(__name__)
KEPT_DELTAS = 16  # in memory, for devices that come back at about the same time


class Coordinator:
    """One task: its devices, its rounds, its releases. `clock` gives seconds of wall time."""

    def __init__(
        self, store: Store, keyring: Keyring, settings: Settings, clock: Callable[[], float]
    ) -> None:
        self.store = store
        self.keyring = keyring
        self._settings = settings
        self._clock = clock
        self._aggregator = Aggregator(keyring, settings.serve.max_body_bytes)
        self._keys = RoundKeys(keyring, settings.sealing.rotate_hours, clock)
        self._turn = asyncio.Lock()
        self._plan = settings.plan()
        self._task = b""
        self._model: Model | None = None
        self._round: Round | None = None
        self._deltas: dict[tuple[int, int], Served] = {}

    @property
    def task(self) -> bytes:
        """The id of the task; known after `start`."""
        return self._task

    @property
    def round(self) -> Round | None:
        """The open round, as a value."""
        return self._round

    async def start(self) -> None:
        """Take up where the store left off: the latest release, and the round that was open.

        Raises:
            StoreUnavailable, ConfigError: nothing was changed, and the store was given back.
        """
        try:
            await self.store.open()
            self._task = await self.store.task_id(os.urandom(16))
            stored = await self.store.release(None)
            if stored is not None:
                self._model = await asyncio.to_thread(load_model, stored)
                self._check_settings(self._model)
            async with self._turn:
                await self._resume()
                await self._advance()
        except BaseException:
            await self.store.close()
            raise

    def _check_settings(self, model: Model) -> None:
        """A task keeps its method and its k; everything else an operator may change."""
        method, known = self._settings.method, model.common.dim
        same = type(model.message.scoring) is type(self._settings.released_scoring())
        if method.dim != known or not same:
            raise ConfigError(
                f"this database holds a task of another method or another dim ({known}); "
                "set them back, or start a new task with a new database"
            )

    async def stop(self) -> None:
        """Put the open round to sleep and give the store back."""
        async with self._turn:
            if self._round is not None and self._round.phase is Phase.COLLECTING:
                await self._move(Phase.SHUTDOWN)
            await self.store.close()

    async def offer(self, device: bytes, request: OfferRequest) -> Offer:
        """A place in the open round for a device that may take part; asking twice costs once."""
        async with self._turn:
            await self._advance()
            round_, model = self._round, self._model
            if round_ is None and self._is_over():
                raise Refusal(problems.TASK_OVER)
            if round_ is None or model is None or round_.phase is not Phase.COLLECTING:
                raise self._later(problems.NO_ROUND)
            if request.release != round_.release:
                raise Refusal(
                    problems.STALE_MODEL,
                    f"this round trains release {round_.release}; fetch it and ask again",
                    retry_after=0,
                )
            if not await self.store.is_assigned(round_.id, device):
                await self._give_place(round_, device)
            return self._offer(round_, model)

    async def accept(self, device: bytes, round_id: bytes, body: bytes) -> Accepted:
        """Verify, unseal, decode, admit, store: what is answered with Accepted is never lost."""
        digest = hashlib.sha256(body).digest()
        receipt = Accepted(round=round_id, digest=digest)
        if await self.store.update_digest(round_id, device) == digest:
            return receipt
        try:
            await self._admit(device, round_id, digest, body)
        except Refusal as refusal:
            # The same bytes may have come in twice at once, and the first have ended the round.
            late = refusal.problem is problems.ROUND_CLOSED
            if not late or await self.store.update_digest(round_id, device) != digest:
                raise
        return receipt

    async def advance(self) -> None:
        """Let time pass: end, abandon or open rounds as the law says."""
        async with self._turn:
            await self._advance()

    async def release(self, version: int | None) -> Served:
        """A version of C, or the latest, ready to serve."""
        model = self._model
        if model is not None and version in (None, model.stored.version):
            return model.served
        if version is None:
            raise Refusal(
                problems.UNAVAILABLE, "there is no release yet: the catalogue is empty",
                self._settings.serve.retry_seconds,
            )  # fmt: skip
        stored = await self.store.release(version)
        if stored is None:
            raise Refusal(problems.NOT_FOUND, f"there is no release {version}")
        return await asyncio.to_thread(serve_release, stored)

    async def release_since(self, have: int) -> Served:
        """The latest release for a device that holds version `have`: a delta where that pays."""
        model = self._model
        if model is None or have >= model.stored.version:
            return await self.release(None)
        known = self._deltas.get((have, model.stored.version))
        if known is None:
            old = await self.store.release(have)
            if old is None:  # too old to be kept, or never was
                return model.served
            known = await asyncio.to_thread(serve_since, old, model)
            if len(self._deltas) >= KEPT_DELTAS:
                self._deltas.clear()
            self._deltas[have, model.stored.version] = known
        return known

    def privacy(self) -> dict[str, Any]:
        """What is promised under the plan in force; spec 5.7."""
        released = 0 if self._model is None else self._model.stored.step
        return privacy_document(self._plan, self._settings.round, self._task, released)

    async def catalogue(self, start: int) -> Catalogue:
        """The items from row `start` on."""
        view = await self.store.catalogue(start)
        return await asyncio.to_thread(_pack_catalogue, view, start)

    async def add_items(self, items: Sequence[str]) -> int:
        """New items get rows at once, and numbers in C with the next release.

        Raises:
            ConfigError: an id is empty, longer than 200 characters or has a line break.
        """
        for place, item in enumerate(items, 1):
            if not is_item_id(item):
                raise ConfigError(f"item {place}: an id has 1 to 200 characters and no line break")
        count = await self.store.add_items(items)
        await self.advance()
        return count

    async def _resume(self) -> None:
        found = await self.store.current_round()
        if found is None:
            return
        self._round, raw = found
        self._plan = decode_value(Plan, raw)  # a round keeps the rules that it was opened with
        if not self._round.seal_id:  # opened before keys were rotated
            self._round = replace(self._round, seal_id=self.keyring.seal_id)
        if self._round.phase is Phase.SHUTDOWN:
            await self._move(Phase.COLLECTING)
        if not self._keys.has(self._round.seal_id):  # its updates cannot be opened any more
            await self._move(Phase.ABANDONED)
            self._round = None
        else:  # a kill -9 may have come before the last keys were destroyed
            await self._keys.tidy({self._round.seal_id})

    def _is_over(self) -> bool:
        """The budget of rounds is spent; no settings but `total` open another one."""
        return self._model is not None and self._model.stored.step >= self._settings.round.total

    async def _advance(self) -> None:
        """Everything that is due now. Only called with the lock held."""
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

    async def _make_first_release(self) -> None:
        view = await self.store.extent()
        if view.items:
            model = await asyncio.to_thread(first_model, self._task, view, self._settings)
            await self.store.add_release(model.stored, None)
            self._model = model

    async def _open_round(self) -> None:
        if self._model is None or self._is_over():
            await self._keys.tidy(set())
            return
        self._plan = plan_after(self._model, self._settings)
        stored, now = self._model.stored, self._clock()
        seal = await self._keys.for_a_round()
        round_ = Round(os.urandom(16), stored.step + 1, stored.version, now, seal_id=seal)
        await self.store.open_round(round_, encode_value(self._plan))
        self._round = round_
        await self._keys.tidy({seal})
        log.info("round opened", extra={"step": round_.step, "release": round_.release})

    async def _move(self, phase: Phase) -> None:
        assert self._round is not None
        moved = self._round.to(phase)
        await self.store.set_phase(moved.id, phase)
        self._round = moved
        log.info(
            "round moved",
            extra={"step": moved.step, "phase": phase.value, "updates": moved.accepted},
        )

    async def _give_place(self, round_: Round, device: bytes) -> None:
        if not round_.has_room(self._settings.round):
            raise self._later(problems.NO_ROUND)
        rule, now = self._plan.privacy, self._clock()
        if await self.store.assign(round_.id, device, round_.step, rule.separation, rule.cap, now):
            self._round = round_.with_assigned()
            return
        known = await self.store.device(device)
        if known is None:
            raise Refusal(problems.NOT_ENROLLED)
        problem = why_not(known.last_step, known.participations, round_.step, rule)
        if problem is problems.BUDGET_SPENT:
            raise Refusal(problem)  # time does not cure it
        new = why_too_new(known.first_step, known.not_before, known.free_at, round_.step, now)
        raise self._later(problem or new or problems.TOO_SOON)

    def _offer(self, round_: Round, model: Model) -> Offer:
        age = self._clock() - round_.opened_at
        return Offer(
            task=self._task,
            round=round_.id,
            step=round_.step,
            plan=encode_value(self._plan),
            release=round_.release,
            model=model.message.model,
            seal_key=self.keyring.point(round_.seal_id),
            seal_id=round_.seal_id,
            closes_in=max(0.0, self._settings.round.max_seconds - age),
        )

    async def _open_offer(self, round_id: bytes) -> tuple[Offer, Model]:
        """The open round's offer; refuses with the reason when `round_id` is not that round."""
        round_, model = self._round, self._model
        if round_ is not None and model is not None and round_.id == round_id:
            if round_.phase is Phase.COLLECTING:
                return self._offer(round_, model), model
        elif await self.store.round_phase(round_id) is None:
            raise Refusal(problems.NOT_FOUND, "there never was such a round")
        raise self._later(problems.ROUND_CLOSED)

    async def _admit(self, device: bytes, round_id: bytes, digest: bytes, body: bytes) -> None:
        update = read_update(body, self._settings.serve.max_body_bytes)
        offer, model = await self._open_offer(round_id)
        check_envelope(update, offer, device)
        if not await self.store.is_assigned(round_id, device):
            raise Refusal(problems.NOT_ASSIGNED)
        await asyncio.to_thread(self._aggregator.check, update, model.common)
        async with self._turn:
            await self._keep(device, round_id, digest, body)
            await self._advance()

    async def _keep(self, device: bytes, round_id: bytes, digest: bytes, body: bytes) -> None:
        round_ = self._round
        if round_ is None or round_.id != round_id or round_.phase is not Phase.COLLECTING:
            raise self._later(problems.ROUND_CLOSED)
        added = await self.store.add_update(round_id, device, digest, body, self._clock())
        if added is Added.CONFLICT:
            raise Refusal(problems.CONFLICTING_UPDATE)
        if added is Added.STORED:
            self._round = round_.with_accepted()

    async def _release_round(self) -> None:
        """Sum what was stored, learn, publish. Repeatable until the release is in the store."""
        assert self._round is not None
        assert self._model is not None
        round_, model, view = self._round, self._model, await self.store.extent()
        try:
            summed = await self._aggregator.total(
                self.store.sealed_updates(round_.id),
                model.common,
                self._plan,
                self._task,
                round_.step,
            )
            total = summed.total
            made = await asyncio.to_thread(
                next_model, self._task, model, total, view, self._settings, summed.clip
            )
        except BrokenModel:
            log.exception("round abandoned", extra={"step": round_.step})
            await self._move(Phase.ABANDONED)
        else:
            await self.store.add_release(made.stored, round_.id)
            self._model = made
            log.info("released", extra={"version": made.stored.version, "updates": total.devices})
        self._round = None

    def _later(self, problem: problems.Problem) -> Refusal:
        """A refusal that says when to come back, spread so that devices do not all come at once."""
        wait = self._settings.serve.retry_seconds
        spread = int.from_bytes(os.urandom(2), "big") / 65536
        return Refusal(problem, retry_after=wait * (1 + spread))


def _pack_catalogue(view: CatalogueView, start: int) -> Catalogue:
    return Catalogue(
        version=view.version,
        start=start,
        count=len(view.items),
        items=join_ids(list(view.items)),
        retired=np.array(view.retired, dtype="<u4").tobytes(),
    )
