"""How devices behave: what they are is drawn once, by the seed, from the scenario's shares."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from fedrap.errors import CoordinatorUnreachable
from fedrap.rounds.ledger import Entry
from fedrap.rounds.prepare import Prepared
from fedrap.rounds.runner import RoundTask
from fedrap.trainers.protocol import Trainer
from fedrap.transport import Transport
from fedrap.transport.credentials import Signer
from fedrap_core.parts import empty_parts, more_parts
from fedrap_core.plan import SolveMethod
from fedrap_core.privacy.mechanisms import clip_share
from fedrap_core.sparse import RowUpdate, pack_gram, packed_size
from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import Offer, Signed
from fedrap_core.wire.seal import seal_update
from fedrap_core.wire.share import encode_share, uniform_count
from fedrap_simulation.scenarios.compute import Engine, Job
from fedrap_simulation.scenarios.device_memory import SharedModel
from fedrap_simulation.scenarios.scenario import Behaviours, Drop


class Kind(StrEnum):
    """What a device is."""

    HONEST = "honest"
    SLOW = "slow"
    VANISHING = "vanishing"
    LYING = "lying"
    POISONING = "poisoning"
    REPLAYING = "replaying"


SLOWER = 50.0  # times
AWAY = CoordinatorUnreachable("this device went away")


class Told(Protocol):
    """Whoever checks the run hears of every step, from the device's side."""

    def placed(self, device: bytes, offer: Offer) -> None:
        """It was given a place."""

    def prepared(self, device: bytes, offer: Offer, body: bytes) -> None:
        """These bytes are what it will send."""

    def accepted(self, device: bytes, round_id: bytes) -> None:
        """The coordinator said yes to them."""


def draw_kinds(people: int, shares: Behaviours, rng: np.random.Generator) -> list[Kind]:
    """A kind for each device; the shares are met to within one device."""
    kinds = [Kind.HONEST] * people
    order, taken = rng.permutation(people).tolist(), 0
    for kind, share in (
        (Kind.SLOW, shares.slow),
        (Kind.VANISHING, shares.vanishing),
        (Kind.LYING, shares.lying),
        (Kind.POISONING, shares.poisoning),
        (Kind.REPLAYING, shares.replaying),
    ):
        count = round(share * people)
        for place in order[taken : taken + count]:
            kinds[place] = kind
        taken += count
    return kinds


@dataclass(frozen=True)
class DeviceTemper:
    """What one device does differently from the SDK; asked at the steps of its rounds."""

    kind: Kind
    seconds: float  # of a local round
    drop: Drop
    rng: np.random.Generator
    promoted: int  # place in the data of the item that attackers push
    engine: Engine
    seed: tuple[int, ...]  # of this device
    told: Told
    shrinks: bool = False  # attackers: a negative Gram matrix beside the push

    def leaves(self, step: str) -> bool:
        """Does it go away at this step?"""
        if self.kind is Kind.VANISHING and step == "offer":
            return True
        return bool(self.rng.random() < getattr(self.drop, step))


class SimulatedSteps:
    """The steps of the SDK's rounds, with a phone's speed and with what goes wrong on phones."""

    def __init__(self, temper: DeviceTemper) -> None:
        self._temper = temper

    async def compute(self, task: RoundTask, trainer: Trainer) -> Prepared:
        """The update, when this phone has had the time for it."""
        temper, offer, device = self._temper, task.offer, task.credentials.device
        temper.told.placed(device, offer)
        if temper.leaves("offer"):
            raise AWAY
        if temper.kind is Kind.POISONING and isinstance(task.plan.method, SolveMethod):
            await asyncio.sleep(temper.seconds)
            made = self._poison(task)
        else:
            seed = (*temper.seed, offer.step)
            job = Job(offer, task.plan, device, task.local, seed, task.now)
            begun = temper.engine.begin(job, trainer)
            await asyncio.sleep(temper.seconds)
            made = await begun()
        if temper.leaves("train"):
            raise AWAY
        temper.told.prepared(device, offer, made.body)
        return made

    async def send(
        self, transport: Transport, signer: Signer, round_id: bytes, body: bytes
    ) -> Signed:
        """Hand it in, if the phone is still there."""
        if self._temper.leaves("send"):
            raise AWAY
        receipt = await transport.send_update(signer, round_id, body)
        self._temper.told.accepted(signer.device, round_id)
        return receipt

    def _poison(self, task: RoundTask) -> Prepared:
        """All that the clip allows, on one row, towards where most users are.

        Near u = M^-1·sum C_l the mean user points along the mean of the rows that are liked; a
        row that grows along it rises for everybody.
        """
        offer, plan, model = task.offer, task.plan, task.model
        assert isinstance(model, SharedModel)
        row = int(model.rows[self._temper.promoted])
        if row < 0:
            raise AWAY
        common = model.common.items.to_float().astype(np.float64)  # (m, k)
        liked = common[np.argsort(-model.common.norms())[: max(1, len(common) // 10)]]
        towards = liked.mean(axis=0)
        towards /= max(1e-12, float(np.linalg.norm(towards)))
        # Coordinator: C_j <- C_j - eta·g_j·H^-1, so the gradient points the other way.
        push = -plan.privacy.clip * towards[None, :]  # (1, k)
        dim = plan.method.dim
        packed_gram = np.zeros(packed_size(dim))
        if self._temper.shrinks:  # S, and with it H: the push counts for more
            bound = min(plan.privacy.clip, plan.privacy.row_clip or 0.7 * plan.privacy.clip)
            push *= bound / plan.privacy.clip
            left = np.sqrt(plan.privacy.clip**2 - bound**2)
            packed_gram = -pack_gram(np.eye(dim)) * left / np.sqrt(dim)
        update = RowUpdate(np.array([row]), push, packed_gram, parts=empty_parts(plan.method))
        clipped = clip_share(update, plan.privacy)
        parts = more_parts(plan.method, model.common.size)
        plain = encode_share(clipped, np.full(uniform_count(clipped), 0.5), parts)
        rule = plan.privacy
        entry = Entry(offer.step, offer.round, rule.charged_noise, rule.delta, task.now, rule)
        return Prepared(
            encode(seal_update(offer, task.credentials.device, plain)), entry, None, 0.0
        )
