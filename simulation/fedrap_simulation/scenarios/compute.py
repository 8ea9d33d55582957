"""Where a device's local round is computed: here, or on the workers of a Ray cluster.

A round is handed in when the device begins with it and asked for when its time is over, so all
devices that compute at the same moment of the scenario's clock compute at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedrap.rounds.prepare import LocalData, Prepared, prepare_update
from fedrap.trainers.protocol import Trainer
from fedrap_core.errors import FedRapError
from fedrap_core.plan import Plan
from fedrap_core.wire.messages import Offer

WORKERS = 2
KEPT = 8  # releases that workers are sent once
Result = Callable[[], Awaitable[Prepared]]


@dataclass(frozen=True, eq=False)
class Job:
    """One device's local round; everything it follows from."""

    offer: Offer
    plan: Plan
    device: bytes
    local: LocalData
    seed: tuple[int, ...]  # of the numbers that it draws
    now: float


def compute(job: Job, trainer: Trainer) -> Prepared:
    """The SDK's own function, with numbers that repeat."""
    rng = np.random.default_rng(job.seed)
    return prepare_update(job.offer, job.plan, job.device, job.local, trainer, rng.random, job.now)


class Engine(Protocol):
    """Computes local rounds."""

    @property
    def name(self) -> str:
        """What the report calls it."""

    def begin(self, job: Job, trainer: Trainer) -> Result:
        """Start with it; whoever asks gets the result or what went wrong. Nobody has to ask."""

    def close(self) -> None:
        """Give the workers back."""


class LocalEngine:
    """In this process, off the event loop."""

    name = "local"

    def begin(self, job: Job, trainer: Trainer) -> Result:
        return lambda: asyncio.to_thread(compute, job, trainer)

    def close(self) -> None:
        pass


class RayEngine:
    """On a Ray cluster: the one at `address`, or two workers on this machine.

    Raises:
        FedRapError: ray is not installed; says what to install.
    """

    name = "ray"

    def __init__(self, address: str | None = None) -> None:
        try:
            import ray
        except ImportError as error:
            how = "pip install 'fedrap-simulation[ray]'"
            raise FedRapError(f"--engine ray needs ray: {how}") from error
        self._ray = ray
        if not ray.is_initialized():
            here: dict[str, Any] = (
                {} if address else {"num_cpus": WORKERS, "include_dashboard": False}
            )
            ray.init(address=address, log_to_driver=False, configure_logging=False, **here)
        self._task = ray.remote(_compute_remotely)
        self._models: dict[bytes, Any] = {}

    def begin(self, job: Job, trainer: Trainer) -> Result:
        model = self._models.get(job.offer.model)
        if model is None:
            if len(self._models) >= KEPT:
                self._models.clear()
            model = self._ray.put((job.local.common, job.local.gram))
            self._models[job.offer.model] = model
        small = (job.offer, job.plan, job.device, job.local.history, job.local.trained)
        reference = self._task.remote(model, small, job.seed, job.now)
        return lambda: asyncio.to_thread(self._result, reference)

    def _result(self, reference: Any) -> Prepared:
        made: Prepared = self._ray.get(reference)
        return made

    def close(self) -> None:
        self._ray.shutdown()


def _compute_remotely(model: Any, small: Any, seed: tuple[int, ...], now: float) -> Prepared:
    from fedrap.trainers.numpy_trainer import NumpyTrainer

    (common, gram), (offer, plan, device, history, trained) = model, small
    local = LocalData(common, gram, history, trained)
    return compute(Job(offer, plan, device, local, seed, now), NumpyTrainer())


def make_engine(name: str, address: str | None = None) -> Engine:
    """The engine of that name.

    Raises:
        FedRapError: it cannot run here.
    """
    return RayEngine(address) if name == "ray" else LocalEngine()
